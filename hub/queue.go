package hub

import (
	"time"

	"lockstep/internal/fetch"
)

// Deliveries under way at a time. What is quick has a lane of its own, so that
// who is slow delays only who is slow as well (WS-C-13). A host has a share of
// each.
const (
	fastLimit   = 256
	fastPerHost = 64
	slowLimit   = 1024
	slowPerHost = 32
	slowAfter   = 500 * time.Millisecond // a delivery that takes longer changes lanes
	slowFor     = 8                      // quick ones on the slow lane, before the fast one is taken again
	slowMore    = 2                      // times slowLimit are on the slow lane at most, with those that changed to it
)

// breakerAfter is how many connections to a host must fail, one after the other,
// for it to be left in peace for a while; one attempt is made then.
const breakerAfter = 3

const (
	fast = iota
	slow
	lanes
)

// A lane bounds how many deliveries are under way at a time.
type lane struct {
	limit, perHost int
	running        int
	turns          fifo[*queue] // of hosts with something to do
}

// A queue is what is to be done at a host in a lane.
type queue struct {
	host    *host
	lane    *lane
	ready   fifo[*subscription]
	running int
	listed  bool // in turns of the lane
}

// A host is where callbacks are: what shares connections, and fails together.
type host struct {
	name   string // with port
	bare   string // without
	subs   int    // subscriptions with callbacks there
	queues [lanes]queue
	alarm  alarm // when it is tried again

	down  int       // connections that failed, one after the other
	since time.Time // when the first of them did
	shut  bool      // until the alarm rings
}

// A scheduler says which delivery is made next. It is guarded by Hub.mu.
type scheduler struct {
	lanes    [lanes]lane
	draining bool // no more
}

func newScheduler() scheduler {
	var s scheduler
	// Of the files that may be open each lane takes a quarter at most, so that clients can connect.
	few := max((fetch.OpenFiles()-fetch.OwnFiles)/4, 2)
	s.lanes[fast] = lane{limit: min(fastLimit, few), perHost: min(fastPerHost, few)}
	s.lanes[slow] = lane{limit: min(slowLimit, max(few/slowMore, 1)), perHost: min(slowPerHost, max(few/slowMore, 1))}
	return s
}

// offer lets q take its turns, if there is something to do and room to do it.
func (q *queue) offer() {
	if !q.listed && q.ready.len() > 0 && q.room() {
		q.listed = true
		q.lane.turns.push(q)
	}
}

// room reports whether the host bears one more.
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

// offer does it for both lanes.
func (x *host) offer() {
	for i := range x.queues {
		x.queues[i].offer()
	}
}

// take returns the subscription whose turn it is, and the queue it counts in,
// or nil.
func (s *scheduler) take() (*subscription, *queue) {
	if s.draining {
		return nil, nil
	}
	for i := range s.lanes {
		l := &s.lanes[i]
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

// A fifo is a queue. The zero value is empty.
type fifo[T any] struct {
	items []T
	head  int
}

func (f *fifo[T]) len() int { return len(f.items) - f.head }

func (f *fifo[T]) push(v T) {
	if f.head > 32 && f.head > len(f.items)/2 {
		n := copy(f.items, f.items[f.head:])
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
	f.items = append(f.items, v)
}

func (f *fifo[T]) at(i int) T { return f.items[f.head+i] }

func (f *fifo[T]) pop() T {
	var zero T
	v := f.items[f.head]
	f.items[f.head] = zero
	if f.head++; f.head == len(f.items) {
		if cap(f.items) > 1024 {
			f.items = nil
		}
		f.items, f.head = f.items[:0], 0
	}
	return v
}
