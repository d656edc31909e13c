// Package visit requests the documents of one validation run, within its limits,
// and distinguishes documents that cannot be read, which are findings, from
// conditions that end the run, which are errors. Checks of Sources, feeds and
// repositories are built on it.
package visit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"sync/atomic"
	"time"

	"lockstep/resourcesync"
	"lockstep/validate/finding"
	"lockstep/validate/internal/tally"
	"lockstep/validate/opener"
)

const (
	// SampleAll as [Settings.Sample] means every resource.
	SampleAll = -1
	// MaxSample caps a sample: it is held in memory.
	MaxSample = 100_000
	// MaxDoubts caps the findings about a sample that are held in memory until
	// newer documents confirm them.
	MaxDoubts = 10_000
	// MaxAttempts is how often documents are read if they change meanwhile.
	MaxAttempts = 3
	// MaxGrowth and FreeBytes cap what is unpacked of the packages of one run: in total
	// MaxGrowth times what was read of them, and FreeBytes. A few MB could otherwise
	// become many GB. Text, XML and JSON grow by less than 100, the maximum of deflate
	// is 1,032.
	MaxGrowth = 200
	FreeBytes = 1 << 30
	// ClockSkew is how far a Source's clock may differ from the local one without a
	// finding.
	ClockSkew = 5 * time.Minute
)

// Settings are the limits of a run and what it checks. All are set.
type Settings struct {
	Sample        int // resources to compare with their descriptions; 0 none
	Seed          uint64
	Single        bool  // only the document at the address
	Jobs          int   // resources compared concurrently
	DocumentBytes int64 // of one document, uncompressed
	Documents     int   // of one run
	ResourceBytes int64 // read of one resource
	Settle        time.Duration
	TempDir       string
	OnDocument    func(uri string)                                 // may be nil
	OnResource    func(ctx context.Context, e *resourcesync.Entry) // called concurrently with each of the sample; may be nil
	Now           func() time.Time
}

// A Visitor requests the documents of one run, within its limits, and counts
// them.
type Visitor struct {
	Collector *finding.Collector
	Settings  *Settings
	Flaky     *atomic.Bool // a connection broke, or an address could not be reached
	Unpacking *Unpacking   // of the packages of the run

	opn     opener.Func
	counted map[string]int // documents, by URI: the start from which each was first reached
	start   int
}

// NewVisitor returns a Visitor that requests documents from open and reports to
// c.
func NewVisitor(c *finding.Collector, open opener.Func, o *Settings) *Visitor {
	return &Visitor{Collector: c, Settings: o, opn: open, counted: make(map[string]int), Flaky: new(atomic.Bool), Unpacking: new(Unpacking)}
}

// An Unpacking counts the bytes of the packages of one run.
type Unpacking struct {
	Read     int64 // of packages, the same block once
	Unpacked int64 // of the bitstreams in them
}

// Left returns how many more bytes may be unpacked if more are read of packages.
func (u *Unpacking) Left(more int64) int64 {
	return FreeBytes + MaxGrowth*(u.Read+min(more, math.MaxInt64/4/MaxGrowth)) - u.Unpacked
}

// Quiet returns a Visitor whose findings and counts are discarded.
func (v *Visitor) Quiet() *Visitor {
	q := *v
	q.Collector, q.counted = finding.NewQuiet(), make(map[string]int)
	return &q
}

// Room fails if the maximum number of documents was read before uri.
func (v *Visitor) Room(uri string) error {
	if len(v.counted) >= v.Settings.Documents {
		return fmt.Errorf("stopped at %s: %d documents are enough", finding.Printable(uri), v.Settings.Documents)
	}
	return nil
}

// Ask opens the document or resource that r requests.
func (v *Visitor) Ask(ctx context.Context, r opener.Request) (*opener.Answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	a, err := v.opn(ctx, r)
	if err != nil {
		return nil, v.Broken(ctx, r.URI, err)
	}
	if a.URI == "" {
		a.URI = r.URI
	}
	return a, nil
}

// Broken converts an error of reading uri to one for which [IsMissing] holds,
// unless the run itself has to end.
func (v *Visitor) Broken(ctx context.Context, uri string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if _, ok := errors.AsType[*tally.KeepError](err); ok || errors.Is(err, opener.ErrUnseen) {
		return err
	}
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, opener.ErrNotModified) {
		v.Flaky.Store(true)
	}
	return &missingError{uri, err}
}

// Start begins at another address of the run, with open.
func (v *Visitor) Start(open opener.Func) {
	v.opn = open
	v.start++
}

// Count counts a document once.
func (v *Visitor) Count(uri string) {
	if _, known := v.counted[uri]; !known {
		v.counted[uri] = v.start
		v.Collector.Report.Documents++
	}
}

// Counted reports whether the document was counted.
func (v *Visitor) Counted(uri string) bool {
	_, known := v.counted[uri]
	return known
}

// CountedBefore reports whether the document was counted from an earlier start: its
// entries were, too.
func (v *Visitor) CountedBefore(uri string) bool {
	start, known := v.counted[uri]
	return known && start < v.start
}

// A missingError reports something that was named and cannot be read.
type missingError struct {
	uri string
	err error
}

// Missing returns an error for which [IsMissing] holds, because of err.
func Missing(uri string, err error) error { return &missingError{uri, err} }

func (e *missingError) Error() string {
	if errors.Is(e.err, fs.ErrNotExist) {
		return "nothing is there"
	}
	return "it is not available: " + e.err.Error()
}

func (e *missingError) Unwrap() error { return e.err }

// IsMissing reports whether err is about something named that cannot be read.
func IsMissing(err error) bool {
	_, ok := errors.AsType[*missingError](err)
	return ok
}

// Discard reads the rest of a small answer, so that its connection can be
// reused, and closes it.
func Discard(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 4<<10)
	_ = body.Close() // its content is not needed
}
