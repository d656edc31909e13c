package destination

import (
	"context"
	"fmt"

	"lockstep/destination/internal/bulk"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/planner"
	"lockstep/destination/internal/stage"
	"lockstep/destination/internal/wording"
	"lockstep/internal/fetch"
)

// lost is what a pass over versions could not get.
type lost struct {
	count int
	first string
}

func (l *lost) add(a *plan.Action, err error) {
	if l.count++; l.count == 1 {
		l.first = fmt.Sprintf("%s as of %s: %v", fetch.Printable(a.URI), wording.Time(a.Event.Time()), err)
	}
}

// applyVersions applies, one after the other, the versions that come before the
// last, of resources that changed more than once (RS-CHL-15 lets others pass
// over them). It reports versions that are unavailable, which do no harm.
func (r *setRun) applyVersions(ctx context.Context, c *entries.Chain, via string) error {
	if !r.d.opts.AllVersions || r.d.opts.DryRun || c.Unchanged || !c.Whole() {
		return nil
	}
	turns := &r.stage.Versions
	turns.TooMany.Store(0)
	defer func() { turns.Turn = 0 }()
	paths, err := r.paths()
	if err != nil {
		return err
	}
	var gone lost
	if err := r.findOrigin(ctx); err != nil {
		return err
	}
	for turns.Turn = 1; ; turns.Turn++ {
		turns.More.Store(false)
		p := newPlanner(r.d, r.set.Number)
		p.Refuse, p.Settled, p.Version = r.reader.Refuse, r.set.Complete && !r.reselects(), true
		total, err := p.Count(ctx, r.stage, nil)
		if err != nil {
			return err
		}
		if !turns.More.Load() {
			break
		}
		if turns.Turn == 1 && !c.Dump {
			w := work{mode: ModeIncremental, via: via}
			if _, err := r.stageHints(ctx, &w, &bulk.Needs{}, true); err != nil {
				return err
			}
		}
		w := work{mode: ModeIncremental, via: via, complete: true}
		deletes := r.d.opts.Delete != DeleteKeep
		if !deletes {
			total.Deleted = 0
		} else if err := r.consent(&total, &w); err != nil {
			return err
		}
		a := r.applier(ctx, paths)
		a.Lost, a.Methods.Packages, a.Methods.Only, a.Methods.Unavailable = gone.add, &r.reader.Packages, true, planner.ErrNoVersion
		if err := r.execute(ctx, a, p, &w, &total, deletes); err != nil {
			return err
		}
	}
	if n := turns.TooMany.Load(); n > 0 {
		r.warn(r.set.Changes, fmt.Sprintf("set %s: of %s only the last version is applied: there are more than %d", r.set.Name, wording.Plural(n, "resource"), stage.MaxVersions))
	}
	if gone.count > 0 {
		r.warn(r.set.Changes, fmt.Sprintf("set %s: %s not available, the first %s", r.set.Name, wording.Plural(int64(gone.count), "earlier version"), gone.first))
	}
	return nil
}
