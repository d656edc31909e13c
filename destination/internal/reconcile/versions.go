package reconcile

import (
	"context"
	"fmt"

	"lockstep/destination/filename"
	"lockstep/destination/internal/bulk"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/planner"
	"lockstep/destination/internal/stage"
	"lockstep/destination/internal/wording"
	"lockstep/destination/report"
	"lockstep/internal/fetch"
)

// unavailable counts the versions that are not available.
type unavailable struct {
	count int
	first string
}

func (u *unavailable) add(a *plan.Action, err error) {
	if u.count++; u.count == 1 {
		u.first = fmt.Sprintf("%s as of %s: %v", fetch.Printable(a.URI), wording.Time(a.Event.Time()), err)
	}
}

// ApplyVersions applies, one after the other, the versions that come before the
// last, of resources that changed more than once (RS-CHL-15 lets others skip
// them). It reports versions that are unavailable, which do no harm.
func (s *Set) ApplyVersions(ctx context.Context, c *entries.Chain, via string) error {
	if !s.Run.AllVersions || s.Run.DryRun || c.Unchanged || !c.Whole() {
		return nil
	}
	turns := &s.Stage.Versions
	turns.TooMany.Store(0)
	defer func() { turns.Turn = 0 }()
	paths, err := s.Run.Paths(ctx, s.Stage)
	if err != nil {
		return err
	}
	var missing unavailable
	for turns.Turn = 1; ; turns.Turn++ {
		turns.More.Store(false)
		p := s.Run.Planner(s.State.Number)
		p.Refuse, p.Settled, p.Version = s.Reader.Refuse, s.State.Complete && !s.Reselects, true
		total, err := p.Count(ctx, s.Stage, nil)
		if err != nil {
			return err
		}
		if !turns.More.Load() {
			break
		}
		if turns.Turn == 1 && !c.Dump {
			w := Work{Mode: report.ModeIncremental, Via: via}
			if _, err := s.stageHints(ctx, &w, &bulk.Needs{}, true); err != nil {
				return err
			}
		}
		if err := s.applyVersion(ctx, p, paths, &total, via, missing.add); err != nil {
			return err
		}
	}
	if n := turns.TooMany.Load(); n > 0 {
		s.Reader.Warn(s.State.Changes, fmt.Sprintf("set %s: of %s only the last version is applied: there are more than %d", s.State.Name, wording.Plural(n, "resource"), stage.MaxVersions))
	}
	if missing.count > 0 {
		s.Reader.Warn(s.State.Changes, fmt.Sprintf("set %s: %s not available, the first %s", s.State.Name, wording.Plural(int64(missing.count), "earlier version"), missing.first))
	}
	return nil
}

// applyVersion applies the next version of each resource that has one.
func (s *Set) applyVersion(ctx context.Context, p *planner.Planner, paths *filename.Mapping, total *planner.Tally, via string, lost func(*plan.Action, error)) error {
	w := Work{Mode: report.ModeIncremental, Via: via, Complete: true}
	deletes := !s.Run.KeepDeleted
	if !deletes {
		total.Deleted = 0
	} else if err := s.consent(total, &w, 0); err != nil {
		return err
	}
	a := s.applier(ctx, paths)
	a.Lost, a.Methods.Packages, a.Methods.Only, a.Methods.Unavailable = lost, &s.Reader.Packages, true, planner.ErrNoVersion
	return s.execute(ctx, a, p, &w, total, deletes)
}
