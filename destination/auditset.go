package destination

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"lockstep/blob"
	"lockstep/destination/filename"
	"lockstep/destination/internal/adopt"
	"lockstep/destination/internal/audit"
	"lockstep/destination/internal/bundle"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/planner"
	"lockstep/destination/internal/stage"
	"lockstep/destination/internal/wording"
	"lockstep/destination/journal"
	"lockstep/internal/extsort"
)

// A setAudit examines the resources of one set, many at a time, and reports on
// them in their order.
type setAudit struct {
	a       *auditor
	set     *setState
	checker audit.Checker
	paths   *filename.Mapping
	planner *planner.Planner
}

// run looks at all that s expects, and all that is held, and notes the names of
// the files that are accounted for.
func (s *setAudit) run(ctx context.Context, st *stage.Stage, names *extsort.Writer) error {
	err := bundle.Each(ctx, s.actions(ctx, st, names), s.checker.Check, func(act *plan.Action, v *audit.Verdict) error {
		return s.book(ctx, act, v)
	})
	s.a.named = s.a.named || err == nil && s.planner.Prune
	return err
}

// actions yields what is to be looked at.
func (s *setAudit) actions(ctx context.Context, st *stage.Stage, names *extsort.Writer) iter.Seq2[plan.Action, error] {
	return func(yield func(plan.Action, error) bool) {
		for act, err := range s.planner.Actions(ctx, st) {
			if row, ok := s.a.halfway[act.URI]; ok && err == nil {
				act, err = s.decided(ctx, &act, row)
			}
			if err == nil && s.isStandIn(&act) {
				act, err = s.standIn(ctx, &act)
			}
			if err == nil {
				err = s.account(&act, names)
			}
			if act.Class != 0 && !act.Gone {
				if s.a.offered++; !act.Unselected {
					s.a.selected++
				}
			}
			if act.Verb == plan.Skip && err == nil && !s.isOrphan(&act) {
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
func (s *setAudit) account(act *plan.Action, names *extsort.Writer) error {
	switch {
	case s.a.plain:
		for path := range adopt.Names(s.paths, act.URI) {
			if err := names.Add([]byte(path), nil); err != nil {
				return err
			}
		}
	case act.IsHeld() && s.planner.Prune && !s.a.named:
		return names.Add([]byte(act.Held.Path), nil)
	}
	return nil
}

// decided makes the decision about a resource again, for the row that the
// Journal will hold once the state that a killed run left has been cleaned up.
func (s *setAudit) decided(ctx context.Context, act *plan.Action, row journal.Held) (plan.Action, error) {
	if act.Class == 0 {
		return s.planner.Decide(ctx, nil, row)
	}
	w := act.Resource
	return s.planner.Decide(ctx, &w, row)
}

// book counts and reports what was found.
func (s *setAudit) book(ctx context.Context, act *plan.Action, v *audit.Verdict) error {
	if act.Class != 0 && !act.Gone && !v.Orphan {
		s.a.out.Resources++
	}
	s.a.out.Read += v.Read
	if v.Verified {
		s.a.out.Verified++
	}
	s.a.step(s.set)
	if v.Finding.Kind == "" {
		return nil
	}
	if v.Orphan {
		s.a.orphans++
	} else if s.a.opts.Fix && v.Damaged {
		if err := s.a.marks.Add(ctx, &s.set.Set, act, &v.Finding); err != nil {
			return err
		}
	}
	s.a.find(&v.Finding)
	return nil
}

// isOrphan reports whether a resource is held only by sets that are not there
// any more: what it should be, the Journal alone knows. Each passes by once.
func (s *setAudit) isOrphan(act *plan.Action) bool {
	if !act.IsHeld() || s.a.named || !s.planner.Prune || len(s.a.d.opts.Sets) > 0 {
		return false
	}
	for _, n := range act.Held.Sets {
		if s.a.numbers[n] {
			return false
		}
	}
	return true
}

// compareFile compares the file of a resource in a plain directory with what
// the Source says.
func (s *setAudit) compareFile(ctx context.Context, act *plan.Action) (audit.Verdict, error) {
	f := s.checker.Verdict(act, audit.Missing, "no file of it is here").Finding
	if p, err := s.paths.Path(act.URI); err == nil {
		f.Path = p
	}
	for path := range adopt.Names(s.paths, act.URI) {
		l, err := adopt.Look(ctx, &s.a.sums, s.a.d.store, path, &act.Resource)
		var wrong *content.Error
		switch {
		case ctx.Err() != nil:
			return audit.Verdict{}, ctx.Err()
		case err == nil:
			return audit.Verdict{Verified: l.Verified, Read: l.Length}, nil
		case errors.Is(err, blob.ErrNotExist):
			continue
		case audit.IsShortage(err):
			return audit.Verdict{}, err
		}
		f.Path, f.Found = path, &audit.Facts{Hash: wording.Hashes(l.Hashes), Length: &l.Length, Lastmod: l.Modified}
		switch {
		case errors.As(err, &wrong):
			f.Kind, f.Cause = audit.Stale, fmt.Sprintf("its %s is %s, the Source states %s", wrong.What, wrong.Got, wrong.Want)
		case errors.Is(err, adopt.ErrUnverifiable):
			f.Kind, f.Cause = audit.Unverifiable, err.Error()
		default:
			f.Kind, f.Cause, f.Found = audit.Missing, err.Error(), nil
		}
	}
	return audit.Verdict{Finding: f}, nil
}
