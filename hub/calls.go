package hub

import (
	"container/heap"
	"context"
	"net/url"
	"sync"
	"time"
)

// calls carries out calls to hosts of strangers. Each host and port has a lane of
// its own, in which few calls are under way at a time, so that a slow one delays
// nobody but itself. Each host is held to a rate, so that the hub is no amplifier
// (WS-SEC-03).
type calls struct {
	inAll   int // calls under way at a time
	perHost int
	starts  *buckets[string] // how often a host is called

	mu      sync.Mutex // guards the rest
	hosts   map[string]*callLane
	ready   [ranks][]*callLane // those with something to start, in turn
	delayed callHeap
	active  int
	wake    chan struct{}
}

// A call is one thing to do at a host; without do, a lane to look at again.
type call struct {
	lane string
	host string
	at   time.Time // not before
	rank rank
	do   func(ctx context.Context)
}

// A rank says which calls of a lane go first.
type rank uint8

const (
	known   rank = iota // the host has said before that it wants to be called
	unknown             // it may be a stranger's idea: of these there may be very many
	ranks
)

// reserved is the part of all calls under way that is not for unknown ones:
// strangers may name very many hosts that never answer.
const reserved = 8

type callLane struct {
	name   string // host and port
	host   string
	queues [ranks][]*call
	active int
	listed [ranks]bool // in ready
	held   bool        // in delayed, for its rate is used up
	paid   bool        // the next call may start as far as the rate is concerned
}

func newCalls(inAll, perHost int, r rate, clock func() time.Time) *calls {
	return &calls{
		inAll: inAll, perHost: perHost, starts: newBuckets[string](r, clock),
		hosts: make(map[string]*callLane), wake: make(chan struct{}, 1),
	}
}

// add has do called, not before at, by run. It does not wait.
func (l *calls) add(target *url.URL, r rank, at time.Time, do func(ctx context.Context)) {
	c := &call{lane: hostOf(target), host: bareHost(target), rank: r, at: at, do: do}
	l.mu.Lock()
	if at.After(l.starts.clock()) {
		heap.Push(&l.delayed, c)
	} else {
		l.enqueue(c)
	}
	l.mu.Unlock()
	l.stir()
}

// forgive takes back that the host was called: it wants to be.
func (l *calls) forgive(target *url.URL) { l.starts.give(bareHost(target), 1) }

func (l *calls) stir() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run starts calls as they are due, until ctx ends and all have returned. Those
// not started then are forgotten.
func (l *calls) run(ctx context.Context) {
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

func (l *calls) ended(c *call) {
	l.mu.Lock()
	l.active--
	h := l.hosts[c.lane]
	h.active--
	l.list(h)
	l.mu.Unlock()
	l.stir()
}

// list puts h where due finds it, if it has something to start, and forgets it
// if there is nothing at all.
func (l *calls) list(h *callLane) {
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
func (l *calls) due() (calls []*call, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.starts.clock()
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
	for r, most := range [ranks]int{known: l.inAll, unknown: l.inAll - l.inAll/reserved} {
		for len(l.ready[r]) > 0 && l.active < most {
			c, d := l.start(rank(r), now)
			if c != nil {
				calls = append(calls, c)
			} else if d > 0 {
				wait = min(wait, d)
			}
		}
	}
	return calls, wait
}

// start takes the first lane that is ready, and the call of it that is to start;
// or none, and when it may.
func (l *calls) start(r rank, now time.Time) (c *call, wait time.Duration) {
	h := l.ready[r][0]
	l.ready[r] = l.ready[r][1:]
	h.listed[r] = false
	defer l.list(h)
	if len(h.queues[r]) == 0 || h.active >= l.perHost || h.held {
		return nil, 0 // it was listed in the other rank as well
	}
	// Paid in advance, so that no other lane of the host snatches it away.
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

// pay takes what one call of h's costs, and returns how long to wait for it.
func (l *calls) pay(h *callLane) time.Duration {
	if h.paid {
		return 0
	}
	h.paid = true
	return l.starts.reserve(h.host)
}

func (l *calls) enqueue(c *call) {
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
