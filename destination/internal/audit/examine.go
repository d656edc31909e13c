package audit

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"lockstep/blob"
	"lockstep/destination/internal/adopt"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/failure"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/wording"
	"lockstep/destination/journal"
	"lockstep/destination/report"
	"lockstep/internal/extsort"
	"lockstep/resourcesync"
)

// An examination examines the resources of one set, many at a time, and reports on
// them in their order.
type examination struct {
	set     *Set
	audit   *Audit
	excused map[string]bool // optional representations that were reported as not served
}

// actions yields the resources to be examined.
func (x *examination) actions(ctx context.Context, names *extsort.Writer) iter.Seq2[plan.Action, error] {
	return func(yield func(plan.Action, error) bool) {
		for act, err := range x.set.Planner.Actions(ctx, x.set.Stage) {
			if row, ok := x.audit.Halfway[act.URI]; ok && err == nil {
				act, err = x.decided(ctx, &act, row)
			}
			if err == nil && x.isStandIn(&act) {
				act, err = x.standIn(ctx, &act)
			}
			if err == nil {
				err = x.account(&act, names)
			}
			if act.Class != 0 && !act.Gone {
				if x.audit.offered++; !act.Unselected {
					x.audit.selected++
				}
			}
			if act.Verb == plan.Skip && err == nil && !x.isOrphan(&act) {
				continue
			}
			if !yield(act, err) || err != nil {
				return
			}
		}
	}
}

// account notes the names of the files that belong to a resource: in a plain directory
// those of all desired resources, otherwise those of all that are held, if the actions
// cover these.
func (x *examination) account(act *plan.Action, names *extsort.Writer) error {
	switch {
	case x.audit.Plain:
		for path := range adopt.Names(x.set.Paths, act.URI) {
			if err := names.Add([]byte(path), nil); err != nil {
				return err
			}
		}
	case act.IsHeld() && x.set.Planner.Prune && !x.audit.named:
		return names.Add([]byte(act.Held.Path), nil)
	}
	return nil
}

// decided decides about a resource again, with the row that the Journal will have once
// the state that a killed run left has been settled.
func (x *examination) decided(ctx context.Context, act *plan.Action, row journal.Held) (plan.Action, error) {
	if act.Class == 0 {
		return x.set.Planner.Decide(ctx, nil, row)
	}
	w := act.Resource
	return x.set.Planner.Decide(ctx, &w, row)
}

// book counts and reports a verdict.
func (x *examination) book(ctx context.Context, act *plan.Action, v *verdict) error {
	if act.Class != 0 && !act.Gone && !v.Orphan {
		x.audit.Report.Resources++
	}
	x.audit.Report.Read += v.Read
	if v.Verified {
		x.audit.Report.Verified++
	}
	x.audit.step(x.set.State.Name)
	if v.Finding.Kind == "" {
		return nil
	}
	if v.Orphan {
		x.audit.Orphans++
	} else if x.audit.Fix && v.Damaged {
		if err := x.audit.Marks.Add(ctx, x.set.State, act, &v.Finding); err != nil {
			return err
		}
	}
	x.audit.find(&v.Finding)
	return nil
}

// isOrphan reports whether a resource is held only by sets that no longer exist: only
// the Journal knows what it should be. Each is examined once.
func (x *examination) isOrphan(act *plan.Action) bool {
	if !act.IsHeld() || x.audit.named || !x.set.Planner.Prune || x.audit.Partial {
		return false
	}
	for _, n := range act.Held.Sets {
		if x.audit.numbers[n] {
			return false
		}
	}
	return true
}

// compareFile compares the file of a resource in a plain directory with what the
// Source states.
func (x *examination) compareFile(ctx context.Context, act *plan.Action) (verdict, error) {
	f := x.verdictOf(act, report.Missing, "no file of it is here").Finding
	if p, err := x.set.Paths.Path(act.URI); err == nil {
		f.Path = p
	}
	for path := range adopt.Names(x.set.Paths, act.URI) {
		l, err := adopt.Look(ctx, &x.audit.Hashers, x.audit.Store, path, &act.Resource)
		var wrong *content.Error
		switch {
		case ctx.Err() != nil:
			return verdict{}, ctx.Err()
		case err == nil:
			return verdict{Verified: l.Verified, Read: l.Length}, nil
		case errors.Is(err, blob.ErrNotExist):
			continue
		case failure.IsShortage(err):
			return verdict{}, err
		}
		f.Path, f.Found = path, &report.Facts{Hash: wording.Hashes(l.Hashes), Length: &l.Length, Lastmod: l.Modified}
		switch {
		case errors.As(err, &wrong):
			f.Kind, f.Cause = report.Stale, fmt.Sprintf("its %s is %s, the Source states %s", wrong.What, wrong.Got, wrong.Want)
		case errors.Is(err, adopt.ErrUnverifiable):
			f.Kind, f.Cause = report.Unverifiable, err.Error()
		default:
			f.Kind, f.Cause, f.Found = report.Missing, err.Error(), nil
		}
	}
	return verdict{Finding: f}, nil
}

// isStandIn reports whether a resource that is to be removed is kept in place of a
// representation that could not be fetched.
func (x *examination) isStandIn(a *plan.Action) bool {
	return a.Verb == plan.Remove && a.Instead != "" && x.excused[a.Instead]
}

// standIn decides about a resource that is kept in place of another representation.
func (x *examination) standIn(ctx context.Context, a *plan.Action) (plan.Action, error) {
	w := a.Resource
	w.Gone, w.Instead, w.Change = false, "", resourcesync.Change(0)
	return x.set.Planner.Decide(ctx, &w, a.Held)
}
