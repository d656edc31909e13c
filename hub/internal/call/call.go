// Package call schedules HTTP calls to hosts that strangers have named, so that
// no host is called too often and a slow one delays only itself.
package call

import (
	"container/heap"
	"context"
	"net/url"
	"sync"
	"time"

	"lockstep/hub/internal/address"
	"lockstep/hub/internal/timing"
	"lockstep/internal/ratelimit"
)

// A Scheduler makes HTTP calls to hosts that strangers have named. Each host and port
// has a lane of its own, in which few calls are under way at a time, so that a
// slow host delays only itself. Each host is rate-limited, so that the hub cannot
// amplify an attack (WS-SEC-03).
type Scheduler struct {
	inAll   int // calls under way at a time
	perHost int
	starts  *ratelimit.Buckets[string] // how often a host is called
	clock   func() time.Time

	mu      sync.Mutex // guards the rest
	hosts   map[string]*callLane
	ready   [ranks][]*callLane // lanes with a call to start, in turn
	delayed callHeap
	active  int
	wake    chan struct{}
}

// A call is one call to a host. Without do, it only makes the scheduler check
// the lane again.
type call struct {
	lane string
	host string
	at   time.Time // earliest start
	rank Rank
	do   func(ctx context.Context)
}

// A Rank orders the calls of a lane.
type Rank uint8

// The ranks, the first to be called first.
const (
	Known   Rank = iota // the host has confirmed a request before
	Unknown             // a stranger may have invented it: there may be very many of these
	ranks
)

// reserved is the share of all concurrent calls that unknown hosts cannot use:
// strangers may name very many hosts that never answer.
const reserved = 8

type callLane struct {
	name   string // host and port
	host   string
	queues [ranks][]*call
	active int
	listed [ranks]bool // in ready
	held   bool        // in delayed: its rate is used up
	paid   bool        // the rate limit already allows the next call to start
}

// New returns a Scheduler that has at most inAll calls under way at a time, at
// most perHost of them at one host and port, and starts as many calls to a host
// as r allows.
func New(inAll, perHost int, r ratelimit.Rate, clock func() time.Time) *Scheduler {
	return &Scheduler{
		inAll: inAll, perHost: perHost, starts: ratelimit.NewBuckets[string](r, clock), clock: clock,
		hosts: make(map[string]*callLane), wake: make(chan struct{}, 1),
	}
}

// Add schedules do to be called by run, not before at. It does not wait.
func (l *Scheduler) Add(target *url.URL, r Rank, at time.Time, do func(ctx context.Context)) {
	now := l.clock()
	c := &call{lane: address.HostPort(target), host: address.Host(target), rank: r, at: timing.Anchored(at, now), do: do}
	l.mu.Lock()
	if c.at.After(now) {
		heap.Push(&l.delayed, c)
	} else {
		l.enqueue(c)
	}
	l.mu.Unlock()
	l.stir()
}

// Forgive returns the token that a call to the host took: the host confirmed
// the request.
func (l *Scheduler) Forgive(target *url.URL) { l.starts.Give(address.Host(target), 1) }

func (l *Scheduler) stir() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Run starts calls when they are due, until ctx ends and all have returned. It
// discards calls that have not started by then.
func (l *Scheduler) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		calls, wait := l.due()
		for _, c := range calls {
			wg.Go(func() {
				defer l.ended(c)
				c.do(ctx)
			})
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		case <-timer.C:
		}
	}
}

func (l *Scheduler) ended(c *call) {
	l.mu.Lock()
	l.active--
	h := l.hosts[c.lane]
	h.active--
	l.list(h)
	l.mu.Unlock()
	l.stir()
}

// list puts h where due finds it if it has a call to start, and removes it if
// it is empty.
func (l *Scheduler) list(h *callLane) {
	idle := h.active == 0 && !h.held
	for r := range h.queues {
		if len(h.queues[r]) > 0 {
			idle = false
			if h.active < l.perHost && !h.held && !h.listed[r] {
				h.listed[r] = true
				l.ready[r] = append(l.ready[r], h)
			}
		}
		idle = idle && !h.listed[r]
	}
	if idle {
		delete(l.hosts, h.name)
	}
}

// due returns the calls to start now, one host after the other, and when to ask
// again.
func (l *Scheduler) due() (calls []*call, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock()
	wait = time.Hour
	for len(l.delayed) > 0 {
		if d := l.delayed[0].at.Sub(now); d > 0 {
			wait = d
			break
		}
		if c := heap.Pop(&l.delayed).(*call); c.do != nil {
			l.enqueue(c)
		} else if h := l.hosts[c.lane]; h != nil {
			h.held = false
			l.list(h)
		}
	}
	for r, most := range [ranks]int{Known: l.inAll, Unknown: l.inAll - l.inAll/reserved} {
		for len(l.ready[r]) > 0 && l.active < most {
			c, d := l.start(Rank(r), now)
			if c != nil {
				calls = append(calls, c)
			} else if d > 0 {
				wait = min(wait, d)
			}
		}
	}
	return calls, wait
}

// start returns the call to start in the first lane that is ready; or nil, and
// when one may start.
func (l *Scheduler) start(r Rank, now time.Time) (c *call, wait time.Duration) {
	h := l.ready[r][0]
	l.ready[r] = l.ready[r][1:]
	h.listed[r] = false
	defer l.list(h)
	if len(h.queues[r]) == 0 || h.active >= l.perHost || h.held {
		return nil, 0 // it was listed in the other rank as well
	}
	// Paid in advance, so that no other lane of the same host takes the token.
	if d := l.pay(h); d > 0 {
		h.held = true
		heap.Push(&l.delayed, &call{lane: h.name, at: now.Add(d)})
		return nil, d
	}
	h.paid = false
	c = h.queues[r][0]
	h.queues[r][0] = nil
	h.queues[r] = h.queues[r][1:]
	h.active++
	l.active++
	return c, 0
}

// pay takes the token for one call to h, and returns how long to wait for it.
func (l *Scheduler) pay(h *callLane) time.Duration {
	if h.paid {
		return 0
	}
	h.paid = true
	return l.starts.Reserve(h.host)
}

func (l *Scheduler) enqueue(c *call) {
	h := l.hosts[c.lane]
	if h == nil {
		h = &callLane{name: c.lane, host: c.host}
		l.hosts[c.lane] = h
	}
	h.queues[c.rank] = append(h.queues[c.rank], c)
	l.list(h)
}

type callHeap []*call

func (h callHeap) Len() int           { return len(h) }
func (h callHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h callHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *callHeap) Push(x any)        { *h = append(*h, x.(*call)) }
func (h *callHeap) Pop() any {
	old := *h
	c := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return c
}
