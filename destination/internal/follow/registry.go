package follow

import (
	"sync"
	"time"

	"lockstep/destination/internal/inbox"
	"lockstep/destination/internal/push"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/writebehind"
	"lockstep/destination/report"
)

const (
	// maxIdlePulls limits how often the minimum time between requested pulls is doubled
	// because they found nothing.
	maxIdlePulls = 6

	// overdue is how long a pull of a set waits behind messages that keep arriving.
	overdue = 2 * time.Second
)

// A registry contains the sets that are followed, the messages that wait for each,
// and the time of the next pull of each.
type registry struct {
	opts    *Options
	journal *writebehind.Journal
	inbox   *inbox.Box
	wake    chan struct{} // holds a token when there may be something to do

	mu       sync.Mutex // guards the fields below
	limits   Limits
	sets     []*set
	early    map[string][]*inbox.Message // messages of sets that have not been found yet
	turn     int                         // index of the set whose turn it is
	lookAt   time.Time                   // when to look up the Source's sets
	looked   time.Time                   // when they were last looked up
	pause    time.Duration               // before a retry
	synced   bool
	unproven []report.Unproven // reasons that concern no single set, from the last look
	trouble  string
	hint     string    // what to do about it
	unfound  time.Time // when the first of the failed looks ended; zero: the last one succeeded
	misses   int       // failed looks since then
	unread   bool      // the last look found sets that could not be read
	kept     bool      // resources of sets that are no longer followed could not be given up
	failing  time.Time // since when the mirror cannot be written
	fails    int       // failed attempts to write since then
}

// The caller of the methods below holds mu, unless their comments say otherwise.

// receive queues a message that is stored in the inbox. It locks mu.
func (r *registry) receive(uri string, m *inbox.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.find(uri); s != nil {
		r.enqueue(s, m)
		return
	}
	r.early[uri] = append(r.early[uri], m)
}

// find returns the followed set, or nil.
func (r *registry) find(uri string) *set {
	for _, s := range r.sets {
		if s.uri == uri {
			return s
		}
	}
	return nil
}

func (r *registry) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default: // a token is there already
	}
}

// A job is the next piece of work for the worker.
type job struct {
	set  *set // nil: look up the Source's sets
	push bool // process messages; otherwise pull the set
}

// next returns the next job, or nil and the time until there may be one. It locks
// mu.
func (r *registry) next(now time.Time) (*job, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	wait := 24 * time.Hour
	at := func(t time.Time) bool {
		if t.After(now) {
			wait = min(wait, t.Sub(now))
			return false
		}
		return true
	}
	if at(r.lookAt) {
		return &job{}, 0
	}
	for i := range r.sets {
		k := (r.turn + i) % len(r.sets)
		s := r.sets[k]
		if s.uri == "" {
			continue
		}
		if late := s.changed.Due(r.opts.Pause); !late.IsZero() && !s.asked && at(late) {
			r.ask(s, now)
		}
		pull := !s.due.IsZero() && at(s.due)
		push := s.hasMessages(now) && at(s.again)
		switch {
		case pull && r.pause == 0 && r.mustLook(s, now):
			r.turn = k
			return &job{}, 0
		case pull && (!push || now.Sub(s.due) > overdue || !s.asked || s.isOverloaded()):
			r.turn = k + 1
			return &job{set: s}, 0
		case push:
			r.turn = k + 1
			return &job{set: s, push: true}, 0
		}
	}
	return nil, max(wait, time.Millisecond)
}

// mustLook reports whether the Source's sets have to be looked up before a pull of the
// set that is due: before a routine pull unless that was done recently, and before one that
// repeats a pull that could not read documents.
func (r *registry) mustLook(s *set, now time.Time) bool {
	return !s.asked && now.Sub(r.looked) > r.interval(s)/2 || s.unread && r.looked.Before(s.last)
}

// othersWait reports whether there is work for another set. It locks mu.
func (r *registry) othersWait(but *set) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for _, s := range r.sets {
		if s != but && (!s.due.IsZero() && s.due.Before(now) || s.hasMessages(now) && s.again.Before(now)) {
			return true
		}
	}
	return false
}

// interval returns the time between routine pulls of a set.
func (r *registry) interval(s *set) time.Duration {
	if s.isLive() {
		return r.opts.Check
	}
	return max(s.spacing, r.opts.Poll)
}

// adapt changes the time between routine pulls of a set by the result of one: it is
// halved when something changed, and grows by half when nothing did.
func (r *registry) adapt(s *set, p *Pass, routine bool) {
	switch most := max(r.opts.PollMost, r.opts.Poll); {
	case p.Err != nil:
	case p.applied() > 0:
		s.spacing = max(s.spacing/2, r.opts.Poll)
	case routine:
		s.spacing = min(r.interval(s)*3/2, most)
	}
}

// replan reschedules the next pull of a set according to the state of its channel,
// unless an early pull was requested.
func (r *registry) replan(s *set) {
	if !s.asked && s.pulled && !s.last.IsZero() {
		s.due = s.last.Add(r.interval(s))
	}
	r.wakeUp()
}

// ask schedules an early pull of the set because of an event. Requested pulls keep
// a minimum distance, so that the peers that cause them do not determine the load.
func (r *registry) ask(s *set, now time.Time) {
	at := now
	if !s.last.IsZero() {
		at = saved.Latest(now, s.last.Add(r.distance(s)))
	}
	if s.due.IsZero() || at.Before(s.due) {
		s.due = at
	}
	s.asked, s.waiting = true, false
	r.wakeUp()
}

// distance returns the minimum time between a pull and the next one that is
// requested: it grows with the number of pulls in a row that found nothing, so that
// forged messages cannot cause requests to the Source without limit.
func (r *registry) distance(s *set) time.Duration {
	d := r.opts.Pause << min(s.idlePulls, maxIdlePulls)
	return max(min(d, max(r.opts.Poll, r.opts.Pause)), 10*s.took)
}

// enqueue puts a message into the queue of its set.
func (r *registry) enqueue(s *set, m *inbox.Message) {
	if !s.usesPush(m.At) {
		r.discard(s, map[string][]byte{}, m)
		return
	}
	s.queued += m.Weight()
	if s.queue = append(s.queue, m); !m.Hello {
		s.status.Notifications++
		s.status.Notified = m.At
	}
	r.limitBacklog(s, time.Now())
	r.wakeUp()
}

// discard removes messages of a set, which is going to be pulled in their place,
// and saves docs in the same transaction.
func (r *registry) discard(s *set, docs map[string][]byte, ms ...*inbox.Message) {
	r.inbox.Remove(ms, docs)
	if len(docs) > 0 {
		r.journal.Later(docs)
	}
	for _, m := range ms {
		if m.Hello {
			continue
		}
		s.status.Discarded++
		s.status.Notified = m.At
	}
}

// pausePush copies from p whether notifications of the set are used.
func (r *registry) pausePush(s *set, p *push.State, now time.Time) {
	if p != nil {
		s.status.Contradicted = p.Contradicted
		s.pausedUntil, s.pausedBecause = p.Paused, p.Reason
	}
	if s.usesPush(now) {
		return
	}
	r.discard(s, map[string][]byte{}, s.queue...)
	s.queue, s.queued = nil, 0
}
