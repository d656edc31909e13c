package pending

import (
	"context"
	"fmt"
	"iter"
	"time"

	"lockstep/destination/internal/plan"
)

// Deferrals says what happens to pending resources that must not be requested yet
// and that the actions of a plan do not contain.
type Deferrals struct {
	Report bool // they are reported as pending
	Settle bool // the plan covers the whole set, so they are no longer needed
}

// Merge yields the actions, replacing those whose resources must not be requested
// yet by [plan.Defer]. It also yields the resources for which there is no action.
// Both inputs are ordered by URI, so nothing is stored in memory.
func (s *Set) Merge(ctx context.Context, actions iter.Seq2[plan.Action, error], d Deferrals) iter.Seq2[plan.Action, error] {
	return func(yield func(plan.Action, error) bool) {
		next, stop := iter.Pull2(s.deferred(ctx, time.Now()))
		defer stop()
		pending, err, more := next()
		// rest yields what is pending before a URI; "" means all that remains.
		rest := func(below string) bool {
			for more && err == nil && (below == "" || pending.URI < below) {
				a := plan.Action{Resource: pending.Resource, Verb: plan.Defer, Cause: pending.err}
				if d.Settle {
					a.Verb = plan.Skip
				}
				if (d.Settle || d.Report) && !yield(a, nil) {
					return false
				}
				pending, err, more = next()
			}
			return err == nil || yield(plan.Action{}, fmt.Errorf("read what is pending: %w", err))
		}
		for a, aerr := range actions {
			if aerr != nil {
				yield(a, aerr)
				return
			}
			if !rest(a.URI) {
				return
			}
			if more && pending.URI == a.URI {
				if a.Verb == plan.Fetch {
					a.Verb, a.Cause = plan.Defer, pending.err
				}
				pending, err, more = next()
			}
			if !yield(a, nil) {
				return
			}
		}
		rest("")
	}
}
