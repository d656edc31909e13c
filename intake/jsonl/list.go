// Package jsonl keeps a set of a catalog in step with JSON Lines: a file that lists
// the resources or their changes, or a stream of either.
package jsonl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/internal/filestat"
	"lockstep/internal/fetch"
	"lockstep/internal/sleep"
)

// Options configures a [List]. The zero value is ready to use.
type Options struct {
	// Complete declares that a stream lists the whole set: resources that it has not
	// named by its end are deleted. A file shows this itself; see [List].
	Complete bool

	// AllowEmpty lets a scan delete everything, or most of the set.
	AllowEmpty bool

	// TempDir is for an unnamed temporary file in which a long list is sorted;
	// default: that of the system.
	TempDir string

	// State is the path of a file that stores, from run to run, the state of the
	// list when it was read last. Beside it, in a file whose name ends in .chunks, are
	// the URIs of a long list that names the whole set: with them, the next scan parses
	// only those parts of the list that have changed. Default: none, and each run reads
	// all of the list again even if it is unchanged.
	State string

	// ScanInterval is how often Watch checks whether the file has changed;
	// default [DefaultInterval]; negative: never.
	ScanInterval time.Duration

	// Client is used by Bitstream; without one no representation can be opened.
	Client *fetch.Client

	// OnEvent receives events, never concurrently; may be nil. It must not call the
	// List.
	OnEvent func(intake.Event)
}

// DefaultInterval keeps a Source at most two seconds behind the file: a check costs
// one system call.
const DefaultInterval = intake.FileInterval

// A List keeps a set of a catalog in step with JSON Lines: a file, or a stream
// such as standard input. Each line is a JSON object that describes one resource,
// which may be on any server:
//
//	{"uri":"https://example.org/a","lastmod":"2024-05-17T09:30:00Z","length":7,
//	 "hash":"sha-256:…","type":"text/plain","encoding":"gzip","change":"updated",
//	 "links":[{"rel":"describedby","href":"https://example.org/a.xml"}]}
//
// Only uri is required. A file in which no line has the field change lists the whole
// set: resources that it does not name are deleted. A file in which any line has it,
// and a stream, is a list of changes: only the resources that it names change, and
// only those with the change "deleted" are deleted. If several lines of a file name
// one resource, the last one counts; those of a stream are applied one after the
// other.
//
// A line that is not a valid entry is a Problem, an [*intake.LineError]. The other
// lines are applied, but then no resource is deleted because it is not named. Nor is
// one deleted if the file changes while it is read, or changed just before and does
// so again.
//
// Only one List may fill a set. Its methods are safe for concurrent use; scans run
// one at a time.
type List struct {
	in     intake.Origin
	path   string
	stream *lineStream // nil: path is a file
	o      Options
	web    *intake.Web

	scanning sync.Mutex // held by a scan; guards the following fields
	memory   memory
	recalled bool   // memory was read from State
	seen     string // mark of the file at the last check, whether it was applied or not

	chunkMean int // mean length of chunks in bytes; 0: the default
}

// New returns a List that fills the set of cat from the file at path.
func New(path string, cat catalog.Catalog, set string, o Options) (*List, error) {
	if path == "" {
		return nil, errors.New("JSON Lines: the path of the file is missing")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("JSON Lines %s: %w", path, err)
	}
	j := newList(path, cat, set, o)
	j.path = abs
	return j, nil
}

// NewStream returns a List that fills the set of cat from r, called name
// in messages. The stream is read once, by the first Scan or Watch; its lines are in
// the catalog within a second.
func NewStream(r io.Reader, name string, cat catalog.Catalog, set string, o Options) *List {
	j := newList(name, cat, set, o)
	j.stream = &lineStream{r: r}
	return j
}

func newList(name string, cat catalog.Catalog, set string, o Options) *List {
	if o.ScanInterval == 0 {
		o.ScanInterval = DefaultInterval
	}
	return &List{
		in: intake.Origin{Name: name, Catalog: cat, Set: set, TempDir: o.TempDir, AllowEmpty: o.AllowEmpty, Events: intake.Reporter{OnEvent: o.OnEvent}},
		o:  o, web: intake.NewWeb(o.Client),
	}
}

// Scan brings the catalog in step with the present file; a stream it reads to its
// end. The Report is correct, as far as the scan got, even if there is an error.
func (j *List) Scan(ctx context.Context) (intake.Report, error) {
	if j.stream == nil {
		j.scanning.Lock()
	} else if !j.scanning.TryLock() {
		return intake.Report{}, nil // Watch reads the stream, perhaps as long as the process runs
	}
	defer j.scanning.Unlock()
	l := j.in.NewListing()
	defer l.Close()
	stop := l.Progress()
	defer stop()
	var err error
	switch {
	case j.stream == nil:
		err = j.scanFile(ctx, l)
	case j.o.Complete:
		err = j.takeStream(ctx, l)
	default:
		err = j.follow(ctx, l, false, nil)
	}
	if err != nil {
		return l.Report(), fmt.Errorf("scan %s: %w", j.in.Name, intake.Cause(ctx, err))
	}
	return l.Report(), nil
}

// Watch scans at once, and again when the file has changed, until ctx ends;
// then it returns the cause. A stream's lines are applied as they arrive, and again if that
// fails. onChange is called after every change to the catalog, and after a failure, which may
// have changed more than is reported; the next change waits until it returns. Errors are
// reported to [Options.OnEvent].
func (j *List) Watch(ctx context.Context, onChange func(intake.Report)) error {
	if j.stream == nil {
		return j.in.Watch(ctx, j.Scan, j.changed, onChange)
	}
	if j.o.Complete {
		return j.in.Watch(ctx, j.Scan, j.unapplied, onChange)
	}
	j.scanning.Lock()
	defer j.scanning.Unlock()
	l := j.in.NewListing()
	err := j.follow(ctx, l, true, onChange)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		err = fmt.Errorf("read %s: %w", j.in.Name, err)
	}
	j.in.Events.Emit(intake.Event{Kind: intake.EventScanned, Err: err, Report: l.Report()})
	return intake.Forever(ctx)
}

// Bitstream opens the representation of r at its URI. See [intake.Web.Bitstream].
func (j *List) Bitstream(ctx context.Context, r *catalog.Record) (io.ReadCloser, error) {
	return j.web.Bitstream(ctx, r)
}

// changed waits until the file differs from the last check and is no longer being
// written.
func (j *List) changed(ctx context.Context) error {
	if j.o.ScanInterval < 0 {
		return intake.Forever(ctx)
	}
	j.scanning.Lock()
	seen := j.seen
	j.scanning.Unlock()
	last := seen
	var since time.Time // when the file was first seen to differ
	for {
		if err := sleep.For(ctx, j.o.ScanInterval); err != nil {
			return err
		}
		now := filestat.MarkAt(j.path)
		switch {
		case now == seen:
			last, since = now, time.Time{}
			continue
		case since.IsZero():
			since = time.Now()
		}
		if now == last || time.Since(since) > intake.Patience {
			return nil
		}
		last = now
	}
}
