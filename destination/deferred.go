package destination

import (
	"context"
	"fmt"
	"iter"
	"time"

	"lockstep/destination/internal/counting"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/pending"
	"lockstep/destination/internal/saved"
	"lockstep/destination/report"
)

// pendingOf returns the pending work of a set.
func pendingOf(d *Destination, set int) pending.Set {
	return pending.Set{Journal: d.journal, Number: set, AskNow: d.opts.AskNow}
}

// finalPass tries what failed in this run for a passing reason once more, when all
// sets are done: a server that restarted, or a bucket that refused a write, may be
// back. What fails again stays pending.
func (s *session) finalPass(ctx context.Context, sets []*setState) error {
	for _, set := range sets {
		n := s.passing[set.Number]
		if n == 0 || set.Foreign != nil || ctx.Err() != nil {
			continue
		}
		delete(s.passing, set.Number)
		before := s.report
		s.report.Retry(n)
		s.d.emit(Event{Kind: EventRetry, Set: set.Name, Progress: Progress{Total: n}})
		if err := s.retrySet(ctx, set); err != nil {
			return err
		}
		s.rebook(set, &before)
	}
	return ctx.Err()
}

// retrySet tries again what failed in the set for a passing reason.
func (s *session) retrySet(ctx context.Context, set *setState) (err error) {
	r := s.newSetRun(set)
	r.final = true
	defer r.reader.Packages.Shelf.Clear()
	defer func() {
		r.reportMoved()
		for uri, ferr := range r.stale {
			s.d.emit(Event{Kind: EventFailed, Set: set.Name, URI: uri, Err: ferr})
		}
		if cerr := r.stage.Close(context.WithoutCancel(ctx)); err == nil {
			err = cerr
		}
	}()
	r.stage.Reset()
	if _, err := r.stageOwed(ctx); err != nil {
		return err
	}
	_, err = r.carryOut(ctx, work{Mode: ModeNone, Via: set.viaList(), Complete: true, Final: true})
	return err
}

// rebook corrects the report of a set by what has come since before.
func (s *session) rebook(set *setState, before *counting.Report) {
	for i := range s.report.BySet {
		b := &s.report.BySet[i]
		if b.URI != set.URI {
			continue
		}
		d := s.report.Since(before)
		b.Created, b.Updated, b.Deleted = b.Created+d.Created, b.Updated+d.Updated, b.Deleted+d.Deleted
		b.Unchanged, b.Failed, b.Refused = b.Unchanged+d.Unchanged, b.Failed+d.Failed, b.Refused+d.Refused
		b.Error = ""
		if b.Failed+b.Refused > 0 {
			b.Error = fmt.Sprintf("%d failed, %d refused", b.Failed, b.Refused)
		}
	}
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
			for o, err := range d.journal.Owed(ctx, n) {
				f := report.NewResourceFailure(o.URI, o.Cause, false)
				if err == nil {
					if w, _, derr := desired.Decode(o.URI, string(o.Entry)); derr == nil && w.NotBefore.After(time.Now()) {
						f.Defer(w.NotBefore)
					}
				}
				if !yield(f, err) || err != nil {
					return
				}
			}
		}
	}
}
