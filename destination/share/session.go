package share

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/transfer"
	"lockstep/internal/fetch"
)

const (
	queueMost = 4096                  // actions that wait for a process
	slowAfter = time.Second           // how long these may delay the actions of other hosts
	handEvery = 10 * time.Millisecond // messages with requests
	lookAhead = 256                   // actions among which one is looked for whose host has room
	leastOwn  = 4                     // actions of a host that this process has at a time
	reserveBy = 16                    // names reserved at a time
)

// A Session divides the actions of a plan among the processes. The caller passes actions that
// fetch content to Take, says of each that was handed back when it is done, and calls
// Finish in any case. The nil Session has no other processes.
type Session struct {
	p      *Pool
	fetch  *transfer.Fetcher
	done   func(transfer.Outcome)
	single func(*plan.Action)
	signal chan struct{} // something has changed
	stop   chan struct{} // closed by Finish: the goroutines end
	g      sync.WaitGroup

	// Guarded by p.mu:
	queue   []queued
	own     map[*plan.Action]string // actions that were handed back, with their hosts
	ownOf   map[string]int          // their number by host
	asked   map[string]int          // by process
	replies []reply                 // to be passed on
	pending int                     // asked, and not passed on
	ended   bool
}

// A queued action waits for a process.
type queued struct {
	action *plan.Action
	host   string // of its resource
}

// A reply is an item with the answer of its process; nil: there will be none.
type reply struct {
	it     *item
	answer *answer
}

// Start starts a Session. done receives outcomes, single receives actions that this process
// is to carry out; both may be called concurrently until Finish returns, and may block.
func (p *Pool) Start(ctx context.Context, f *transfer.Fetcher, done func(transfer.Outcome), single func(*plan.Action)) *Session {
	if p == nil {
		return nil
	}
	s := &Session{p: p, fetch: f, done: done, single: single, signal: make(chan struct{}, 1), stop: make(chan struct{}),
		own: map[*plan.Action]string{}, ownOf: map[string]int{}, asked: map[string]int{}}
	s.g.Go(func() { s.hand(ctx) })
	s.g.Go(func() { s.pass(ctx) })
	return s
}

// Take reports whether a is accepted, to be carried out by any of the processes.
func (s *Session) Take(ctx context.Context, a *plan.Action) bool {
	if s == nil || !isShared(s.fetch, a) {
		return false
	}
	q := queued{a, fetch.HostOf(a.URI)}
	var slow *time.Timer
	for {
		s.p.mu.Lock()
		room := len(s.queue) < queueMost
		if room {
			s.queue = append(s.queue, q)
		}
		s.p.mu.Unlock()
		switch {
		case ctx.Err() != nil:
			return false
		case room:
			s.poke()
			return true
		case slow == nil:
			slow = time.NewTimer(slowAfter)
			defer slow.Stop()
		}
		select {
		case <-slow.C:
			return false
		case <-time.After(handEvery):
		case <-ctx.Done():
			return false
		}
	}
}

// Ended notes that this process has carried out an action that was handed back.
func (s *Session) Ended(a *plan.Action) {
	if s == nil {
		return
	}
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if host, ok := s.own[a]; ok {
		delete(s.own, a)
		if s.ownOf[host]--; s.ownOf[host] == 0 {
			delete(s.ownOf, host)
		}
		s.poke()
	}
}

// Finish waits until all accepted actions were carried out or handed back; or, if goOn is
// false, or ctx has ended, gives them up. Afterwards neither done nor single is called.
func (s *Session) Finish(ctx context.Context, goOn bool) {
	if s == nil {
		return
	}
	for goOn && ctx.Err() == nil {
		s.p.mu.Lock()
		left := len(s.queue) + s.pending
		s.p.mu.Unlock()
		if left == 0 {
			break
		}
		s.poke()
		select {
		case <-ctx.Done():
		case <-time.After(handEvery / 2):
		}
	}
	s.p.mu.Lock()
	s.ended, s.queue = true, nil
	for _, it := range s.p.items {
		if it.session == s && it.asked {
			s.p.say(it.worker, ToDrop, []int64{it.n})
			s.p.forget(it)
			s.fetch.Names.Release(it.path)
		}
	}
	s.p.mu.Unlock()
	close(s.stop)
	s.g.Wait()
}

func (s *Session) poke() {
	select {
	case s.signal <- struct{}{}:
	default: // it is set
	}
}

// answered notes the answer to a request. The caller holds p.mu.
func (s *Session) answered(it *item, a *answer) {
	if s.asked[it.worker]--; s.asked[it.worker] == 0 {
		delete(s.asked, it.worker)
	}
	if s.ended {
		s.fetch.Names.Release(it.path)
		return
	}
	s.replies = append(s.replies, reply{it, a})
	s.poke()
}

// hand hands out actions.
func (s *Session) hand(ctx context.Context) {
	tick := time.NewTicker(handEvery)
	defer tick.Stop()
	for {
		ticked := false
		select {
		case <-s.stop:
			return
		case <-ctx.Done():
			return
		case <-tick.C:
			ticked = true
		case <-s.signal:
		}
		if still := s.fetch.Still; still != nil && !still() {
			s.p.mu.Lock()
			s.queue = nil // as far as they are needed they come again
			s.p.mu.Unlock()
		}
		for ctx.Err() == nil {
			a := s.nextOwn()
			if a == nil {
				break
			}
			s.single(a)
		}
		if ticked {
			s.ask(ctx)
		}
	}
}

// nextOwn returns an action for this process; nil: it has enough.
func (s *Session) nextOwn() *plan.Action {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	full := "" // the last host that has no room, from the second action on
	for i, q := range s.queue[:min(len(s.queue), lookAhead)] {
		if q.host == full && i > 0 {
			continue
		}
		if s.ownOf[q.host] >= max(2*s.fetch.Client.Limit(q.host), leastOwn) {
			full = q.host
			continue
		}
		copy(s.queue[1:], s.queue[:i])
		s.queue = s.queue[1:]
		s.own[q.action] = q.host
		s.ownOf[q.host]++
		return q.action
	}
	return nil
}

// ask asks other processes for contents.
func (s *Session) ask(ctx context.Context) {
	for id, batch := range s.divide() {
		paths := s.reserve(ctx, batch)
		var rs []request
		s.p.mu.Lock()
		w := s.p.workers[id]
		for i, a := range batch {
			if paths[i] == "" || w == nil || s.ended {
				continue
			}
			s.p.next++
			it := &item{n: s.p.next, worker: id, session: s, action: a, path: paths[i], said: time.Now(), asked: true}
			s.p.items[it.n] = it
			w.open++
			w.bytes += max(a.Length, 0)
			s.asked[id]++
			rs = append(rs, requestOf(it.n, a, it.path))
			batch[i] = nil
		}
		if len(rs) > 0 {
			s.p.say(id, ToFetch, rs)
		}
		s.p.mu.Unlock()
		for i, a := range batch {
			if a == nil {
				continue
			}
			if paths[i] != "" {
				s.fetch.Names.Release(paths[i])
			}
			s.single(a) // something is in its way
		}
		s.p.mu.Lock()
		s.pending -= len(batch) - len(rs) // the others are when they are passed on
		s.p.mu.Unlock()
	}
}

// divide takes from the queue what others are to fetch. What it returns counts as pending.
func (s *Session) divide() map[string][]*plan.Action {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	batches := map[string][]*plan.Action{}
	for id, w := range s.p.workers {
		if w.bytes >= mostBytes || len(s.queue) == 0 {
			continue
		}
		share := (len(s.queue) + 2*len(s.p.workers) + 1) / (2*len(s.p.workers) + 2)
		n := min(share, batchMost, mostAsked-s.asked[id], mostOpen-w.open)
		if n <= 0 {
			continue
		}
		batch := make([]*plan.Action, n)
		for i, q := range s.queue[:n] {
			batch[i] = q.action
		}
		batches[id] = batch
		s.queue = s.queue[n:]
		s.pending += n
	}
	return batches
}

// reserve reserves the names of the files of actions; "": something is in the way.
func (s *Session) reserve(ctx context.Context, as []*plan.Action) []string {
	paths := make([]string, len(as))
	var g errgroup.Group
	g.SetLimit(reserveBy)
	for i, a := range as {
		g.Go(func() error {
			paths[i], _ = s.fetch.Reserve(ctx, a)
			return nil
		})
	}
	_ = g.Wait() // its functions return no error
	return paths
}

// pass passes on what other processes have answered.
func (s *Session) pass(ctx context.Context) {
	tick := time.NewTicker(handEvery / 2)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			s.p.mu.Lock()
			left := s.replies
			s.replies = nil
			s.p.mu.Unlock()
			for _, r := range left { // given up
				s.fetch.Names.Release(r.it.path)
				_ = (&writer{s.p, r.it}).Close() // always nil
			}
			return
		case <-tick.C:
		}
		s.p.mu.Lock()
		replies := s.replies
		s.replies = nil
		s.p.mu.Unlock()
		for _, r := range replies {
			s.passOne(ctx, r)
		}
		s.p.mu.Lock()
		s.pending -= len(replies)
		s.p.mu.Unlock()
	}
}

func (s *Session) passOne(ctx context.Context, r reply) {
	if r.answer != nil && r.answer.OK {
		o, err := r.answer.outcome(r.it.action, s.fetch.Set, r.it.path)
		if err == nil {
			if !o.Unchanged {
				o.Writer = &writer{s.p, r.it}
			}
			s.done(o)
			return
		}
		_ = (&writer{s.p, r.it}).Close() // always nil
	}
	s.fetch.Names.Release(r.it.path)
	if ctx.Err() == nil {
		s.single(r.it.action) // which reports why, if it fails again
	}
}
