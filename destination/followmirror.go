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
	"lockstep/destination/internal/push"
	"lockstep/destination/internal/sets"
	"lockstep/destination/internal/wording"
	"lockstep/destination/internal/writebehind"
	"lockstep/discover"
	"lockstep/internal/fetch"
)

// A followedMirror is the mirror of a Follower. Its passes share a session, until
// one fails.
type followedMirror struct {
	d       *Destination
	address string
	poll    time.Duration // between pulls of a set without notifications
	journal *writebehind.Journal

	session *session                // nil: to be opened
	sets    map[string]*followedSet // by URI
	left    []*setState             // sets that are no longer followed

	localAt   time.Time     // when the files of the mirror were last checked
	localTook time.Duration // how long that took
}

// A followedSet is one set of a followedMirror.
type followedSet struct {
	name    string
	offered *discover.Set // as it was last found; never changed
	state   *setState     // nil: to be loaded
	up      push.Parents
}

var _ follow.Mirror = (*followedMirror)(nil)

// pass calls do with the session, and returns the result; set may be nil.
func (m *followedMirror) pass(ctx context.Context, set *followedSet, do func(s *session) error) follow.Pass {
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
	if err == nil || errors.Is(err, ErrIncomplete) {
		if kerr := s.state.EndKeeping(ctx, &s.report.Report); kerr != nil {
			err = kerr
		}
	}
	if err == nil && s.report.HasFailures() {
		err = fmt.Errorf("%w: %s", ErrIncomplete, s.report.Shortfall())
	}
	p := follow.Pass{Err: err, Report: conclude(s, meter, err)}
	if err != nil && !errors.Is(err, ErrIncomplete) {
		m.forget() // the state in memory may not be that of the Journal
	}
	if set != nil && set.state != nil {
		p.State = m.stateOf(set.state)
	}
	return p
}

// forget makes the next pass read the state again.
func (m *followedMirror) forget() {
	m.session = nil
	for _, s := range m.sets {
		s.state = nil
	}
}

// stateOf returns what a Follower needs to know of a set.
func (m *followedMirror) stateOf(st *setState) follow.SetState {
	return follow.SetState{Watermark: st.SyncedUntil(), Push: st.Push, Ended: st.Ended, Deferred: deferral.IsDeferred(m.d.client, &st.Set)}
}

// Look finds the Source's sets.
func (m *followedMirror) Look(ctx context.Context) follow.Look {
	var sets, left []*setState
	source := false // the failure is the Source's
	p := m.pass(ctx, nil, func(s *session) (err error) {
		found, changed, err := setsOf(s).Find(ctx, m.address)
		if err != nil {
			source = true
			return err
		}
		if sets, err = s.takeOver(ctx, m.address, found, changed); err != nil {
			return err
		}
		left, err = unselected(ctx, s, sets)
		return err
	})
	_, notOffered := errors.AsType[*SetError](p.Err)
	_, undelivered := errors.AsType[*DeliveryError](p.Err)
	incomplete, refused := errors.Is(p.Err, ErrIncomplete), errors.Is(p.Err, ErrRefused)
	l := follow.Look{Pass: p,
		Usable:     p.Err == nil || incomplete && len(sets) > 0,
		Impossible: refused || notOffered || errors.Is(p.Err, fs.ErrNotExist),
		Passing:    source || notOffered || refused || incomplete || undelivered}
	if !l.Usable || ctx.Err() != nil {
		return l
	}
	l.Unreadable = func(uri string) bool {
		o := m.session.state.Source.Offered(uri)
		return o != nil && o.Err != nil
	}
	m.left = left
	known := m.sets
	m.sets = map[string]*followedSet{}
	for _, st := range sets {
		offered := m.session.state.Source.Offered(st.URI)
		if offered == nil { // the Source no longer has it
			m.left = append(m.left, st)
			continue
		}
		set := known[st.URI]
		if set == nil {
			set = &followedSet{}
		}
		set.name, set.offered, set.state = fetch.Printable(st.Name), offered, st
		m.sets[st.URI] = set
		l.Sets = append(l.Sets, follow.FoundSet{URI: st.URI, Name: st.Name, Offered: offered, State: m.stateOf(st)})
	}
	for uri, set := range known {
		if m.sets[uri] == nil && l.Unreadable(uri) {
			m.sets[uri] = set
		}
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
		m.warnOfOverload(s, st, req)
		s.d.emit(Event{Kind: EventSet, Set: req.Name, Progress: Progress{Set: 1, Sets: 1}})
		if err := decideOwnership(ctx, s); err != nil {
			return err
		}
		if err := m.checkLocal(ctx, s, req.Ask); err != nil {
			return err
		}
		err = s.syncOne(ctx, st)
		s.until(st)
		if nerr := m.nothingSelected(s, req.All); nerr != nil && (err == nil || errors.Is(err, ErrRefused)) {
			err = nerr
		}
		if err == nil && s.unrepaired > 0 {
			err = fmt.Errorf("%w: %d files of the mirror are damaged and cannot be repaired", ErrIncomplete, s.unrepaired)
		}
		if err == nil || errors.Is(err, ErrIncomplete) {
			if merr := s.state.MoveHome(ctx, &s.report); merr != nil {
				return merr
			}
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
		out, err = applyMessages(ctx, s, st, &set.up, ms, time.Now())
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
	if m.session == nil {
		return nil
	}
	return m.session.state.Close(ctx)
}

// load returns the state of a set, which it reads if it is not known.
func (m *followedMirror) load(ctx context.Context, s *session, set *followedSet) (*setState, error) {
	if set.state != nil {
		return set.state, nil
	}
	s.home, s.file = sets.Home(m.address)
	st, err := setsOf(s).Load(ctx, set.offered)
	if err == nil {
		st.Foreign = s.state.Source.Found.Foreign
		set.state = st
	}
	return st, err
}

// nothingSelected refuses a selection that selects nothing in any of the sets that are
// followed, if all of them were pulled.
func (m *followedMirror) nothingSelected(s *session, all []string) error {
	if len(all) == 0 {
		return nil
	}
	sets := make([]*setState, 0, len(all))
	for _, uri := range all {
		set := m.sets[uri]
		if set == nil || set.state == nil {
			return nil
		}
		sets = append(sets, set.state)
	}
	return nothingSelected(s, sets)
}

// warnOfOverload warns, once, that the documents of a set are read in place of its
// backlog.
func (m *followedMirror) warnOfOverload(s *session, st *setState, req follow.PullRequest) {
	o := req.Overload()
	if o == nil {
		return
	}
	instead := "the Change List is"
	if st.Changes == "" {
		instead = "all of the set is"
	}
	s.warn(st.URI, fmt.Sprintf("set %s: %s waiting since %s are more than can be applied one by one; %s read instead",
		req.Name, wording.Plural(o.Messages, "notification"), o.Since.Local().Format("15:04:05"), instead))
}

// localShare limits how often a Follower checks the files of the mirror: it waits this
// many times as long as the last check took.
const localShare = 20

// checkLocal checks the files of the mirror before a set is brought into step, unless
// that was done a short time ago. It requests a pull of each set with damaged files.
func (m *followedMirror) checkLocal(ctx context.Context, s *session, ask func(uri string)) error {
	start := time.Now()
	if rest := max(m.poll, localShare*m.localTook); !m.localAt.IsZero() && start.Sub(m.localAt) < rest {
		return nil
	}
	if err := checkLocal(ctx, s); err != nil {
		return err
	}
	m.localAt, m.localTook = time.Now(), time.Since(start)
	for uri, set := range m.sets {
		if set.state != nil && s.damaged[set.state.Number] {
			ask(uri)
		}
	}
	return nil
}
