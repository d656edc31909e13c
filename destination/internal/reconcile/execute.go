package reconcile

import (
	"context"
	"errors"
	"iter"

	"lockstep/destination/filename"
	"lockstep/destination/internal/apply"
	"lockstep/destination/internal/pending"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/planner"
	"lockstep/destination/internal/restore"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/stage"
	"lockstep/destination/journal"
	"lockstep/destination/report"
)

// applier returns what carries out the actions of the set.
func (s *Set) applier(ctx context.Context, paths *filename.Mapping) *apply.Applier {
	r := s.Run
	number := s.State.Number
	recorder := &apply.Recorder{Set: number, Name: s.State.Name, Report: &results{report: r.Report, set: s.State.Name, emit: r.Emit}, Counts: r.Counts, Results: s.Results, Push: s.Push,
		Marked: r.Marked, Stale: s.Stale, Outdated: s.Outdated, KeepsDeleted: r.KeepDeleted}
	a := apply.New(r.Mirror, r.Fetcher(number, paths), r.methods(), recorder)
	a.Fetch.Resume, a.Fetch.BeforeDeletions, a.Fetch.OwnFiles, a.Fetch.Refuse = r.Resume, true, r.OwnFiles, s.Reader.Refuse
	a.Fetch.OfPast, a.Fetch.OpenKept = r.Past, r.OpenKept
	a.Fetch.Stored = s.Stored
	if !s.Final {
		recorder.Passing = r.Passing
	}
	a.Fetch.Lasting = s.Outages.IsLasting(report.FallbackLoc)
	for range r.Mirror.Journal.Owed(ctx, number) {
		recorder.Owing, a.Fetch.Resume = true, true // a killed run may have begun to download it
		break
	}
	return a
}

// execute carries out a plan: first what is new and changed, then deletions,
// then what needed the space that these freed.
func (s *Set) execute(ctx context.Context, a *apply.Applier, p *planner.Planner, w *Work, total *planner.Tally, deletes bool) error {
	if err := s.Run.Begin(ctx); err != nil {
		return err
	}
	if err := s.unsettle(ctx, a, w); err != nil {
		return err
	}
	defer s.noteMoved(a)
	a.Recorder.Progress.Total, a.Recorder.Progress.TotalBytes = total.Todo()+total.Unchanged, total.Bytes
	a.Fetch.BeforeDeletions = deletes && total.Deleted > 0
	actions := p.Actions(ctx, s.Stage)
	if a.Recorder.Owing {
		waiting := s.pending()
		actions = waiting.Merge(ctx, actions, pending.Deferrals{Report: w.Via != report.ViaNotification && !w.Final, Settle: w.Prune})
	}
	defer a.Methods.Warnings.Report(s.Reader.Warn)
	replan := func() iter.Seq2[plan.Action, error] { return p.Actions(ctx, s.Stage) }
	return a.Execute(ctx, actions, replan, deletes && total.Deleted > 0)
}

// pending returns the pending work of the set.
func (s *Set) pending() pending.Set {
	return pending.Set{Journal: s.Run.Mirror.Journal, Number: s.State.Number, AskNow: s.Run.AskNow}
}

// unsettle records what a run that is killed would leave half done.
func (s *Set) unsettle(ctx context.Context, a *apply.Applier, w *Work) error {
	switch {
	case w.Mode == report.ModeBaseline && (w.Prune || s.Harvested && w.Complete):
		return s.restart(ctx, a, w.Past)
	case s.State.Complete && s.Reselects:
		undone := *s.State
		undone.Complete, undone.Selection = false, ""
		return s.Run.Mirror.Journal.Record(ctx, journal.Batch{Save: map[string][]byte{saved.DocSet(undone.Number): saved.Encode(&undone)}})
	}
	return nil
}

// restart records that the set is being compared as a whole: pending work so
// far is either found again, or no longer needed. If the set is being brought
// to a former state, its contents are afterwards known to be as old as that.
func (s *Set) restart(ctx context.Context, a *apply.Applier, past *restore.State) (err error) {
	if !a.Recorder.Owing && !s.State.Complete && past == nil {
		return nil
	}
	undone := *s.State
	undone.Complete = false
	undone.Harvest = undone.Harvest.Unfinished()
	docs := map[string][]byte{}
	if past != nil {
		undone.RestoreTo(past.Watermark, saved.Time(past.At))
		s.Push.Reset(undone.Number, docs)
	}
	docs[saved.DocSet(undone.Number)] = saved.Encode(&undone)
	if !s.Harvested {
		s.State.Complete = false // until the comparison is done, also in another turn of this run
	}
	waiting := s.pending()
	a.Recorder.Owing, err = waiting.Discard(ctx, docs)
	return err
}

// removeConfirmed carries out the deletions that the addresses of resources
// confirmed in this run.
func (s *Set) removeConfirmed(ctx context.Context, w *Work) (err error) {
	gone := *s
	gone.Stage = stage.New(s.Run.Mirror.Journal)
	defer func() {
		if cerr := gone.Stage.Close(context.WithoutCancel(ctx)); err == nil {
			err = cerr
		}
	}()
	confirmed := s.pending()
	if err := confirmed.StageConfirmed(ctx, gone.Stage); err != nil {
		return err
	}
	_, err = gone.Apply(ctx, Work{Mode: w.Mode, Via: w.Via, Complete: true})
	return err
}

// noteMoved records which addresses have other versions, or fail.
func (s *Set) noteMoved(a *apply.Applier) {
	s.Moved.Merge(&a.Recorder.Moved)
	if a.Fetch.Failing.Load() {
		s.Outages.Fails(report.FallbackLoc, errAddresses)
	}
}

var errAddresses = errors.New("addresses of resources fail")

// FallbackFor describes resources that came from mementos.
func FallbackFor(m *apply.MovedOn) report.Fallback {
	return report.Fallback{Missing: report.FallbackLoc, URI: m.First, Cause: m.Cause.Error(), Used: report.FallbackMemento, Count: m.Count,
		Unproven: "they are as the Source describes them, and may have changed since"}
}
