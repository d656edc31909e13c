// Package dispatch hands work to workers, for each host its own, so that a host
// that is slow or does not answer delays no other.
package dispatch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"lockstep/destination/filename"
	"lockstep/internal/fetch"
)

// Bounds of what is queued ahead of its turn.
const (
	maxWorkers = 1536   // of all hosts together
	hostQueue  = 2048   // actions that wait for one host
	allQueues  = 16_384 // and for all of them, beyond which each has room for crowdQueue
	crowdQueue = 64

	// slowAfter is how long a full queue may keep actions of other hosts
	// waiting, which may come next.
	slowAfter = time.Second

	// A host is given up when no server answered so many actions in a row, for so
	// long: the rest of its resources fail at once.
	deadCount = 32
	deadAfter = 30 * time.Second
)

// A Dispatcher hands actions to workers, for each host its own: one that is
// slow, or does not answer, holds up none of the others. Actions of one host
// begin in the order in which they were put. No host has more than half of the
// workers that the others leave. A worker is a goroutine that ends when it has
// nothing to do.
type Dispatcher[T any] struct {
	most int                   // workers of one host
	do   func(a *T) error      // carries a out, and returns why it could not
	fail func(a *T, err error) // says that a was not tried
	wg   sync.WaitGroup        // workers

	mu      sync.Mutex // guards what follows
	lanes   map[string]*lane[T]
	ready   []*lane[T] // those with a queue that may lack workers
	workers int
	queued  int
	alone   bool // one host only is left behind
}

// A lane is the queue of one host.
type lane[T any] struct {
	host    string
	queue   []*T
	workers int
	ready   bool          // is in ready
	room    chan struct{} // holds a token when room may have come about

	left bool   // what comes after last is for another round
	last string // URI of the last action taken in; empty until something was left

	silent int       // actions in a row that found no server
	heard  time.Time // when its server last answered, or the first was sent
	dead   error
}

// New returns a dispatcher that lets at most so many workers of one host call do
// at a time, which returns why an action could not be carried out. Actions of a
// host that does not answer go to fail.
func New[T any](most int, do func(*T) error, fail func(*T, error)) *Dispatcher[T] {
	return &Dispatcher[T]{most: most, do: do, fail: fail, lanes: map[string]*lane[T]{}}
}

// Wait waits until all actions were carried out.
func (d *Dispatcher[T]) Wait() { d.wg.Wait() }

// HostOf returns the part of a URI that names the server.
func HostOf(uri string) string {
	_, rest, _ := filename.CutScheme(uri)
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	return rest
}

func (d *Dispatcher[T]) lane(uri string) *lane[T] {
	host := HostOf(uri)
	l := d.lanes[host]
	if l == nil {
		host = strings.Clone(host)
		l = &lane[T]{host: host, room: make(chan struct{}, 1)}
		d.lanes[host] = l
	}
	return l
}

// Leaves reports whether an action that comes by in a round is not for it: its
// host is being left behind, or it was taken in before. Rounds go by URI,
// ascending.
func (d *Dispatcher[T]) Leaves(uri string, round int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.lanes[HostOf(uri)]
	if round == 1 {
		return l != nil && l.left
	}
	if l == nil || l.left || l.last == "" || uri <= l.last {
		return true
	}
	l.last = uri
	return false
}

// NextRound waits until there is room for what was left, and reports whether
// there is something.
func (d *Dispatcher[T]) NextRound(ctx context.Context) bool {
	tick := time.NewTicker(slowAfter / 20)
	defer tick.Stop()
	for {
		if left, room := d.relent(); left == 0 || room {
			return left > 0
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
}

// relent queues again what was left, if there is room for any of it.
func (d *Dispatcher[T]) relent() (left int, room bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.lanes {
		if l.left {
			left++
			room = room || len(l.queue) <= hostQueue/2 && d.queued < allQueues
		}
	}
	if !room {
		return left, false
	}
	d.alone = left == 1
	for _, l := range d.lanes {
		l.left = false
	}
	return left, true
}

// Put takes a, whose URI is uri, in when there is room. With others set, actions of other hosts
// may follow: if there is no room for long, a is taken in all the same, and
// what follows for its host is left for another round.
func (d *Dispatcher[T]) Put(ctx context.Context, uri string, a *T, others bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.lane(uri)
	var slow <-chan time.Time
	for d.isFull(l) {
		if slow == nil && others && !d.alone {
			t := time.NewTimer(slowAfter)
			defer t.Stop()
			slow = t.C
		}
		d.mu.Unlock()
		late := false
		select {
		case <-l.room:
		case <-slow:
			late = true
		case <-ctx.Done():
		}
		d.mu.Lock()
		if ctx.Err() != nil {
			return
		}
		if l = d.lane(uri); late {
			l.left, l.last = true, uri
			break
		}
	}
	if d.mayWork(l) {
		d.start(ctx, l, a)
		return
	}
	l.queue = append(l.queue, a)
	d.queued++
	d.await(l)
}

func (d *Dispatcher[T]) isFull(l *lane[T]) bool {
	n := len(l.queue)
	return n >= hostQueue || d.queued >= allQueues && n >= crowdQueue
}

// mayWork reports whether l may have one more worker.
func (d *Dispatcher[T]) mayWork(l *lane[T]) bool {
	free := maxWorkers - d.workers
	return free > 0 && l.workers < d.most && (l.workers == 0 || l.workers < free)
}

func (d *Dispatcher[T]) start(ctx context.Context, l *lane[T], a *T) {
	if l.heard.IsZero() {
		l.heard = time.Now()
	}
	l.workers++
	d.workers++
	d.wg.Go(func() { d.work(ctx, l, a) })
}

// await puts l among those that may lack workers.
func (d *Dispatcher[T]) await(l *lane[T]) {
	if !l.ready && len(l.queue) > 0 {
		l.ready = true
		d.ready = append(d.ready, l)
	}
}

func (d *Dispatcher[T]) work(ctx context.Context, l *lane[T], a *T) {
	for a != nil {
		d.mu.Lock()
		dead := l.dead
		d.mu.Unlock()
		switch {
		case ctx.Err() != nil: // the next run finds it as it was
		case dead != nil:
			d.fail(a, dead)
		default:
			d.judge(l, d.do(a))
		}
		l, a = d.next(l)
	}
}

// next returns what a worker of l is to do next: more for its host, or for one
// that lacks workers. With nothing, the worker has ended.
func (d *Dispatcher[T]) next(l *lane[T]) (*lane[T], *T) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(l.queue) > 0 {
		return l, d.pop(l)
	}
	l.workers--
	d.workers--
	if l.workers == 0 && l.last == "" && l.silent == 0 && d.lanes[l.host] == l {
		delete(d.lanes, l.host)
	}
	for range min(len(d.ready), crowdQueue) {
		other := d.ready[0]
		d.ready = d.ready[1:]
		if other.ready = false; len(other.queue) == 0 {
			continue
		}
		if d.mayWork(other) {
			other.workers++
			d.workers++
			a := d.pop(other)
			d.await(other)
			return other, a
		}
		d.await(other)
	}
	return nil, nil
}

func (d *Dispatcher[T]) pop(l *lane[T]) *T {
	a := l.queue[0]
	l.queue[0] = nil
	if l.queue = l.queue[1:]; len(l.queue) == 0 {
		l.queue = nil
	}
	d.queued--
	if len(l.queue) > hostQueue-hostQueue/8 {
		return a // room for a few only, for which the caller of Put need not wake
	}
	select {
	case l.room <- struct{}{}:
	default: // there is one
	}
	return a
}

// judge notes the result of a request, and gives up a host that does not answer.
func (d *Dispatcher[T]) judge(l *lane[T], err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !isSilent(err) {
		l.silent, l.heard = 0, time.Now()
		return
	}
	if l.silent++; l.silent >= deadCount && time.Since(l.heard) >= deadAfter {
		l.dead = fmt.Errorf("%s has not answered for %s: %w", fetch.Printable(l.host), time.Since(l.heard).Round(time.Second), err)
	}
}

// isSilent reports whether err says that no server answered.
func isSilent(err error) bool {
	if err == nil {
		return false
	}
	var body *fetch.BodyError
	var op *net.OpError
	return errors.Is(err, fetch.ErrTimeout) && !errors.As(err, &body) || errors.As(err, &op) && op.Op == "dial"
}
