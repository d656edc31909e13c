package destination

import (
	"context"

	"lockstep/destination/filename"
	"lockstep/destination/internal/apply"
	"lockstep/destination/internal/harvest"
	"lockstep/destination/internal/planner"
	"lockstep/destination/internal/reconcile"
	"lockstep/destination/internal/stage"
	"lockstep/destination/internal/transfer"
)

// reconciled returns what applies the staged state of a set.
func reconciled(r *setRun) *reconcile.Set {
	s := &reconcile.Set{Run: reconcileRun(r.session), State: &r.set.Set, Push: r.set.Push, Stage: r.stage, Reader: r.reader, Outages: r.docs.Outages,
		Stale: r.stale, Outdated: r.outdated, Moved: &r.movedOn, FallBack: r.docs.Replace, ListAt: r.docs.ListAt, Compared: r.docs.Compared, Final: r.final,
		Reselects: r.reselects(), Reclaims: r.reclaims(), Confirmed: r.confirmed, Results: r.results}
	if _, again := r.earlier[r.set.Number]; again {
		s.Run.Resume = true
	}
	if r.origin != nil {
		s.Harvested, s.Stored = true, harvest.StoredBy(harvestOrigin{r.origin})
		if f, ok := r.origin.(Finder); ok {
			s.Finder = f
		}
	}
	return s
}

// reconcileRun returns what the sets of a session have in common.
func reconcileRun(s *session) *reconcile.Run {
	d, o, out := s.d, &s.d.opts, s.state.Rows()
	r := &reconcile.Run{
		Settings: reconcile.Settings{KeepDeleted: o.Delete == DeleteKeep, MaxDelete: o.MaxDelete, Via: o.Via, AllVersions: o.AllVersions,
			Documents: o.Baseline || d.compare, AskNow: o.AskNow, Adopt: o.Adopt, Replace: o.Replace, VerifyAll: o.VerifyAll, DryRun: o.DryRun, NamePlans: o.NamePlans,
			Examined: s.report.Local != nil && s.report.Local.Checked},
		Mirror:  apply.Mirror{Store: d.store, Journal: d.journal, Keep: s.state.Keep, Out: s.state.Out, LeftIntent: s.state.LeaveIntent, In: d.inDest(), Jobs: d.jobs, Open: d.open, Share: o.Share, Statements: o.DeliverStatements},
		Selects: d.selects, OnDisk: apply.OnDisk(d.store, d.inDest()), Opener: d.packages,
		Report: &s.report, Emit: d.emit, Counts: s.state.Counts, Marked: &s.state.Marked, Passing: s.passing, Resume: s.state.Resume, OwnFiles: s.state.Own.Ours,
		Begin: s.state.Begin, Record: out.Record, Now: d.clock(),
		Paths:   func(ctx context.Context, st *stage.Stage) (*filename.Mapping, error) { return pathsOf(ctx, s, st) },
		Fetcher: func(set int, paths *filename.Mapping) *transfer.Fetcher { return newFetcher(d, set, paths) },
	}
	if s.past != nil {
		r.Past, r.Offline, r.OpenKept = true, s.past.only, keptContent(s.past.from).Open
	}
	return r
}

// pathsOf returns the names of the files of resources. If the Source is a file, its
// origin is that of the first resource that is staged.
func pathsOf(ctx context.Context, s *session, st *stage.Stage) (*filename.Mapping, error) {
	if err := findOrigin(ctx, s, st); err != nil {
		return nil, err
	}
	return s.state.Paths()
}

// findOrigin derives the origin from the first resource that is staged, if the
// Source is a file.
func findOrigin(ctx context.Context, s *session, st *stage.Stage) error {
	if s.state.Source.Origin != "" {
		return nil
	}
	origin, err := reconcile.Origin(ctx, st)
	if err != nil || origin == "" {
		return err
	}
	return s.state.SetOrigin(ctx, origin)
}

// newPlanner returns a planner for a set of the mirror.
func newPlanner(d *Destination, set int) *planner.Planner {
	return &planner.Planner{Journal: d.journal, Selects: d.selects, OnDisk: apply.OnDisk(d.store, d.inDest()), Set: set, Stated: apply.TakesNoContent(d.store), Now: d.clock()}
}
