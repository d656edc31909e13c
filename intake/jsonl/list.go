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
)

// Options configures a [List]. The zero value is ready to use.
type Options struct {
	// Complete says that a stream lists the whole set: what it does not name by
	// its end is gone. Of a file that shows by itself.
	Complete bool

	// AllowEmpty lets a scan delete everything, or most of the set.
	AllowEmpty bool

	// TempDir is for a file without a name in which a long list is sorted;
	// default the system's.
	TempDir string

	// State is the path of a file in which is kept, from run to run, how the
	// list stood when it was read last; default: that is forgotten, and a
	// list that is unchanged read again.
	State string

	// ScanInterval is how often Watch looks whether the file has changed;
	// default [DefaultListInterval], negative never.
	ScanInterval time.Duration

	// Client is for Bitstream; without one no representation can be opened.
	Client *fetch.Client

	// OnEvent is told what happens, never concurrently; may be nil. It must not
	// call the List.
	OnEvent func(intake.Event)
}

// DefaultInterval keeps what a Source says within two seconds of the file:
// looking at it costs one system call.
const DefaultInterval = intake.FileInterval

// A List keeps a set of a catalog in step with JSON Lines: a file, or a stream
// such as standard input. Each line is a JSON object and names one resource,
// which may live anywhere:
//
//	{"uri":"https://example.org/a","lastmod":"2024-05-17T09:30:00Z","length":7,
//	 "hash":"sha-256:…","type":"text/plain","encoding":"gzip","change":"updated",
//	 "links":[{"rel":"describedby","href":"https://example.org/a.xml"}]}
//
// Only uri must be there. A file in which no line has a change is the whole set:
// what it does not name is gone. A file in which any has one, and a stream, is a
// list of changes: only what it names is touched, and gone is what is deleted.
// Of several lines of a file that name one resource the last counts; those of a
// stream are taken one after the other.
//
// A line that cannot be taken is a Problem, a [*LineError]; the others are
// taken, but then nothing is deleted because it is not named. Nor is it if the
// file changes while it is read, or has done so just before and does again.
//
// Only one List may fill a set. Its methods are safe for concurrent use; scans
// take turns.
type List struct {
	in     intake.Origin
	path   string
	stream *lineStream // nil: path is a file
	o      Options
	web    *intake.Web

	scanning sync.Mutex // held by a scan, guards what follows
	memory   memory
	recalled bool   // memory was read from State
	seen     string // how the file stood at the last look, taken in or not
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
// in messages. The stream is read once, by the first Scan or Watch; what comes
// is in the catalog within a second.
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

// Scan brings the catalog in step with the file as it is now; of a stream it
// reads what comes to its end. The Report is right, as far as the scan came,
// with an error too.
func (j *List) Scan(ctx context.Context) (intake.Report, error) {
	j.scanning.Lock()
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
		err = j.follow(ctx, l, nil)
	}
	if err != nil {
		return l.Report(), fmt.Errorf("scan %s: %w", j.in.Name, intake.Cause(ctx, err))
	}
	return l.Report(), nil
}

// Watch scans at once, and again when the file has changed, until ctx ends;
// then it returns the cause. Of a stream it takes in what comes, as it comes.
// onChange is told of everything that changed the catalog; what comes next waits
// until it returns. What goes wrong is told to [Options.OnEvent].
func (j *List) Watch(ctx context.Context, onChange func(intake.Report)) error {
	if j.stream == nil {
		return j.in.Watch(ctx, j.Scan, j.changed, onChange)
	}
	if j.o.Complete {
		return j.in.Watch(ctx, j.Scan, intake.Forever, onChange)
	}
	j.scanning.Lock()
	defer j.scanning.Unlock()
	l := j.in.NewListing()
	err := j.follow(ctx, l, onChange)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		err = fmt.Errorf("read %s: %w", j.in.Name, err)
	}
	j.in.Events.Emit(intake.Event{Kind: intake.EventScanned, Err: err, Report: l.Report()})
	return intake.Forever(ctx)
}

// Bitstream opens the representation of r, which is wherever its URI says. See
// [Web.Bitstream].
func (j *List) Bitstream(ctx context.Context, r *catalog.Record) (io.ReadCloser, error) {
	return j.web.Bitstream(ctx, r)
}

// changed waits until the file stands otherwise than at the last look, and has
// come to rest.
func (j *List) changed(ctx context.Context) error {
	if j.o.ScanInterval < 0 {
		return intake.Forever(ctx)
	}
	j.scanning.Lock()
	seen := j.seen
	j.scanning.Unlock()
	last := seen
	var since time.Time // the file has stood otherwise
	for {
		if err := intake.Sleep(ctx, j.o.ScanInterval); err != nil {
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
