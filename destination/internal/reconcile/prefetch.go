package reconcile

import (
	"context"
	"maps"
	"sync/atomic"
	"time"

	"lockstep/destination/internal/apply"
	"lockstep/destination/internal/bulk"
	"lockstep/destination/internal/counting"
	"lockstep/destination/internal/failure"
	"lockstep/destination/internal/outage"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/prefetch"
	"lockstep/destination/internal/stage"
	"lockstep/destination/report"
)

// Prefetch fetches resources while the Resource List that names them is still being read. It
// has its own report and counts, because the reading uses those of the run.
type Prefetch struct {
	run     *Run // of the set
	set     Set  // whose Run is another one
	fetcher *prefetch.Fetcher
	ended   atomic.Bool // an intent was left: nothing more can be done before it is settled
}

// Prefetch returns what fetches resources of s before [Set.Apply], or nil if that does
// not pay or would not do the same as Apply: only a set of which nothing is held has
// nothing but new resources, and what a Resource Dump may have is not requested. Nor does it
// where other processes fetch, too: what one of them has committed when it dies would be in
// the way of Apply.
func (s *Set) Prefetch() *Prefetch {
	r := s.Run
	switch {
	case r.Mirror.Share != nil, r.DryRun, r.Past, r.Adopt, r.Replace, r.Via == report.ViaDump, r.Via != report.ViaList && s.State.Dump != "",
		r.Counts[s.State.Number] > 0, s.Harvested, s.Final, s.Push.HasEvents(), apply.TakesNoContent(r.Mirror.Store), !r.Selects.IsIndependent():
		return nil
	}
	a := &Prefetch{run: r, set: *s}
	run := *r
	run.Report, run.Counts, run.Passing = &counting.Report{}, maps.Clone(r.Counts), nil
	run.Emit = func(e report.Event) {
		if e.Kind != report.EventFailed { // it is tried again
			r.Emit(e)
		}
	}
	run.Mirror.LeftIntent = func() {
		a.ended.Store(true)
		r.Mirror.LeftIntent()
	}
	a.set.Run, a.set.Stale, a.set.Moved, a.set.Outages = &run, map[string]error{}, &apply.MovedOn{}, outage.New(time.Now)
	return a
}

// fetch fetches the resources of a part of the list, for as long as more returns true.
// What fails, or has to wait, is left to [Set.Apply], which finds the others in step. For
// want of space it returns no error, either.
func (a *Prefetch) fetch(ctx context.Context, part *stage.Stage, more func() bool) error {
	if a.ended.Load() {
		return nil
	}
	s := &a.set
	s.Stage = part
	paths, err := s.Run.Paths(ctx, part)
	if err != nil {
		return err
	}
	p := s.planner(&Work{Mode: report.ModeBaseline, Via: report.ViaList})
	var needs bulk.Needs
	if _, err := p.Count(ctx, part, func(a *plan.Action) { needs.Add(a) }); err != nil {
		return err
	}
	if err := s.Run.Begin(ctx); err != nil {
		return err
	}
	by := s.applier(ctx, paths)
	if s.Run.Via != report.ViaList && s.Reader.Refuse(s.State.Demand) == "" {
		by.Methods.Demand = s.demand(&needs)
	}
	err = by.FetchNew(ctx, p.Actions(ctx, part), more)
	if failure.IsFull(err) {
		return nil // Apply reports it
	}
	return err
}

// Start starts fetching what is given to the Fetcher, until [Prefetch.End] is called.
func (a *Prefetch) Start(ctx context.Context) *prefetch.Fetcher {
	a.fetcher = prefetch.Start(ctx, func() *stage.Stage { return stage.New(a.set.Run.Mirror.Journal) }, a.fetch)
	return a.fetcher
}

// End waits until nothing is being fetched any more, and adds what was counted to the
// report and the counts of the run.
func (a *Prefetch) End() error {
	err := a.fetcher.End()
	ours := a.set.Run
	a.run.Report.Add(ours.Report)
	if n := a.set.State.Number; ours.Counts[n] > 0 {
		a.run.Counts[n] = ours.Counts[n]
	}
	return err
}
