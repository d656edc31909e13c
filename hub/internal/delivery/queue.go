package delivery

import (
	"time"

	"lockstep/internal/fetch"
)

// MostPerHost is how many quick deliveries to a host may be under way at a time.
const MostPerHost = 64

// Limits of concurrent deliveries. Quick endpoints have a lane of their own, so
// that slow endpoints delay only slow ones (WS-C-13). Each host has a share of
// both lanes.
const (
	fastLimit   = 256
	fastPerHost = MostPerHost
	slowLimit   = 1024
	slowPerHost = 32
	slowAfter   = 500 * time.Millisecond // a delivery that takes longer changes lanes
	slowFor     = 8                      // quick deliveries on the slow lane before the endpoint returns to the fast one
	slowMore    = 2                      // factor: at most slowLimit, and slowPerHost, times this many are on the slow lane, including those that moved there while under way
)

// breakerAfter is how many consecutive connections to a host must fail before
// deliveries to it pause. One attempt is made when the pause ends.
const breakerAfter = 3

const (
	fast = iota
	slow
	lanes
)

// A lane bounds the number of concurrent deliveries.
type lane struct {
	limit, perHost int
	running        int
	turns          fifo[*queue] // of hosts with pending deliveries
}

// A queue holds the pending deliveries to a host in a lane.
type queue struct {
	host    *host
	lane    *lane
	ready   fifo[*subscription]
	running int
	listed  bool // in turns of the lane
}

// A host groups the callbacks that share connections and fail together.
type host struct {
	name   string // with port
	bare   string // without port
	subs   int    // subscriptions with callbacks there
	queues [lanes]queue
	alarm  alarm // when it is tried again

	down  int       // consecutive connections that failed
	since time.Time // when the first of them failed
	shut  bool      // until the alarm rings
}

// A scheduler decides which delivery is made next. The lock of the registry
// guards it.
type scheduler struct {
	alarms   *alarmClock
	now      func() time.Time
	lanes    [lanes]lane
	draining bool // no new deliveries start
}

func newScheduler(alarms *alarmClock, now func() time.Time) *scheduler {
	s := &scheduler{alarms: alarms, now: now}
	// Each lane uses at most a quarter of the files that may be open, so that clients can connect.
	few := max((fetch.OpenFiles()-fetch.OwnFiles)/4, 2)
	s.lanes[fast] = lane{limit: min(fastLimit, few), perHost: min(fastPerHost, few)}
	s.lanes[slow] = lane{limit: min(slowLimit, max(few/slowMore, 1)), perHost: min(slowPerHost, max(few/slowMore, 1))}
	return s
}

// offer puts q in line for its turn, if it has pending deliveries and room for
// one more.
func (q *queue) offer() {
	if !q.listed && q.ready.len() > 0 && q.room() {
		q.listed = true
		q.lane.turns.push(q)
	}
}

// room reports whether the host may have one more delivery under way.
func (q *queue) room() bool {
	x := q.host
	switch {
	case x.shut:
		return false
	case x.down >= breakerAfter:
		return x.queues[fast].running+x.queues[slow].running == 0
	}
	return q.running < q.lane.perHost
}

// offer does so for both lanes.
func (x *host) offer() {
	for i := range x.queues {
		x.queues[i].offer()
	}
}

// resume moves s to its next stage. No delivery to s is under way, and s is in no
// queue.
func (d *scheduler) resume(s *subscription) {
	switch {
	case s.stage == gone:
	case d.now().Before(s.Progress.Next):
		d.rest(s, s.Progress.Next)
	case s.Progress.Cursor < s.log.last:
		d.enqueue(s)
	default:
		s.log.list(s)
	}
}

// rest makes s wait until a time.
func (d *scheduler) rest(s *subscription, until time.Time) {
	if s.stage == gone {
		return
	}
	s.stage = waiting
	if s.Expires.Before(until) {
		until = s.Expires
	}
	d.alarms.ring(&s.alarm, until)
}

// enqueue makes s wait for its turn.
func (d *scheduler) enqueue(s *subscription) {
	s.stage = queued
	q := &s.host.queues[fast]
	if s.slow > 0 {
		q = &s.host.queues[slow]
	}
	q.ready.push(s)
	q.offer()
}

// take returns the subscription whose turn it is and the queue that counts its
// delivery, or nil.
func (d *scheduler) take() (*subscription, *queue) {
	if d.draining {
		return nil, nil
	}
	for i := range d.lanes {
		l := &d.lanes[i]
		for l.running < l.limit && l.turns.len() > 0 {
			q := l.turns.pop()
			q.listed = false
			if sub := q.take(); sub != nil {
				return sub, q
			}
		}
	}
	return nil, nil
}

func (q *queue) take() *subscription {
	for q.ready.len() > 0 && q.room() {
		sub := q.ready.pop()
		if sub.stage != queued {
			continue // ended meanwhile
		}
		q.enter()
		q.offer()
		return sub
	}
	return nil
}

func (q *queue) enter() { q.running++; q.lane.running++ }

func (q *queue) leave() {
	q.running--
	q.lane.running--
	q.host.offer()
}
