package aggregator

import (
	"cmp"
	"net/url"
	"slices"
	"sync"
	"time"

	"lockstep/destination"
	"lockstep/destination/report"
)

// A State says what an [Upstream] is doing.
type State string

// The states of an [Upstream].
const (
	StateStarting  State = "starting"  // it has not been in step since the process started, and has not failed
	StateFollowing State = "following" // it was in step after the last attempt, and is followed
	StateWaiting   State = "waiting"   // it is due, and waits until other upstreams of the [Fleet] have had their turn
	StateFailing   State = "failing"   // the last attempt failed; the next one is at NextAttempt
	StateStopped   State = "stopped"   // it is not followed: Watch has ended, or has not begun
)

// A Status is the state of an [Upstream] at one moment. Times are of the local clock and
// zero if unknown; they are not kept when the process ends.
type Status struct {
	Set   string `json:"set"`  // URI of the Capability List of the set that it fills
	Name  string `json:"name"` // as of [Options]
	URL   string `json:"url"`  // without user and password
	State State  `json:"state"`

	// Channel is how changes are noticed: "hub", "events" or "poll"; "" until the
	// upstream has been read. Of several sets of an upstream, the best one.
	Channel string `json:"channel,omitempty"`

	LastAttempt time.Time `json:"last_attempt,omitzero"` // when its documents were last read, or failed to be
	LastSuccess time.Time `json:"last_success,omitzero"` // when the mirror was last known to be in step
	LastChange  time.Time `json:"last_change,omitzero"`  // when a change of it was last republished

	Error        string        `json:"error,omitempty"`           // of the last attempt; what was published before remains published
	Hint         string        `json:"hint,omitempty"`            // what to do about it
	FailingSince time.Time     `json:"failing_since,omitzero"`    // when the first of the failed attempts ended
	Attempts     int           `json:"failed_attempts,omitempty"` // in a row
	NextAttempt  time.Time     `json:"next_attempt,omitzero"`     // when it is read again, unless it sends a notification before
	Interval     time.Duration `json:"interval_ns,omitempty"`     // between two attempts that succeed, at present

	Resources int64 `json:"resources"`        // that are republished
	Failed    int   `json:"failed,omitempty"` // resources that could not be fetched or verified, in the last attempt
	Errors    int64 `json:"errors"`           // attempts that failed since the process started
}

// A progress is what an Upstream records of its work for its Status.
type progress struct {
	mu        sync.Mutex // guards the following fields
	watching  bool
	waiting   bool
	changed   time.Time
	succeeded time.Time
	attempted time.Time
	err, hint string
	since     time.Time
	attempts  int
	next      time.Time
	resources int64
	failed    int
	errors    int64
}

// ended records the end of an attempt, and when the next one begins, if that is known.
func (p *progress) ended(err error, next time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.attempted, p.next = now, next
	if err == nil {
		p.succeeded, p.err, p.hint, p.since, p.attempts = now, "", "", time.Time{}, 0
		return
	}
	p.errors++
	if p.attempts++; p.since.IsZero() {
		p.since = now
	}
	p.err, p.hint = err.Error(), report.HintOf(err)
}

// applied records changes of the catalog.
func (p *progress) applied(created, updated, deleted int64) {
	if created+updated+deleted == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed = time.Now()
	p.resources = max(p.resources+created-deleted, 0)
}

// counted records how many resources are republished.
func (p *progress) counted(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resources = n
}

// set changes the record with do.
func (p *progress) set(do func(*progress)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	do(p)
}

// Status returns the state of the upstream. It does not wait for work that is under way.
func (u *Upstream) Status() Status {
	st := u.status()
	f := u.following.Load()
	if f == nil || st.State == StateStopped || st.Error != "" {
		return st
	}
	fs := f.Status()
	st.Error, st.Hint, st.FailingSince, st.Attempts = fs.Error, fs.Hint, fs.FailingSince, fs.Attempts
	st.NextAttempt, st.LastSuccess = fs.NextLook, time.Time{}
	for i := range fs.Sets {
		st.addSet(&fs.Sets[i], i == 0)
	}
	switch {
	case st.State == StateWaiting:
	case !st.FailingSince.IsZero():
		st.State = StateFailing
	case st.LastSuccess.IsZero():
		st.State = StateStarting
	default:
		st.State = StateFollowing
	}
	if st.LastSuccess.IsZero() {
		u.progress.set(func(p *progress) { st.LastSuccess = p.succeeded })
	}
	return st
}

// status returns what the Upstream itself has recorded.
func (u *Upstream) status() Status {
	p := &u.progress
	p.mu.Lock()
	defer p.mu.Unlock()
	st := Status{
		Set: u.set, Name: u.o.Name, URL: withoutUser(u.o.Address), State: StateStarting,
		LastAttempt: p.attempted, LastSuccess: p.succeeded, LastChange: p.changed,
		Error: p.err, Hint: p.hint, FailingSince: p.since, Attempts: p.attempts, NextAttempt: p.next,
		Resources: p.resources, Failed: p.failed, Errors: p.errors,
	}
	switch {
	case !p.watching:
		st.State = StateStopped
	case p.waiting:
		st.State = StateWaiting
	case p.err != "":
		st.State = StateFailing
	}
	return st
}

// channelRank orders channels: the best has the highest number.
func channelRank(channel string) int {
	return slices.Index([]string{destination.ChannelPoll, destination.ChannelEvents, destination.ChannelHub}, channel)
}

// withoutUser returns an address without user name and password.
func withoutUser(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return address
	}
	u.User = nil
	return u.String()
}

// addSet takes in the state of one set of the upstream: of several, the one that is
// furthest behind counts.
func (st *Status) addSet(s *destination.SetStatus, first bool) {
	if channelRank(s.Channel) > channelRank(st.Channel) {
		st.Channel = s.Channel
	}
	if s.Pulled.After(st.LastAttempt) {
		st.LastAttempt = s.Pulled
	}
	if first || s.InStep.Before(st.LastSuccess) {
		st.LastSuccess = s.InStep
	}
	if !s.NextPull.IsZero() && (st.NextAttempt.IsZero() || s.NextPull.Before(st.NextAttempt)) {
		st.NextAttempt = s.NextPull
	}
	st.Interval = max(st.Interval, s.Interval)
	if s.FailingSince.IsZero() {
		return
	}
	if st.Error == "" {
		st.Error, st.Hint = cmp.Or(s.Refused, s.Error), s.Hint
	}
	st.Attempts = max(st.Attempts, s.Attempts)
	if st.FailingSince.IsZero() || s.FailingSince.Before(st.FailingSince) {
		st.FailingSince = s.FailingSince
	}
}

// Statuses returns the state of the upstreams of the group, in the order of their
// priority.
func (g *Group) Statuses() []Status {
	members := g.all()
	all := make([]Status, len(members))
	for i, u := range members {
		all[i] = u.Status()
		all[i].Set = g.set
	}
	return all
}
