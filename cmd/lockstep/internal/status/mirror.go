package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"lockstep/cmd/lockstep/internal/health"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/stateplace"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/cmd/lockstep/internal/upstreams"
	"lockstep/destination"
	"lockstep/destination/lock"
	"lockstep/internal/fetch"
	"lockstep/internal/lastrun"
	"lockstep/internal/mirrordir"
	"lockstep/internal/trust"
)

// A Place is where a mirror is.
type Place struct {
	Name   string // among several; may be empty
	Source string // as configured; may be empty: as recorded
	Dest   string // directory or bucket
	State  string // directory with the state of a mirror in a bucket; "" for a mirror in a directory
}

// dir returns the directory below which the state of the mirror is.
func (p *Place) dir() string { return cmp.Or(p.State, p.Dest) }

// A Mirror is the state of a mirror, as it is recorded, or as the process says that follows
// into it.
type Mirror struct {
	Kind    string       `json:"kind"` // "mirror"
	Name    string       `json:"name,omitempty"`
	At      time.Time    `json:"at"` // when it was looked at
	State   health.State `json:"state"`
	Summary string       `json:"summary"`

	Source      string       `json:"source,omitempty"`
	Destination string       `json:"destination"`
	Process     *lock.Holder `json:"process,omitempty"` // works on the mirror now
	Killed      bool         `json:"killed,omitempty"`  // the last run did not come to an end; the next one continues it

	LastSuccess  time.Time `json:"last_success,omitzero"` // when it was last known to be in step
	Age          *float64  `json:"age_seconds,omitempty"` // since then
	SyncedUntil  time.Time `json:"synced_until,omitzero"` // by the Source's clock
	Error        string    `json:"error,omitempty"`       // of the last run
	Hint         string    `json:"hint,omitempty"`        // what to do about it
	FailingSince time.Time `json:"failing_since,omitzero"`
	Next         time.Time `json:"next_attempt,omitzero"`
	Pending      int64     `json:"pending"`   // resources that failed, and are tried again
	Resources    int64     `json:"resources"` // in all sets together

	Unproven []string `json:"unproven,omitempty"` // why it is not known to be complete, and what closes that

	LastRun *lastrun.Run            `json:"last_run,omitempty"` // not known of runs of earlier versions
	Sets    []destination.MirrorSet `json:"sets"`

	unfinished bool              // a run has begun to write files, and has not completed
	results    map[string]string // by set, why it was not in step after the last run; "": it was
	ended      bool              // the last run came to all sets that it followed
	doubted    map[string]bool   // by set: it is not known to be complete
}

// IsMirror reports whether the state of a mirror is below a directory.
func IsMirror(dir string) bool { return mirror.IsMirror(dir) }

// LookAt returns the state of a mirror. It does not wait for a process that works on it.
func LookAt(ctx context.Context, p Place) (*Mirror, error) {
	m := &Mirror{Kind: "mirror", Name: p.Name, At: time.Now().UTC().Truncate(time.Millisecond), Source: fetch.WithoutUser(p.Source), Destination: p.Dest}
	place, err := stateplace.Parse(p.dir(), os.LookupEnv)
	if err != nil {
		return nil, err
	}
	owned, err := m.readState(ctx, place)
	if err != nil {
		return nil, err
	}
	holder, held := lock.Look(place.Dir)
	m.unfinished = m.unfinished && !held && !owned
	if m.Killed = m.unfinished && (holder.PID != 0 || place.InDatabase()) || !held && !owned && m.isUnrecorded(&holder); held {
		m.Process = &holder
	}
	if live := follower(ctx, place.Dir); live != nil {
		m.follow(live)
		return m, nil
	}
	m.settle()
	return m, nil
}

// readState reads the recorded state of the mirror, and how the last run ended. It reports
// whether a process, perhaps of another machine, owns its database.
func (m *Mirror) readState(ctx context.Context, place stateplace.Place) (owned bool, err error) {
	r, err := mirror.OpenReader(ctx, place)
	if err != nil {
		return false, err
	}
	state, err := destination.Inspect(ctx, r.Journal)
	if err != nil {
		err = fmt.Errorf("read the state of %s: %w", place, err)
	}
	run, ran, rerr := lastrun.Read(r.Run)
	if err := errors.Join(err, rerr, r.Close()); err != nil {
		return false, err
	}
	m.Destination = cmp.Or(r.Dest, m.Destination)
	m.Source, m.Sets, m.unfinished = cmp.Or(m.Source, state.Source), state.Sets, state.Open
	for i := range m.Sets {
		s := &m.Sets[i]
		m.Resources, m.Pending = m.Resources+s.Resources, m.Pending+s.Pending
		if i == 0 || s.SyncedUntil.Before(m.SyncedUntil) {
			m.SyncedUntil = s.SyncedUntil
		}
	}
	if ran {
		m.addRun(&run)
	}
	return r.Owned, nil
}

// addRun adds how the last run ended.
func (m *Mirror) addRun(run *lastrun.Run) {
	m.LastRun, m.Source = run, cmp.Or(m.Source, run.Source)
	m.LastSuccess, m.Age, m.FailingSince, m.Next = run.LastSuccess, upstreams.AgeOf(run.LastSuccess, m.At), run.FailingSince, run.NotBefore
	m.doubted = make(map[string]bool, len(run.Unproven))
	for _, u := range run.Unproven {
		m.Unproven, m.doubted[u.Set] = append(m.Unproven, upstreams.Sentence(u.Reason)), true
	}
	m.Error, m.Hint = upstreams.Sentence(run.Error), upstreams.Sentence(run.Hint)
}

// isUnrecorded reports whether h, which has ended without releasing its lock, is a run whose result
// is not recorded: it was killed before it wrote files. A killed audit leaves the mirror as it was.
func (m *Mirror) isUnrecorded(h *lock.Holder) bool {
	return (strings.HasSuffix(h.Command, " sync") || strings.HasSuffix(h.Command, " follow")) && (m.LastRun == nil || m.LastRun.Ended.Before(h.Since))
}

// hasFailed reports whether resources have failed that are tried again: not those of sets that
// the last run left out.
func (m *Mirror) hasFailed() bool {
	return slices.ContainsFunc(m.Sets, func(s destination.MirrorSet) bool {
		_, reached := m.results[s.URI]
		return s.Failing && (reached || m.LastRun.SetsCut || len(m.results) == 0)
	})
}

// settle determines the state of a mirror that no process follows, and the sentence.
func (m *Mirror) settle() {
	source := cmp.Or(m.Source, "its Source")
	if run := m.LastRun; run != nil && !m.Killed && !m.unfinished {
		m.results = make(map[string]string, len(run.Sets))
		for _, s := range run.Sets {
			m.results[s.URI] = upstreams.Sentence(s.Error)
		}
		m.ended = (len(run.Sets) > 0 || run.SetsCut) && run.Result != lastrun.Failed && run.Result != lastrun.Interrupted
	}
	complete := len(m.Sets) > 0 && !slices.ContainsFunc(m.Sets, func(s destination.MirrorSet) bool { return !s.Complete })
	switch run := m.LastRun; {
	case m.Killed:
		m.State, m.Summary = health.Failing, m.notInStep(source, m.FailingSince)+"; the last run was killed"
		m.Error, m.Hint = "the last run was killed", "progress is saved; to continue, run the same command again"
	case run == nil:
		m.settleUnknown(source, complete)
	case run.Result == lastrun.InStep && m.unfinished:
		m.State, m.Summary = health.Failing, m.notInStep(source, m.FailingSince)+"; the last run did not complete"
		m.Error, m.Hint = "the last run did not complete", "progress is saved; to continue, run the same command again"
	case !run.At.IsZero() && run.Result == lastrun.InStep:
		m.State, m.Summary = health.OK, "a copy of "+source+" as it was at "+run.At.UTC().Format(time.RFC3339)
	case run.Result == lastrun.InStep && !m.hasFailed():
		m.State, m.Summary = health.OK, health.InStep(source, health.OK, m.LastSuccess, time.Time{}, m.At, m.Pending, m.Unproven)
	case run.Result == lastrun.Interrupted && m.FailingSince.IsZero():
		m.State = health.Failing
		m.Summary = m.notInStep(source, time.Time{}) + "; the last run was interrupted " + health.Span(max(m.At.Sub(run.Ended), 0)) + " ago"
	default:
		m.State, m.Summary = health.Failing, m.notInStep(source, m.FailingSince)
	}
	if p := m.Process; p != nil {
		m.Summary += "; a run is in progress"
		if p.PID != 0 {
			m.Summary += fmt.Sprintf(" (%s, process %d, since %s)", fetch.Printable(filepath.Base(p.Command)), p.PID, p.Since.UTC().Format("2006-01-02 15:04:05Z"))
		}
	}
}

// notInStep says that the mirror is not in step. If no resource is known to be pending, that
// says nothing of a run that has not compared all of them.
func (m *Mirror) notInStep(source string, since time.Time) string {
	pending := m.Pending
	if pending == 0 {
		pending = health.UnknownPending
	}
	return health.InStep(source, health.Failing, m.LastSuccess, since, m.At, pending, nil)
}

// settleUnknown is settle for a mirror of which no run has been recorded.
func (m *Mirror) settleUnknown(source string, complete bool) {
	const unknown = "when it was last in step is unknown: this is recorded from the next run on"
	switch {
	case !complete && m.Process != nil:
		m.State, m.Summary = health.Starting, health.InStep(source, health.Starting, time.Time{}, time.Time{}, m.At, m.Pending, nil)
	case complete && m.Pending == 0 && !m.unfinished:
		m.State, m.Summary = health.OK, "complete as of "+fetch.Printable(source)+" at "+m.SyncedUntil.UTC().Format(time.RFC3339)+"; "+unknown
	default:
		m.State, m.Summary = health.Failing, "not in step with "+fetch.Printable(source)+"; "+term.Thousands(m.Pending)+" pending; "+unknown
	}
}

// follower returns the state of the process that follows into a mirror; nil if there is none
// that can be asked.
func follower(ctx context.Context, dir string) *health.Process {
	path, err := trust.SocketIn(mirrordir.State(dir))
	if err != nil {
		return nil
	}
	if _, err := os.Lstat(path); err != nil {
		return nil
	}
	s, err := AtAddress(unixPrefix+path, "", "")
	if err != nil {
		return nil // unreachable: it is a socket
	}
	p, err := s.Ask(ctx)
	if err != nil || p.Kind != upstreams.Follow {
		return nil // then the recorded state counts
	}
	return p
}

// follow takes over what the process says that follows into the mirror.
func (m *Mirror) follow(p *health.Process) {
	m.State, m.Summary = p.State, p.Summary
	m.LastSuccess, m.Error, m.Hint, m.FailingSince, m.Next = time.Time{}, "", "", time.Time{}, time.Time{}
	m.results, m.doubted, m.Unproven = map[string]string{}, map[string]bool{}, nil
	uris := make(map[string]string, len(m.Sets)) // by what the process calls a set
	for i := range m.Sets {
		uris[cmp.Or(m.Sets[i].Name, m.Sets[i].URI)] = m.Sets[i].URI
	}
	for i := range p.Upstreams {
		u := &p.Upstreams[i]
		if uri, known := uris[u.Set]; known {
			m.results[uri], m.doubted[uri] = u.Error, len(u.Unproven) > 0
		}
		m.Unproven = append(m.Unproven, u.Unproven...)
		if i == 0 || u.LastSuccess.Before(m.LastSuccess) {
			m.LastSuccess = u.LastSuccess
		}
		if u.Error != "" && m.Error == "" {
			m.Error, m.Hint, m.FailingSince = u.Error, u.Hint, u.Since
		}
		if m.Next.IsZero() || !u.Next.IsZero() && u.Next.Before(m.Next) {
			m.Next = u.Next
		}
		m.Pending += max(u.Pending-u.Unconfirmed, 0) // those are recorded, too
	}
	m.Age = upstreams.AgeOf(m.LastSuccess, m.At)
}

// Print implements [health.Result].
func (m *Mirror) Print(io term.IO) {
	io.Printf("%s\n", m.Summary)
	health.PrintUnproven(io, m.Unproven)
	var rows []health.Row
	ofSet := slices.ContainsFunc(m.Sets, func(s destination.MirrorSet) bool { return m.results[s.URI] != "" })
	for i := range m.Sets {
		s := &m.Sets[i]
		r := health.Row{Name: cmp.Or(s.Name, s.URI), State: "in step", Success: m.LastSuccess, Next: m.Next, Pending: s.Pending, Resources: &s.Resources, Err: upstreams.Sentence(s.Error)}
		failed, ended := m.results[s.URI]
		switch {
		case !s.Complete:
			r.State = "incomplete"
		case s.Failing || failed != "" || m.State == health.Failing && (len(m.Sets) == 1 || !ended && !m.ended):
			r.State = string(health.Failing)
		case m.doubted[s.URI]:
			r.State = unproven
		}
		if r.Err = cmp.Or(r.Err, failed); r.Err == "" && m.Pending == 0 && i == 0 && !ofSet {
			r.Err = m.Error
		}
		if i == 0 {
			r.Hint = m.Hint
		}
		rows = append(rows, r)
	}
	if len(rows) == 0 && m.Error != "" {
		rows = append(rows, health.Row{Name: "-", State: string(m.State), Success: m.LastSuccess, Next: m.Next, Err: m.Error, Hint: m.Hint})
	}
	health.PrintRows(io, "SET", rows, m.At)
}

// Check implements [health.Result].
func (m *Mirror) Check() error {
	switch m.State {
	case health.OK:
		return nil
	case health.Starting:
		return fmt.Errorf("not yet in step: %w", health.ErrStarting)
	}
	return fmt.Errorf("the mirror is %w", health.ErrFailing)
}

// unproven is the state, in a table, of what is in step as far as it can be known.
const unproven = "unproven"

// row returns the line of the mirror among others.
func (m *Mirror) row() health.Row {
	r := health.Row{
		Name: cmp.Or(m.Name, m.Destination), State: string(m.State), Success: m.LastSuccess, Next: m.Next, Pending: m.Pending, Resources: &m.Resources,
		Err: m.Error, Hint: m.Hint,
	}
	if m.State == health.OK {
		if r.State = "in step"; len(m.Unproven) > 0 {
			r.State = unproven
		}
	}
	for i := range m.Sets {
		r.Err = cmp.Or(r.Err, upstreams.Sentence(m.Sets[i].Error))
	}
	return r
}

// Mirrors are the states of several mirrors.
type Mirrors struct {
	Kind    string       `json:"kind"` // "mirrors"
	At      time.Time    `json:"at"`
	State   health.State `json:"state"` // the worst
	Summary string       `json:"summary"`
	Mirrors []*Mirror    `json:"mirrors"` // in the order in which they are configured
}

// looksAtATime is how many mirrors are looked at at a time: it reads files of each.
const looksAtATime = 8

// LookAtAll returns the states of mirrors. One that cannot be read is failing.
func LookAtAll(ctx context.Context, places []Place) *Mirrors {
	all := &Mirrors{Kind: "mirrors", At: time.Now().UTC().Truncate(time.Millisecond), State: health.OK, Mirrors: make([]*Mirror, len(places))}
	var work sync.WaitGroup
	turns := make(chan struct{}, looksAtATime)
	for i, place := range places {
		work.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			m, err := LookAt(ctx, place)
			if err != nil {
				m = &Mirror{
					Kind: "mirror", Name: place.Name, At: all.At, State: health.Failing, Source: fetch.WithoutUser(place.Source), Destination: place.Dest,
					Summary: err.Error(), Error: upstreams.Sentence(err.Error()), Hint: term.HintOf(err), Sets: []destination.MirrorSet{},
				}
			}
			all.Mirrors[i] = m
		})
	}
	work.Wait()
	count := map[health.State]int{}
	pending, doubted := int64(0), 0
	for _, m := range all.Mirrors {
		if m.State == health.OK && len(m.Unproven) > 0 {
			doubted++
		}
		count[m.State]++
		pending += m.Pending
	}
	parts := []string{fmt.Sprintf("%d in step", count[health.OK])}
	if doubted > 0 {
		parts[0] += fmt.Sprintf(" (%d as far as it can be known)", doubted)
	}
	if n := count[health.Starting]; n > 0 {
		all.State = health.Starting
		parts = append(parts, fmt.Sprintf("%d not yet in step", n))
	}
	if n := count[health.Failing]; n > 0 {
		all.State = health.Failing
		parts = append(parts, fmt.Sprintf("%d failing", n))
	}
	all.Summary = term.Count(len(places), "mirror") + ": " + strings.Join(parts, ", ") + "; " + term.Thousands(pending) + " pending"
	return all
}

// Print implements [health.Result].
func (a *Mirrors) Print(io term.IO) {
	io.Printf("%s\n", a.Summary)
	rows := make([]health.Row, len(a.Mirrors))
	for i, m := range a.Mirrors {
		rows[i] = m.row()
	}
	health.PrintRows(io, "MIRROR", rows, a.At)
}

// Check implements [health.Result].
func (a *Mirrors) Check() error {
	n := 0
	for _, m := range a.Mirrors {
		if m.State != health.OK {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d of %s %s %w", n, term.Count(len(a.Mirrors), "mirror"), health.IsAre(n), health.ErrFailing)
}
