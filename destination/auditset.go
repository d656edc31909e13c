package destination

import (
	"context"
	"iter"

	"lockstep/destination/filename"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/planner"
	"lockstep/destination/internal/stage"
	"lockstep/destination/journal"
	"lockstep/internal/extsort"
)

// A setAudit examines the resources of one set, many at a time, and reports on
// them in their order.
type setAudit struct {
	*auditor
	set    *setState
	before []*setState // sets that were looked at already
	listed bool        // what the Source does not list is not to be here

	excused map[string]bool // optional representations that were reported as not served
	paths   *filename.Mapping
	planner *planner.Planner
}

// A verdict is what was found of one resource. Without a Finding it is right.
type verdict struct {
	finding  Finding // Kind is empty if there is none
	orphan   bool    // no set has it any more
	damaged  bool    // the file is not there, or not what was written
	verified bool    // its bytes were read, and are right
	read     int64   // bytes
}

// run looks at all that s expects, and all that is held, and notes the names of
// the files that are accounted for.
func (s *setAudit) run(ctx context.Context, st *stage.Stage, names *extsort.Writer) error {
	err := inBundles(ctx, s.actions(ctx, st, names), s.check, func(act *plan.Action, v *verdict) error {
		return s.book(ctx, act, v)
	})
	s.named = s.named || err == nil && s.planner.Prune
	return err
}

// actions yields what is to be looked at.
func (s *setAudit) actions(ctx context.Context, st *stage.Stage, names *extsort.Writer) iter.Seq2[plan.Action, error] {
	return func(yield func(plan.Action, error) bool) {
		for act, err := range s.planner.Actions(ctx, st) {
			if row, ok := s.halfway[act.URI]; ok && err == nil {
				act, err = s.decided(ctx, &act, row)
			}
			if err == nil && s.isStandIn(&act) {
				act, err = s.standIn(ctx, &act)
			}
			if err == nil {
				err = s.account(&act, names)
			}
			if act.Class != 0 && !act.Gone {
				if s.offered++; !act.Unselected {
					s.selected++
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
	case s.plain:
		for path := range s.d.filesOf(s.paths, act.URI) {
			if err := names.Add([]byte(path), nil); err != nil {
				return err
			}
		}
	case act.IsHeld() && s.planner.Prune && !s.named:
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
func (s *setAudit) book(ctx context.Context, act *plan.Action, v *verdict) error {
	if act.Class != 0 && !act.Gone && !v.orphan {
		s.out.Resources++
	}
	s.out.Read += v.read
	if v.verified {
		s.out.Verified++
	}
	s.step(s.set)
	if v.finding.Kind == "" {
		return nil
	}
	if v.orphan {
		s.orphans++
	} else if s.opts.Fix && v.damaged {
		if err := s.note(ctx, act, &v.finding); err != nil {
			return err
		}
	}
	s.find(&v.finding)
	return nil
}
