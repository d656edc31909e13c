package destination

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"lockstep/destination/internal/deferral"
	"lockstep/destination/internal/follow"
	"lockstep/destination/internal/inbox"
	"lockstep/destination/internal/localcheck"
	"lockstep/destination/internal/sets"
	"lockstep/destination/internal/writebehind"
)

// A followedMirror is the mirror of a Follower. Its passes share a session, until
// one fails.
type followedMirror struct {
	d       *Destination
	address string
	poll    time.Duration // between pulls of a set without notifications
	journal *writebehind.Journal

	session *session // nil: it has to be opened
	sets    sets.Followed
	left    []*setState // sets that are no longer followed

	pace localcheck.Pace // of the checks of the mirror's files
}

var _ follow.Mirror = (*followedMirror)(nil)

// pass calls do with the session, and returns the result; set may be nil.
func (m *followedMirror) pass(ctx context.Context, set *sets.FollowedSet, do func(s *session) error) follow.Pass {
	d := m.d
	meter := newMeter(d.client)
	s := m.session
	var err error
	if s == nil {
		s = newSession(d, m.address, nil, d.deliverer())
		if err = s.state.Open(ctx); err == nil {
			m.session = s
		}
	} else {
		s.report = newReport(d, m.address)
	}
	if err == nil {
		err = deferringDocuments(ctx, s, func() error { return do(s) })
	}
	unread := err != nil
	if err == nil || errors.Is(err, ErrIncomplete) {
		if kerr := s.state.EndKeeping(ctx, &s.report.Report); kerr != nil {
			err = kerr
		}
	}
	if err == nil && s.report.HasFailures() {
		err = fmt.Errorf("%w: %s", ErrIncomplete, s.report.Shortfall())
	}
	p := follow.Pass{Err: err, Report: conclude(s, meter, err), Unread: unread}
	if err != nil && !errors.Is(err, ErrIncomplete) {
		m.session = nil // the state in memory may not be that of the Journal
		m.sets.Forget()
	}
	if set != nil && set.State != nil {
		p.State = m.stateOf(set.State)
	}
	return p
}

// stateOf returns what a Follower needs to know of a set.
func (m *followedMirror) stateOf(st *setState) follow.SetState {
	return follow.SetState{Watermark: st.SyncedUntil(), Push: st.Push, Ended: st.Ended, Deferred: deferral.IsDeferred(m.d.client, &st.Set)}
}

// Look finds the Source's sets.
func (m *followedMirror) Look(ctx context.Context) follow.Look {
	var found, left []*setState
	unreachable := false
	p := m.pass(ctx, nil, func(s *session) (err error) {
		source, changed, err := setsOf(s).Find(ctx, m.address)
		if err != nil {
			unreachable = true
			return err
		}
		if found, err = s.takeOver(ctx, m.address, source, changed); err != nil {
			return err
		}
		left, err = unselected(ctx, s, found)
		return err
	})
	_, notOffered := errors.AsType[*SetError](p.Err)
	_, undelivered := errors.AsType[*DeliveryError](p.Err)
	incomplete, refused := errors.Is(p.Err, ErrIncomplete), errors.Is(p.Err, ErrRefused)
	l := follow.Look{Pass: p,
		Usable:     p.Err == nil || incomplete && len(found) > 0,
		Impossible: refused || notOffered || errors.Is(p.Err, fs.ErrNotExist),
		Passing:    unreachable || notOffered || refused || incomplete || undelivered}
	if !l.Usable || ctx.Err() != nil {
		return l
	}
	l.Unreadable = m.session.state.Source.IsUnreadable
	offered, gone := m.sets.Update(found, &m.session.state.Source)
	m.left = append(left, gone...)
	for _, st := range offered {
		l.Sets = append(l.Sets, follow.FoundSet{URI: st.URI, Name: st.Name, Offered: m.sets[st.URI].Offered, State: m.stateOf(st)})
	}
	l.Left = len(m.left) > 0
	return l
}

// Dissolve removes the resources of sets that are no longer followed.
func (m *followedMirror) Dissolve(ctx context.Context) follow.Pass {
	return m.pass(ctx, nil, func(s *session) error {
		for _, set := range m.left {
			if err := s.syncOne(ctx, set); err != nil {
				return err
			}
		}
		return nil
	})
}

// Pull brings one set into step by the Source's documents.
func (m *followedMirror) Pull(ctx context.Context, uri string, req follow.PullRequest) follow.Pass {
	set := m.sets[uri]
	return m.pass(ctx, set, func(s *session) error {
		st, err := m.load(ctx, s, set)
		if err != nil {
			return err
		}
		s.report.Sets = []string{uri}
		if o := req.Overload(); o != nil {
			s.warn(st.URI, o.Warning(req.Name, st.Changes != ""))
		}
		s.d.emit(Event{Kind: EventSet, Set: req.Name, Progress: Progress{Set: 1, Sets: 1}})
		if err := decideOwnership(ctx, s); err != nil {
			return err
		}
		if err := m.checkLocal(ctx, s, req.Ask); err != nil {
			return err
		}
		err = s.syncOne(ctx, st)
		s.until(st)
		if nerr := nothingSelected(s, m.sets.States(req.All)); nerr != nil && (err == nil || errors.Is(err, ErrRefused)) {
			err = nerr
		}
		if err == nil && s.unrepaired > 0 {
			err = fmt.Errorf("%w: %d files of the mirror are damaged and cannot be repaired", ErrIncomplete, s.unrepaired)
		}
		if err == nil || errors.Is(err, ErrIncomplete) {
			if merr := s.state.MoveHome(ctx, &s.report); merr != nil {
				return merr
			}
			reportUnrecorded(ctx, s, m.sets.States(req.All))
			if cerr := s.state.Rest(ctx); cerr != nil {
				return cerr
			}
		}
		if errors.Is(err, ErrRefused) {
			s.report.Fail(st.URI, err.Error())
		}
		return err
	})
}

// Push applies messages to a set.
func (m *followedMirror) Push(ctx context.Context, uri string, load func(context.Context) ([]*inbox.Message, error)) follow.Pushed {
	set := m.sets[uri]
	var out follow.Pushed
	p := m.pass(ctx, set, func(s *session) error {
		ms, err := load(ctx)
		if err != nil {
			return err
		}
		st, err := m.load(ctx, s, set)
		if err != nil {
			return err
		}
		s.report.Sets = []string{uri}
		out, err = applyMessages(ctx, s, st, &set.Parents, ms, time.Now())
		s.until(st)
		if err == nil {
			err = inbox.PutAside(context.WithoutCancel(ctx), m.journal, uri, out.Aside, out.Docs)
		}
		return err
	})
	if out.Docs == nil {
		out.Docs = map[string][]byte{}
	}
	out.Pass = p
	return out
}

// InStep is called when all sets are in step: a baseline that was requested is
// complete.
func (m *followedMirror) InStep() { m.d.opts.Baseline = false }

// Close ends the session.
func (m *followedMirror) Close(ctx context.Context) error {
	m.pace.Leave()
	if m.session == nil {
		return nil
	}
	return m.session.state.Close(ctx)
}

// load returns the state of a set, which it reads if it is not known.
func (m *followedMirror) load(ctx context.Context, s *session, set *sets.FollowedSet) (*setState, error) {
	if set.State != nil {
		return set.State, nil
	}
	s.home, s.file = sets.Home(m.address)
	st, err := setsOf(s).Load(ctx, set.Offered)
	if err == nil {
		st.Foreign = s.state.Source.Found.Foreign
		set.State = st
	}
	return st, err
}

// checkLocal checks the files of the mirror before a set is brought into step, unless
// that was done a short time ago. It requests a pull of each set with damaged files.
func (m *followedMirror) checkLocal(ctx context.Context, s *session, ask func(uri string)) error {
	start := time.Now()
	if !m.pace.IsDue(start, m.poll) {
		return nil
	}
	if err := checkLocal(ctx, s); err != nil {
		return err
	}
	m.pace.Done(start, time.Now())
	for uri, set := range m.sets {
		if set.State != nil && s.damaged[set.State.Number] {
			ask(uri)
		}
	}
	return nil
}
