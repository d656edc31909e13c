// Package group writes items together that arrive at the same time.
package group

import (
	"sync"
	"time"
)

const (
	commitPace  = 5 * time.Millisecond // maximum time from the start of a commit to the next, while more items are expected
	commitCount = 1000                 // items of one commit
	commitBytes = 16 << 20             // bytes of messages in one commit, unless a single message has more
)

// A Group commits items together: items that arrive while a commit is under way
// share the next one. It begins as soon as there are as many items as in the
// previous commit, but waits for them no longer than commitPace. A caller that
// adds one item after the other therefore never waits for others.
type Group[T Sized] struct {
	commit func([]T)

	mu      sync.Mutex // guards what follows
	items   []T
	want    int           // number of items that run waits for; 0: it does not wait
	came    chan struct{} // they have arrived
	busy    bool          // run is running
	closed  bool
	workers sync.WaitGroup
}

// Sized is an item of a given size.
type Sized interface {
	Size() int // bytes, besides a fixed cost
}

// New returns a Group that writes items by commit.
func New[T Sized](commit func([]T)) *Group[T] {
	return &Group[T]{commit: commit, came: make(chan struct{}, 1)}
}

// Add adds an item. It returns false if the group is closed.
func (g *Group[T]) Add(item T) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.items = append(g.items, item)
	if g.want > 0 && len(g.items) >= g.want {
		select {
		case g.came <- struct{}{}:
		default: // run has been woken
		}
	}
	if !g.busy {
		g.busy = true
		g.workers.Go(g.run)
	}
	return true
}

// run commits until the group is empty.
func (g *Group[T]) run() {
	for {
		start := time.Now()
		batch := g.take()
		if batch == nil {
			return
		}
		g.commit(batch)
		g.gather(len(batch), commitPace-time.Since(start))
	}
}

// gather waits until there are n items, but at most for longest.
func (g *Group[T]) gather(n int, longest time.Duration) {
	g.mu.Lock()
	enough := len(g.items) >= n
	g.want = n
	g.mu.Unlock()
	if enough || longest <= 0 {
		return
	}
	timer := time.NewTimer(longest)
	defer timer.Stop()
	select {
	case <-g.came: // now, or left over from an earlier wait
	case <-timer.C:
	}
}

// take returns the items of the next commit.
func (g *Group[T]) take() []T {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.want = 0
	n, bytes := 0, 0
	for n < len(g.items) && n < commitCount {
		if bytes += g.items[n].Size(); n > 0 && bytes > commitBytes {
			break
		}
		n++
	}
	if n == 0 {
		g.busy, g.items = false, nil
		return nil
	}
	batch := g.items[:n:n]
	g.items = g.items[n:]
	return batch
}

// Close refuses further items and waits until those already added are
// committed.
func (g *Group[T]) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.workers.Wait()
}
