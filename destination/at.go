package destination

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockstep/destination/internal/history"
	"lockstep/destination/internal/saved"
	"lockstep/discover"
)

// A pastRun says that a run brings the mirror to the state of the collection at
// an instant, not to the current one.
type pastRun struct {
	at   time.Time
	from *Destination // whose kept versions are used; often the mirror itself
	only bool         // from is all there is to ask
}

// SyncPast brings the mirror to the state that another mirror, or the mirror
// itself, had at an instant of that one's own clock, as far back as it kept
// versions. It sends no requests to any Source. Report and errors are those of
// [Destination.Sync] with [Options.At].
func (d *Destination) SyncPast(ctx context.Context, from *Destination, at time.Time) (Report, error) {
	s := &session{d: d, past: &pastRun{at: at, from: from, only: true}}
	return s.whole(from.opts.Dest, d.deliverer(), func() error { return s.runPast(ctx) })
}

// runPast is run where a mirror is the Source.
func (s *session) runPast(ctx context.Context) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	sets, err := s.pastSets(ctx)
	if err != nil {
		return err
	}
	return s.runSets(ctx, sets)
}

// aloneWith returns the states of the sets of a mirror whose Source, at
// address, could not be found because of err: the mirror's own history may have
// its past state. It returns nil if there is no such history, or if err has
// another cause.
func (s *session) aloneWith(ctx context.Context, address string, err error) ([]*setState, error) {
	var unknown *SetError
	if s.past == nil || ctx.Err() != nil || errors.Is(err, ErrRefused) || errors.As(err, &unknown) {
		return nil, nil
	}
	if known, err := history.Exists(ctx, s.d.journal); err != nil || !known {
		return nil, err
	}
	if s.mirror.Found == nil || s.mirror.Found.Address != address {
		return nil, nil // it may be one of another Source
	}
	s.warn(address, fmt.Sprintf("the Source cannot be asked: %v; this is what the mirror was", err))
	s.past.only = true
	return s.pastSets(ctx)
}

// pastSets returns the states of the sets of the mirror that is the Source.
func (s *session) pastSets(ctx context.Context) ([]*setState, error) {
	from := s.past.from
	var theirs saved.Mirror
	if known, err := saved.Load(ctx, from.journal, saved.DocMirror, &theirs); err != nil {
		return nil, err
	} else if !known || len(theirs.Numbers) == 0 {
		return nil, fmt.Errorf("read the history of the mirror%s: there is none", from.inDest())
	}
	if s.mirror.Origin == "" {
		s.mirror.Origin = theirs.Origin
	}
	found := &discover.Found{}
	numbers := map[string]int{}
	for uri, n := range theirs.Numbers {
		var st setState
		if _, err := saved.Load(ctx, from.journal, saved.DocSet(n), &st); err != nil {
			return nil, err
		}
		found.Sets = append(found.Sets, discover.Set{CapabilityList: uri, Name: st.Name})
		numbers[uri] = n
	}
	chosen, err := s.choose(found)
	if err != nil {
		return nil, err
	}
	var sets []*setState
	for _, f := range chosen {
		st, err := s.loadSet(ctx, f)
		if err != nil {
			return nil, err
		}
		st.SourceNumber = numbers[st.URI]
		sets = append(sets, st)
	}
	return sets, nil
}

// pastError returns the error of a run that did not restore all of the past;
// err is the first of a set.
func (s *session) pastError(err error, sets int) error {
	if none, ok := errors.AsType[*NoPastError](err); ok && sets == 1 {
		return none
	}
	return &PastError{At: s.past.at, AsOf: s.report.AsOf, Missing: s.report.Failed + s.report.Refused, Untold: s.untold}
}

// tellUntold reports that the past state of one of several sets is unknown; if
// there is only one set, the error of the run says so.
func (s *session) tellUntold(set *setState, err error, sets int) {
	none, ok := errors.AsType[*NoPastError](err)
	switch {
	case !ok:
	case sets > 1:
		s.problem(set.URI, none)
	default:
		s.report.Fail(set.URI, none.Error())
	}
}
