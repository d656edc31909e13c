package intake

import (
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/catalog"
)

// progressGap is the time between two EventProgress.
const progressGap = 250 * time.Millisecond

// A Reporter passes events to OnEvent, one at a time.
type Reporter struct {
	OnEvent func(Event) // may be nil
	events  sync.Mutex  // held while OnEvent runs
}

// Emit passes e on.
func (t *Reporter) Emit(e Event) {
	if t.OnEvent == nil {
		return
	}
	t.events.Lock()
	defer t.events.Unlock()
	t.OnEvent(e)
}

// A Tally counts the results of a scan, and reports them. Its methods are safe for
// concurrent use.
type Tally struct {
	Reporter *Reporter
	Start    time.Time

	Files, Unchanged, Hashed, Bytes, excluded atomic.Int64

	mu sync.Mutex // guards r
	r  Report     // except for the counters above
}

// Applied counts the changes that a batch made in the catalog.
func (t *Tally) Applied(a catalog.Applied) {
	t.Unchanged.Add(int64(a.Unchanged))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.r.Created += int64(a.Created)
	t.r.Updated += int64(a.Updated)
	t.r.Deleted += int64(a.Deleted)
}

// Report returns the results so far.
func (t *Tally) Report() Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.r
	r.Files, r.Unchanged = t.Files.Load(), t.Unchanged.Load()
	r.Hashed, r.Bytes, r.Excluded = t.Hashed.Load(), t.Bytes.Load(), t.excluded.Load()
	r.Elapsed = time.Since(t.Start)
	return r
}

// Progress reports the progress of the scan from time to time, until stopped.
func (t *Tally) Progress() (stop func()) {
	if t.Reporter.OnEvent == nil {
		return func() {}
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(progressGap)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				r := t.Report()
				r.Unreadable.First, r.Skipped.First, r.Hidden.First, r.Private.First = nil, nil, nil, nil // still being written to
				t.Reporter.Emit(Event{Kind: EventProgress, Report: r})
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}

// Skipped reports a path that is not a resource according to the rules.
func (t *Tally) Skipped(path string, why error) {
	t.mu.Lock()
	t.r.Skipped.Add(Problem{path, why})
	t.mu.Unlock()
	t.Reporter.Emit(Event{Kind: EventSkipped, Path: path, Err: why})
}

// Hidden reports a path that is left out because its name begins with a dot.
func (t *Tally) Hidden(path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.r.Hidden.Add(Problem{path, ErrHidden})
}

// Excluded reports a path that is left out because of patterns.
func (t *Tally) Excluded() { t.excluded.Add(1) }

// Private reports a path that is published although other users may not read it.
func (t *Tally) Private(path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.r.Private.Add(Problem{path, ErrPrivate})
}

// Unreadable reports a path that could not be read; its resource stays as it was.
func (t *Tally) Unreadable(path string, err error) {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err // a Problem names the path already
	}
	t.mu.Lock()
	t.r.Unreadable.Add(Problem{path, err})
	t.mu.Unlock()
	t.Reporter.Emit(Event{Kind: EventUnreadable, Path: path, Err: err})
}
