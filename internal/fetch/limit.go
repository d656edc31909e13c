package fetch

import (
	"context"
	"sync"
	"time"
)

// maxHosts caps the hosts remembered at a time: what a Source names must not
// fill memory. Beyond it those at rest are forgotten.
const maxHosts = 256

// How the number of requests under way adapts to a host, where nobody fixed it.
const (
	growAfter   = 256         // answers before it grows: a short run gains nothing by more connections
	growEvery   = 16          // answers for one request more
	strainPause = time.Second // in which failures count as one: they come in bunches
	strainLeast = 2
)

// hosts hold the limits of each host.
type hosts struct {
	jobs, most int // requests under way at first, and where they adapt at most
	rate       float64

	mu sync.RWMutex // guards m
	m  map[string]*host
}

// A host is what is known of one host and port.
type host struct {
	slots slots
	rate  pace
}

func (hs *hosts) get(name string) *host {
	hs.mu.RLock()
	h := hs.m[name]
	hs.mu.RUnlock()
	if h != nil {
		return h
	}
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if h = hs.m[name]; h != nil {
		return h
	}
	if hs.m == nil {
		hs.m = make(map[string]*host)
	}
	if len(hs.m) >= maxHosts {
		for name, h := range hs.m {
			if h.slots.idle() && h.rate.idle() {
				delete(hs.m, name)
			}
		}
	}
	h = &host{slots: slots{jobs: hs.jobs, most: hs.most}, rate: pace{rate: hs.rate}}
	hs.m[name] = h
	return h
}

// slots count the requests under way at one host. A document is read while
// what it names is fetched, so it never waits for a slot, for the holders
// could be waiting for it; but it counts, and the others leave it room. One
// request that is not for a document is always let through.
//
// Up to most their number adapts: it grows while answers come, and is halved
// when the host is strained.
type slots struct {
	most int // 0: jobs is fixed, and all take the narrow lane

	mu      sync.Mutex // guards the rest
	jobs    int
	good    int       // answers since the last strain
	strain  time.Time // the last
	held    int       // all but documents
	wide    int       // of them those in the wide lane
	docs    int
	waiting []chan lane // first come, first served
}

// A lane says whose connection a request takes.
type lane uint8

const (
	laneNarrow lane = iota
	laneWide
	laneDocument // narrow, too
)

func (s *slots) acquire(ctx context.Context, doc bool) (lane, error) {
	s.mu.Lock()
	if doc {
		s.docs++
		s.mu.Unlock()
		return laneDocument, nil
	}
	if len(s.waiting) == 0 && s.free() {
		defer s.mu.Unlock()
		return s.take(), nil
	}
	turn := make(chan lane, 1)
	s.waiting = append(s.waiting, turn)
	s.mu.Unlock()
	select {
	case l := <-turn:
		return l, nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, w := range s.waiting {
		if w == turn {
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			return 0, context.Cause(ctx)
		}
	}
	s.give(<-turn) // it was our turn after all
	s.wake()
	return 0, context.Cause(ctx)
}

// take takes a free slot.
func (s *slots) take() lane {
	s.held++
	if s.most > 0 && s.held-s.wide > max(DefaultJobs-s.docs, 1) {
		s.wide++
		return laneWide
	}
	return laneNarrow
}

func (s *slots) give(l lane) {
	switch l {
	case laneDocument:
		s.docs--
		return
	case laneWide:
		s.wide--
	}
	s.held--
}

// release gives back what acquire gave; good says that a usable answer came.
func (s *slots) release(l lane, good bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.give(l)
	if good && s.jobs < s.most {
		if s.good++; s.good >= growAfter && s.good%growEvery == 0 {
			s.jobs++
		}
	}
	s.wake()
}

// strained notes that the host could not, or would not, answer.
func (s *slots) strained(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.most > 0 && now.Sub(s.strain) >= strainPause {
		s.strain, s.good = now, 0
		s.jobs = max(s.jobs/2, strainLeast)
	}
}

func (s *slots) free() bool { return s.held < max(s.jobs-s.docs, 1) }

func (s *slots) wake() {
	for len(s.waiting) > 0 && s.free() {
		s.waiting[0] <- s.take()
		s.waiting = s.waiting[1:]
	}
}

func (s *slots) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held == 0 && s.docs == 0 && len(s.waiting) == 0
}

// A pace spreads units evenly over time, rate per second; zero is no limit.
type pace struct {
	rate float64

	mu   sync.Mutex // guards next
	next time.Time  // when the next unit may be had
}

// wait takes n units: it returns when those taken before have had their time.
func (p *pace) wait(ctx context.Context, n int) error {
	p.mu.Lock()
	if p.rate == 0 && p.next.IsZero() {
		p.mu.Unlock()
		return nil
	}
	now := time.Now()
	at := p.next
	if at.Before(now) {
		at = now
	}
	if p.rate > 0 {
		p.next = at.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
	}
	p.mu.Unlock()
	return sleep(ctx, at.Sub(now))
}

// pause lets nobody have a unit before t.
func (p *pace) pause(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.After(p.next) {
		p.next = t
	}
}

func (p *pace) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next.Before(time.Now())
}

// sleep waits for d, or less if ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
