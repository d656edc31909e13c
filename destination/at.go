package destination

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockstep/destination/internal/history"
	"lockstep/destination/internal/reconcile"
	"lockstep/destination/internal/restore"
)

// A pastRun says that a run brings the mirror to the state of the collection at
// an instant, not to the current one.
type pastRun struct {
	at      time.Time
	from    *Destination // whose history is used; often the mirror itself
	only    bool         // no request is sent to the Source
	unknown int          // sets whose past state is unknown
}

// SyncPast brings the mirror to the state that another mirror, or the mirror
// itself, had at an instant of that one's own clock, as far back as it kept
// versions. It sends no requests to any Source. Report and errors are those of
// [Destination.Sync] with [Options.At].
func (d *Destination) SyncPast(ctx context.Context, from *Destination, at time.Time) (Report, error) {
	s := newSession(d, from.opts.Dest, &pastRun{at: at, from: from, only: true}, d.deliverer())
	return s.whole(func() error { return runPast(ctx, s) })
}

// runPast is run with a mirror as the Source.
func runPast(ctx context.Context, s *session) error {
	if err := s.state.Open(ctx); err != nil {
		return err
	}
	sets, err := pastSets(ctx, s)
	if err != nil {
		return err
	}
	return s.runSets(ctx, sets)
}

// ownPast returns the states of the sets of a mirror whose Source, at address, could
// not be found because of err: the mirror's own history may have its past state. It
// returns nil if there is no such history, or if err has another cause.
func ownPast(ctx context.Context, s *session, address string, err error) ([]*setState, error) {
	var unknown *SetError
	if s.past == nil || ctx.Err() != nil || errors.Is(err, ErrRefused) || errors.As(err, &unknown) {
		return nil, nil
	}
	if known, err := history.Exists(ctx, s.d.journal); err != nil || !known {
		return nil, err
	}
	if s.state.Source.Found == nil || s.state.Source.Found.Address != address {
		return nil, nil // it may be the history of another Source
	}
	s.warn(address, fmt.Sprintf("the Source cannot be asked: %v; this is what the mirror was", err))
	s.past.only = true
	return pastSets(ctx, s)
}

// pastSets returns the states of the sets of the mirror that is the Source.
func pastSets(ctx context.Context, s *session) ([]*setState, error) {
	from := s.past.from
	found, theirs, err := restore.SetsOf(ctx, from.journal)
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, fmt.Errorf("read the history of the mirror%s: there is none", from.inDest())
	}
	if s.state.Source.Origin == "" {
		s.state.Source.Origin = theirs.Origin
	}
	chosen, err := setsOf(s).Choose(found)
	if err != nil {
		return nil, err
	}
	var sets []*setState
	for _, f := range chosen {
		st, err := setsOf(s).Load(ctx, f)
		if err != nil {
			return nil, err
		}
		st.SourceNumber = theirs.Numbers[st.URI]
		sets = append(sets, st)
	}
	return sets, nil
}

// restoreSet brings a set to its state at the requested instant.
func restoreSet(ctx context.Context, r *setRun) error {
	r.docs.Compared = true
	run := restore.Run{At: r.past.at, Set: &r.set.Set, Reader: r.reader, Offline: r.past.only, History: r.past.from.journal,
		Selection: r.d.selects.Key, DryRun: r.d.opts.DryRun, Report: &r.report,
		Apply: func(ctx context.Context, st *restore.State, done func()) (bool, error) {
			r.docs.ListAt = st.At
			return reconciled(r).Apply(ctx, reconcile.Work{Mode: ModeBaseline, Via: st.Via, Complete: true, Files: true, Prune: true, Past: st, Done: done})
		}}
	return run.Run(ctx)
}

// incomplete returns the error of a run that did not restore all of the past state;
// err is the first error of a set.
func (p *pastRun) incomplete(r *Report, err error, sets int) error {
	if none, ok := errors.AsType[*NoPastError](err); ok && sets == 1 {
		return none
	}
	return &PastError{At: p.at, AsOf: r.AsOf, Missing: r.Failed + r.Refused, Untold: p.unknown}
}

// reportUnknown reports that the past state of one of several sets is unknown; if
// there is only one set, the error of the run says so.
func reportUnknown(s *session, set *setState, err error, sets int) {
	none, ok := errors.AsType[*NoPastError](err)
	if !ok {
		return
	}
	if s.past.unknown++; sets > 1 {
		s.problem(set.URI, none)
	} else {
		s.report.Fail(set.URI, none.Error())
	}
}
