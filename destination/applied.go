package destination

import (
	"context"
	"errors"
	"iter"
)

// errStopped ends a run whose caller has stopped reading the changes.
var errStopped = errors.New("stopped")

// Changes runs [Destination.Sync] as a loop over the changes it applies. It
// yields each change when it is durable, in the order in which they were
// applied. Once the loop has ended, report, if not nil, has the result of the
// run. An error is yielded last, with a zero Change; it is Sync's.
//
//	var report destination.Report
//	for c, err := range d.Changes(ctx, "https://example.org/", &report) {
//		if err != nil {
//			return err
//		}
//		fmt.Println(c.Kind, c.URI)
//	}
//
// A change counts as processed when the loop asks for the next. If the loop is
// left, or the process killed, the last change yielded and those not yet yielded
// come first in the next run of Changes, or go to [Options.Deliver] of the next
// Sync: each at least once, perhaps twice, in order. Leaving the loop ends the
// run cleanly; what was fetched is kept. Options.Deliver is not called.
func (d *Destination) Changes(ctx context.Context, address string, report *Report) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		left := make(chan struct{}) // the loop was left
		offers, taken := make(chan Change), make(chan struct{})
		var r Report
		var err error
		done := make(chan struct{})
		defer func() { // also when the loop panics
			close(left)
			cancel()
			<-done
			if report != nil {
				*report = r
			}
		}()
		go func() {
			defer close(done)
			r, err = d.sync(ctx, address, func(ctx context.Context, batch []Change) (int, error) {
				for i, c := range batch {
					select {
					case offers <- c:
					case <-left:
						return i, errStopped
					case <-ctx.Done():
						return i, context.Cause(ctx)
					}
					select {
					case <-taken:
					case <-left:
						return i, errStopped
					}
				}
				return len(batch), nil
			})
		}()
		for {
			select {
			case c := <-offers:
				if !yield(c, nil) {
					return
				}
				taken <- struct{}{}
			case <-done:
				if err != nil {
					yield(Change{}, err)
				}
				return
			}
		}
	}
}
