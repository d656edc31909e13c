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
	checker Checker
	audit   *Audit
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

// account notes the names of the files that belong to a resource: where all
// that is held passes by, of all that is held; in a plain directory, of all
// that is wanted.
func (x *examination) account(act *plan.Action, names *extsort.Writer) error {
	switch {
	case x.checker.Plain:
		for path := range adopt.Names(x.checker.Paths, act.URI) {
			if err := names.Add([]byte(path), nil); err != nil {
				return err
			}
		}
	case act.IsHeld() && x.set.Planner.Prune && !x.audit.named:
		return names.Add([]byte(act.Held.Path), nil)
	}
	return nil
}

// decided makes the decision about a resource again, for the row that the
// Journal will hold once the state that a killed run left has been cleaned up.
func (x *examination) decided(ctx context.Context, act *plan.Action, row journal.Held) (plan.Action, error) {
	if act.Class == 0 {
		return x.set.Planner.Decide(ctx, nil, row)
	}
	w := act.Resource
	return x.set.Planner.Decide(ctx, &w, row)
}

// book counts and reports what was found.
func (x *examination) book(ctx context.Context, act *plan.Action, v *Verdict) error {
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
	} else if x.checker.Fix && v.Damaged {
		if err := x.audit.Marks.Add(ctx, x.set.State, act, &v.Finding); err != nil {
			return err
		}
	}
	x.audit.find(&v.Finding)
	return nil
}

// isOrphan reports whether a resource is held only by sets that are not there
// any more: what it should be, the Journal alone knows. Each passes by once.
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
func (x *examination) compareFile(ctx context.Context, act *plan.Action) (Verdict, error) {
	f := x.checker.Verdict(act, report.Missing, "no file of it is here").Finding
	if p, err := x.checker.Paths.Path(act.URI); err == nil {
		f.Path = p
	}
	for path := range adopt.Names(x.checker.Paths, act.URI) {
		l, err := adopt.Look(ctx, x.checker.Sums, x.checker.Store, path, &act.Resource)
		var wrong *content.Error
		switch {
		case ctx.Err() != nil:
			return Verdict{}, ctx.Err()
		case err == nil:
			return Verdict{Verified: l.Verified, Read: l.Length}, nil
		case errors.Is(err, blob.ErrNotExist):
			continue
		case failure.IsShortage(err):
			return Verdict{}, err
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
	return Verdict{Finding: f}, nil
}

// isStandIn reports whether a, which is to be removed, is kept in place of a
// representation that could not be fetched.
func (x *examination) isStandIn(a *plan.Action) bool {
	return a.Verb == plan.Remove && a.Instead != "" && x.checker.Excused[a.Instead]
}

// standIn decides about such a resource by the representation that is kept.
func (x *examination) standIn(ctx context.Context, a *plan.Action) (plan.Action, error) {
	w := a.Resource
	w.Gone, w.Instead, w.Change = false, "", resourcesync.Change(0)
	return x.set.Planner.Decide(ctx, &w, a.Held)
}
