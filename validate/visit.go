package validate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync/atomic"
	"time"

	"lockstep/validate/finding"
	"lockstep/validate/internal/tally"
	"lockstep/validate/opener"
)

const (
	// SampleAll as [Settings.Sample] means every resource.
	sampleAll = -1
	// MaxSample caps a sample: it is held in memory.
	maxSample = 100_000
	// MaxDoubts caps the findings about a sample that are held in memory until
	// newer documents confirm them.
	maxDoubts = 10_000
	// MaxAttempts is how often documents are read that change meanwhile.
	maxAttempts = 3
)

// Settings are the limits of a run and what it looks at. All are set.
type settings struct {
	Sample        int // resources to compare with what is said of them; 0 none
	Seed          uint64
	Single        bool  // only the document at the address
	Jobs          int   // resources looked at at once
	DocumentBytes int64 // of one document, uncompressed
	Documents     int   // of one run
	ResourceBytes int64 // read of one resource
	Settle        time.Duration
	TempDir       string
	OnDocument    func(uri string) // may be nil
	Now           func() time.Time
}

// A Visitor asks for the documents of one run, within its limits, and counts
// them.
type visitor struct {
	collector *finding.Collector
	opts      *settings
	ctx       context.Context
	flaky     *atomic.Bool // a connection broke off, or an address could not be reached

	opn     opener.Func
	counted map[string]bool // documents, by URI
}

// NewVisitor returns a Visitor that asks open and reports to c.
func newVisitor(ctx context.Context, c *finding.Collector, open opener.Func, o *settings) *visitor {
	return &visitor{collector: c, ctx: ctx, opts: o, opn: open, counted: make(map[string]bool), flaky: new(atomic.Bool)}
}

// Quiet returns a Visitor whose findings and counts are discarded.
func (v *visitor) quiet() *visitor {
	q := *v
	q.collector, q.counted = finding.NewQuiet(), make(map[string]bool)
	return &q
}

// Room fails if enough documents were read before uri.
func (v *visitor) room(uri string) error {
	if len(v.counted) >= v.opts.Documents {
		return fmt.Errorf("stopped at %s: %d documents are enough", finding.Printable(uri), v.opts.Documents)
	}
	return nil
}

// Ask opens what r asks for.
func (v *visitor) ask(r opener.Request) (*opener.Answer, error) {
	if err := v.ctx.Err(); err != nil {
		return nil, context.Cause(v.ctx)
	}
	a, err := v.opn(v.ctx, r)
	if err != nil {
		return nil, v.broken(r.URI, err)
	}
	if a.URI == "" {
		a.URI = r.URI
	}
	return a, nil
}

// Broken converts an error of reading uri to one for which [IsMissing] holds,
// unless the run itself has to end.
func (v *visitor) broken(uri string, err error) error {
	if v.ctx.Err() != nil {
		return context.Cause(v.ctx)
	}
	if _, ok := errors.AsType[*tally.KeepError](err); ok || errors.Is(err, opener.ErrUnseen) {
		return err
	}
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, opener.ErrNotModified) {
		v.flaky.Store(true)
	}
	return &missingError{uri, err}
}

// Count counts a document once.
func (v *visitor) count(uri string) {
	if !v.counted[uri] {
		v.counted[uri] = true
		v.collector.Report.Documents++
	}
}

// A missingError reports something that was named and cannot be read.
type missingError struct {
	uri string
	err error
}

// Missing returns an error for which [IsMissing] holds, because of err.
func missingBecause(uri string, err error) error { return &missingError{uri, err} }

func (e *missingError) Error() string {
	if errors.Is(e.err, fs.ErrNotExist) {
		return "nothing is there"
	}
	return "it cannot be had: " + e.err.Error()
}

func (e *missingError) Unwrap() error { return e.err }

// IsMissing reports whether err is about something named that cannot be read.
func isMissing(err error) bool {
	_, ok := errors.AsType[*missingError](err)
	return ok
}

// Discard reads what is left of a small answer, so that its connection can be
// used again, and closes it.
func discard(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 4<<10)
	_ = body.Close() // its content is not needed
}

// Pause waits for d or until ctx is done.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
