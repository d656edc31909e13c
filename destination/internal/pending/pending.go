// Package pending handles the pending work of a set: what earlier runs, or earlier
// parts of the same run, could not do. Some of it must not be requested yet, because
// a server asked for more patience than a run has.
package pending

import (
	"context"
	"fmt"
	"iter"
	"time"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/representation"
	"lockstep/destination/internal/stage"
	"lockstep/destination/journal"
	"lockstep/destination/report"
	"lockstep/resourcesync"
)

// A Set is the pending work of one set.
type Set struct {
	Journal journal.Journal
	Number  int  // of the set
	AskNow  bool // request also what servers asked not to request yet
}

// IsConfirmed reports whether w is a deletion that the resource's own address
// confirmed, and that has not been carried out yet.
func IsConfirmed(w *desired.Resource) bool {
	return w.Class == desired.Pending && w.Gone && w.Change == resourcesync.UnknownChange
}

// IsFailure reports whether pending work failed: neither a notified deletion that the Source has to
// confirm, nor an optional representation, which later runs try again without reporting it.
func IsFailure(w *desired.Resource) bool { return !w.Excused && !(w.Gone && w.Unconfirmed) }

// HasFailures reports whether some of the pending work failed.
func (s *Set) HasFailures(ctx context.Context) (bool, error) {
	for o, err := range s.Journal.Owed(ctx, s.Number) {
		if err != nil {
			return false, err
		}
		if w, _, derr := desired.Decode(o.URI, string(o.Entry)); derr != nil || IsFailure(&w) {
			return true, nil
		}
	}
	return false, nil
}

// Failures yields the pending work as failures.
func (s *Set) Failures(ctx context.Context) iter.Seq2[report.Failure, error] {
	return func(yield func(report.Failure, error) bool) {
		for o, err := range s.Journal.Owed(ctx, s.Number) {
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

// StageConfirmed stages the deletions that the addresses of resources confirmed.
func (s *Set) StageConfirmed(ctx context.Context, to *stage.Stage) error {
	for o, err := range s.Journal.Owed(ctx, s.Number) {
		if err != nil {
			return err
		}
		gone, _, err := desired.Decode(o.URI, string(o.Entry))
		if err != nil {
			return err
		}
		if !IsConfirmed(&gone) {
			continue
		}
		if err := to.Add(ctx, gone); err != nil {
			return fmt.Errorf("stage what is gone: %w", err)
		}
	}
	return nil
}

// maxSettled is the number of rows that one transaction settles.
const maxSettled = 1000

// Discard removes the pending work, because the whole set is being compared, and
// saves docs. It keeps deletions that were only notified, because the documents may
// be older than the notifications, and work that must not be requested yet, because
// it may still be needed; it reports whether it kept any.
func (s *Set) Discard(ctx context.Context, docs map[string][]byte) (kept bool, err error) {
	b := journal.Batch{Save: docs}
	now := time.Now()
	for o, err := range s.Journal.Owed(ctx, s.Number) {
		if err != nil {
			return false, err
		}
		w, _, derr := desired.Decode(o.URI, string(o.Entry))
		if derr == nil && (w.Gone && w.Unconfirmed || w.NotBefore.After(now)) {
			kept = true
			continue
		}
		b.Settle = append(b.Settle, journal.Owed{Set: o.Set, URI: o.URI})
		if len(b.Settle) == maxSettled {
			if err := s.Journal.Record(ctx, b); err != nil {
				return false, err
			}
			b.Settle = nil
		}
	}
	return kept, s.Journal.Record(ctx, b)
}

// A Stager stages pending work to be tried again.
type Stager struct {
	Set
	Transient bool                    // only what failed in this run for a passing reason
	Refuse    func(uri string) string // returns why content must not be fetched from uri, or ""
	Chooser   *representation.Chooser // chooses among the representations of a record
}

// Stage stages the pending work and returns its amount, including the work that
// must not be requested yet, which [Deferrals.Merge] reports.
func (s *Stager) Stage(ctx context.Context, to *stage.Stage) (int, error) {
	n, now := 0, time.Now()
	for o, err := range s.Journal.Owed(ctx, s.Number) {
		if err != nil {
			return n, err
		}
		w, _, err := desired.Decode(o.URI, string(o.Entry))
		if err != nil {
			return n, err
		}
		if w.Unconfirmed && w.Gone {
			continue // it is carried out once the Source confirms it
		}
		if s.Transient && !w.Transient {
			continue
		}
		if n++; w.NotBefore.After(now) && !s.AskNow {
			continue
		}
		w.Class, w.Refused, w.Member, w.ManifestPackage = desired.Pending, "", desired.Member{}, 0 // the packages may have changed since
		if IsConfirmed(&w) {
			w.Gone = false // as it was before: its address is requested again
		}
		w.Transient, w.NotBefore = false, time.Time{}
		if w.Excused {
			if err := s.Chooser.StageExcused(ctx, to, &w); err != nil {
				return n, err
			}
			continue
		}
		if !w.Gone {
			w.Refused = s.Refuse(w.URI)
		}
		if err := to.Add(ctx, w); err != nil {
			return n, err
		}
	}
	return n, nil
}

// A deferral is a pending resource that must not be requested yet.
type deferral struct {
	desired.Resource
	err *plan.DeferredError
}

// deferred yields the pending resources that must not be requested at now.
func (s *Set) deferred(ctx context.Context, now time.Time) iter.Seq2[deferral, error] {
	return func(yield func(deferral, error) bool) {
		for o, err := range s.Journal.Owed(ctx, s.Number) {
			if err != nil {
				yield(deferral{}, err)
				return
			}
			w, _, err := desired.Decode(o.URI, string(o.Entry))
			if err == nil && (s.AskNow || !w.NotBefore.After(now)) {
				continue
			}
			if !yield(deferral{w, &plan.DeferredError{Cause: o.Cause, NotBefore: w.NotBefore}}, err) || err != nil {
				return
			}
		}
	}
}
