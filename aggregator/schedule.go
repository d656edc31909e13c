package aggregator

import (
	"context"
	"slices"
	"sync"
	"time"

	"lockstep/destination"
)

const (
	jobsPerProcessor = 4
	jobsLeast        = 8

	// maxSilent is how many upstreams may be waited for that have not answered for
	// silentAfter: each has a connection, and little else.
	maxSilent   = 256
	silentAfter = 2 * time.Second

	// quickFor is how long an upstream may take to count as quick.
	quickFor = 2 * time.Second

	// sliceFirst is how long a slow upstream is worked on while others that are slow,
	// too, wait. The time doubles with each interruption.
	sliceFirst = 10 * time.Second
	sliceMost  = 10 * time.Minute

	// lookEvery is how often the work under way is looked at.
	lookEvery = 250 * time.Millisecond
)

// A lane is where an upstream gets its turn. The quick ones, which are most, have one of
// their own.
type lane int

const (
	quick  lane = iota // it takes up to quickFor
	slow               // it takes longer, and makes progress
	silent             // it is waited for
	lanes
)

// A pace is what a schedule remembers of an upstream. The lock of the schedule guards it.
type pace struct {
	whole  bool          // its turns are not interrupted
	isSlow bool          // the last turn took longer than quickFor
	slice  time.Duration // of the next turn while others wait
}

// A turn is that of an upstream: waiting, or under way.
type turn struct {
	pace     *pace
	work     destination.Work
	began    chan struct{} // closed when it begins
	cancel   context.CancelCauseFunc
	lane     lane
	start    time.Time
	received int64     // bytes, when last looked at
	heard    time.Time // when that changed
	moved    time.Time // to its lane

	interrupted bool
}

// A schedule gives turns to upstreams. The zero value has room for none.
//
// A turn begins in the lane for quick upstreams, unless the last one of the same upstream
// took long. One that takes long moves to the lane for slow ones, and one that has not
// received anything for some time to that for silent ones; if there is no room it is
// interrupted while others wait, and waits itself. So no kind of upstream can occupy the
// places of another, and in each lane all get their turn.
type schedule struct {
	mu       sync.Mutex // guards the rest
	room     [lanes]int
	under    []*turn        // under way
	waiting  [lanes][]*turn // for quick and slow; urgent ones first
	watching bool           // a goroutine looks at the turns under way
}

// begin waits for a turn. It returns the context of the work and a function that ends the
// turn. If ctx ends first, that is its context.
func (s *schedule) begin(ctx context.Context, p *pace, w destination.Work) (context.Context, func()) {
	own, cancel := context.WithCancelCause(ctx)
	t := &turn{pace: p, work: w, began: make(chan struct{}), cancel: cancel}
	s.mu.Lock()
	if p.isSlow {
		t.lane = slow
	}
	queue := &s.waiting[t.lane]
	at := len(*queue)
	if w.Urgent {
		at = 0
		for at < len(*queue) && (*queue)[at].work.Urgent {
			at++
		}
	}
	*queue = slices.Insert(*queue, at, t)
	s.admit()
	s.mu.Unlock()
	select {
	case <-t.began:
	case <-ctx.Done():
	}
	return own, func() { s.end(t) }
}

// admit begins turns for which there is room. The caller holds mu.
func (s *schedule) admit() {
	for l := range s.waiting {
		for len(s.waiting[l]) > 0 && s.room[l] > 0 {
			t := s.waiting[l][0]
			s.waiting[l] = s.waiting[l][1:]
			s.room[l]--
			t.start = time.Now()
			t.heard, t.moved, t.received = t.start, t.start, t.work.Received()
			s.under = append(s.under, t)
			close(t.began)
		}
	}
	if !s.watching && len(s.under) > 0 {
		s.watching = true
		time.AfterFunc(lookEvery, s.look)
	}
}

// end ends a turn, or the wait for it.
func (s *schedule) end(t *turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer t.cancel(nil)
	i := slices.Index(s.under, t)
	if i < 0 {
		s.waiting[t.lane] = slices.DeleteFunc(s.waiting[t.lane], func(o *turn) bool { return o == t })
		return
	}
	s.under = slices.Delete(s.under, i, i+1)
	s.room[t.lane]++
	if !t.interrupted {
		*t.pace = pace{whole: t.pace.whole, isSlow: time.Since(t.start) > quickFor}
	}
	s.admit()
}

// look looks at the turns under way, as long as there are any.
func (s *schedule) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, t := range s.under {
		s.judge(t, now)
	}
	s.admit()
	if s.watching = len(s.under) > 0; s.watching {
		time.AfterFunc(lookEvery, s.look)
	}
}

// judge moves or interrupts a turn that takes long. The caller holds mu.
func (s *schedule) judge(t *turn, now time.Time) {
	n := t.work.Received()
	isSilent := n == t.received && now.Sub(t.heard) > silentAfter
	if n != t.received {
		t.received, t.heard = n, now
	}
	switch {
	case t.interrupted || now.Sub(t.start) <= quickFor:
	case t.lane == silent && !isSilent:
		s.move(t, slow, now) // even if there is no room: what was waited for is not given up now that it comes
	case t.lane != silent && isSilent && s.room[silent] > 0:
		s.move(t, silent, now)
	case t.lane == quick && s.room[slow] > 0:
		s.move(t, slow, now)
	case t.pace.whole:
	case t.lane == quick && len(s.waiting[quick]) > 0,
		t.lane == slow && len(s.waiting[slow]) > 0 && now.Sub(t.moved) > max(t.pace.slice, sliceFirst):
		t.interrupted = true
		t.pace.isSlow, t.pace.slice = true, min(max(2*t.pace.slice, sliceFirst), sliceMost)
		t.cancel(destination.ErrTurn)
	}
}

// move moves a turn to another lane. The caller holds mu.
func (s *schedule) move(t *turn, to lane, now time.Time) {
	s.room[t.lane]++
	s.room[to]--
	t.lane, t.moved = to, now
}
