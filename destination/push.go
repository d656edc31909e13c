package destination

import (
	"context"
	"time"

	"lockstep/destination/internal/counting"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/follow"
	"lockstep/destination/internal/inbox"
	"lockstep/destination/internal/notification"
	"lockstep/destination/internal/planner"
	"lockstep/destination/internal/push"
	"lockstep/destination/internal/reconcile"
)

// applyMessages applies messages to a set, in order, all of them together. It reads
// nothing from the Source but contents. Of the set's state only the push state changes,
// in memory: Docs of the result has to be saved.
func applyMessages(ctx context.Context, s *session, set *setState, up *push.Parents, ms []*inbox.Message, now time.Time) (out follow.Pushed, err error) {
	err = s.bring(set, func() (err error) {
		r := newSetRun(s, set)
		defer r.reader.Release(ctx, &err)
		out, err = newPass(r, up, now).Run(ctx, ms, now)
		r.reader.Future.Report(&r.set.Set, r.warn)
		for uri, err := range r.stale { // it changed again: the next message describes it, or a pull finds it
			s.report.Failed--
			s.report.WithdrawFailure(uri, err.Error())
		}
		return err
	})
	return out, err
}

// newPass returns a pass over notifications of a set.
func newPass(r *setRun, up *push.Parents, now time.Time) *notification.Pass {
	st, o := r.set, &r.d.opts
	p := &notification.Pass{
		Set: &st.Set, State: st.Push, Parents: up, Client: r.d.client, Journal: r.d.journal, Reader: r.reader, Stage: r.stage, Report: &r.report,
		Jobs: o.Jobs, KeepsDeleted: o.Delete == DeleteKeep, Reselects: r.reselects(), Held: r.state.Counts[st.Number], Ahead: entries.WasAhead(&st.Set, now), Stale: r.stale,
		NewPlanner: func() *planner.Planner { return newPlanner(r.d, st.Number) },
	}
	p.ApplyVersions = func(ctx context.Context, results push.Results) error {
		r.results = results
		return reconciled(r).ApplyVersions(ctx, &entries.Chain{Complete: true, Dump: true}, ViaNotification)
	}
	p.Apply = func(ctx context.Context, confirmed map[push.Key]bool, results push.Results) error {
		r.confirmed, r.results = confirmed, results
		_, err := reconciled(r).Apply(ctx, reconcile.Work{Mode: ModeIncremental, Via: ViaNotification, Complete: true})
		return err
	}
	return p
}

// removeNotified removes resources whose notified deletion the Source has confirmed.
func removeNotified(ctx context.Context, s *session, set *setState, gone []desired.Resource) (results push.Results, err error) {
	r := newSetRun(s, set)
	defer r.reader.Release(ctx, &err)
	r.results = push.Results{}
	if r.confirmed, err = notification.StageConfirmed(ctx, r.stage, gone); err != nil {
		return nil, err
	}
	_, err = reconciled(r).Apply(ctx, reconcile.Work{Mode: ModeIncremental, Via: ViaNotification, Complete: true})
	return r.results, err
}

// pulled is called when a set was brought into step with the Source's
// documents: it compares them with what notifications announced. before is the report
// before that.
func (s *session) pulled(ctx context.Context, set *setState, before *counting.Report) error {
	if set.Push == nil || s.d.opts.DryRun {
		return nil
	}
	review := push.Review{
		Set: &set.Set, State: set.Push, Journal: s.d.journal, Client: s.d.client, Jobs: s.d.opts.Jobs, DoubtEvery: s.d.doubtEvery,
		Held: s.state.Counts[set.Number], Recount: !s.d.follows || s.d.opts.MaxDelete >= 100,
		Warn:       s.warn,
		CompareAll: func(ctx context.Context) error { return compareAgain(ctx, s, set, before) },
		Remove: func(ctx context.Context, gone []desired.Resource) (push.Results, error) {
			return removeNotified(ctx, s, set, gone)
		},
	}
	err := review.Run(ctx, time.Now())
	s.report.Contradicted += review.Contradicted
	s.report.Pending += review.Pending
	return err
}

// compareAgain compares all of a set that was brought into step in this run. Failures since before
// that this has mended are not reported.
func compareAgain(ctx context.Context, s *session, set *setState, before *counting.Report) error {
	if err := syncSet(ctx, s, set); err != nil {
		return err
	}
	waiting := pendingOf(s.d, set.Number)
	failed, err := waiting.HasFailures(ctx)
	if err == nil && !failed {
		s.report.WithdrawFailures(before)
		delete(s.passing, set.Number)
	}
	return err
}
