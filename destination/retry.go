package destination

import (
	"context"
	"iter"

	"lockstep/destination/internal/pending"
	"lockstep/destination/internal/reconcile"
	"lockstep/destination/internal/saved"
)

// pendingOf returns the pending work of a set.
func pendingOf(d *Destination, set int) pending.Set {
	return pending.Set{Journal: d.journal, Number: set, AskNow: d.opts.AskNow}
}

// finalPass tries what failed in this run for a passing reason once more, when all
// sets are done: a server that restarted, or a bucket that refused a write, may be
// back. What fails again stays pending.
func finalPass(ctx context.Context, s *session, sets []*setState) error {
	for _, set := range sets {
		n := s.passing[set.Number]
		if n == 0 || set.Foreign != nil || ctx.Err() != nil {
			continue
		}
		delete(s.passing, set.Number)
		before := s.report
		s.report.Retry(n)
		s.d.emit(Event{Kind: EventRetry, Set: set.Name, Progress: Progress{Total: n}})
		if err := retrySet(ctx, s, set); err != nil {
			return err
		}
		s.report.Recount(set.URI, &before)
	}
	return ctx.Err()
}

// retrySet tries again what failed in the set for a passing reason.
func retrySet(ctx context.Context, s *session, set *setState) (err error) {
	r := newSetRun(s, set)
	r.final = true
	defer r.reader.Packages.Shelf.Clear()
	defer func() {
		reportMoved(r)
		if cerr := endSet(ctx, r); err == nil {
			err = cerr
		}
	}()
	r.stage.Reset()
	if _, err := pendingStager(r).Stage(ctx, r.stage); err != nil {
		return err
	}
	_, err = reconciled(r).Apply(ctx, reconcile.Work{Mode: ModeNone, Via: set.ViaList(), Complete: true, Final: true})
	return err
}

// Pending yields all that is pending in the sets of a report; the first of
// these are among its Failures: what failed or was refused in this run or
// before and has not succeeded since. It may be called after [Destination.Sync]
// has returned.
func (d *Destination) Pending(ctx context.Context, r *Report) iter.Seq2[Failure, error] {
	return func(yield func(Failure, error) bool) {
		var m saved.Mirror
		if _, err := saved.Load(ctx, d.journal, saved.DocMirror, &m); err != nil {
			yield(Failure{}, err)
			return
		}
		for i := range r.BySet {
			n, known := m.Numbers[r.BySet[i].URI]
			if !known {
				continue
			}
			waiting := pendingOf(d, n)
			for f, err := range waiting.Failures(ctx) {
				if !yield(f, err) || err != nil {
					return
				}
			}
		}
	}
}
