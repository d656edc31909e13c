package destination

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

// Bounds of what is handed out ahead of its turn.
const (
	maxWorkers = 1024   // of all hosts together
	hostQueue  = 2048   // actions that wait for one host
	allQueues  = 16_384 // and for all of them, beyond which each has room for crowdQueue
	crowdQueue = 64

	// slowAfter is how long a full queue may keep actions of other hosts
	// waiting, which may come next.
	slowAfter = time.Second

	// A host is taken for dead when so many actions in a row found nobody there,
	// and nobody was for so long: the rest of its resources fail at once.
	deadCount = 32
	deadAfter = 30 * time.Second
)

// A dispatcher hands actions to workers, for each host its own: one that is
// slow, or does not answer, holds up none of the others. Actions of one host
// begin in the order in which they were put. No host has more than half of the
// workers that the others leave. A worker is a goroutine that ends when it has
// nothing to do.
type dispatcher struct {
	most int                        // workers of one host
	do   func(a *action) error      // carries a out, and returns why it could not
	fail func(a *action, err error) // says that a was not tried
	wg   sync.WaitGroup             // workers

	mu      sync.Mutex // guards what follows
	lanes   map[string]*lane
	ready   []*lane // those with a queue that may lack workers
	workers int
	queued  int
	alone   bool // one host only is left behind
}

// A lane is what is to be got from one host.
type lane struct {
	host    string
	queue   []*action
	workers int
	ready   bool          // stands in ready
	room    chan struct{} // holds a token when room may have come about

	left bool   // what comes after last is for another round
	last string // URI of the last action taken in; empty until something was left

	silent int       // actions in a row that found nobody
	heard  time.Time // when somebody was last there, or the first was sent
	dead   error
}

func newDispatcher(most int, do func(*action) error, fail func(*action, error)) *dispatcher {
	return &dispatcher{most: most, do: do, fail: fail, lanes: map[string]*lane{}}
}

// hostOf returns the part of a URI that says who is asked.
func hostOf(uri string) string {
	_, rest, _ := filename.CutScheme(uri)
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	return rest
}

func (d *dispatcher) lane(uri string) *lane {
	host := hostOf(uri)
	l := d.lanes[host]
	if l == nil {
		host = strings.Clone(host)
		l = &lane{host: host, room: make(chan struct{}, 1)}
		d.lanes[host] = l
	}
	return l
}

// leaves reports whether an action that comes by in a round is not for it: its
// host is being left behind, or it was taken in before. Rounds go by URI,
// ascending.
func (d *dispatcher) leaves(uri string, round int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.lanes[hostOf(uri)]
	if round == 1 {
		return l != nil && l.left
	}
	if l == nil || l.left || l.last == "" || uri <= l.last {
		return true
	}
	l.last = uri
	return false
}

// nextRound waits until there is room for what was left, and reports whether
// there is something.
func (d *dispatcher) nextRound(ctx context.Context) bool {
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

// relent takes in again what was left, if there is room for any of it.
func (d *dispatcher) relent() (left int, room bool) {
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

// put takes a in when there is room. With others set, actions of other hosts
// may follow: if there is no room for long, a is taken in all the same, and
// what follows for its host is left for another round.
func (d *dispatcher) put(ctx context.Context, a *action, others bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.lane(a.URI)
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
		if l = d.lane(a.URI); late {
			l.left, l.last = true, a.URI
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

func (d *dispatcher) isFull(l *lane) bool {
	n := len(l.queue)
	return n >= hostQueue || d.queued >= allQueues && n >= crowdQueue
}

// mayWork reports whether l may have one more worker.
func (d *dispatcher) mayWork(l *lane) bool {
	free := maxWorkers - d.workers
	return free > 0 && l.workers < d.most && (l.workers == 0 || l.workers < free)
}

func (d *dispatcher) start(ctx context.Context, l *lane, a *action) {
	if l.heard.IsZero() {
		l.heard = time.Now()
	}
	l.workers++
	d.workers++
	d.wg.Go(func() { d.work(ctx, l, a) })
}

// await puts l among those that may lack workers.
func (d *dispatcher) await(l *lane) {
	if !l.ready && len(l.queue) > 0 {
		l.ready = true
		d.ready = append(d.ready, l)
	}
}

func (d *dispatcher) work(ctx context.Context, l *lane, a *action) {
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
func (d *dispatcher) next(l *lane) (*lane, *action) {
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

func (d *dispatcher) pop(l *lane) *action {
	a := l.queue[0]
	l.queue[0] = nil
	if l.queue = l.queue[1:]; len(l.queue) == 0 {
		l.queue = nil
	}
	d.queued--
	select {
	case l.room <- struct{}{}:
	default: // there is one
	}
	return a
}

// judge notes what became of a request, and gives up a host that is not there.
func (d *dispatcher) judge(l *lane, err error) {
	if isCanceled(err) {
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

// isSilent reports whether err says that nobody was there.
func isSilent(err error) bool {
	var body *fetch.BodyError
	var op *net.OpError
	return errors.Is(err, fetch.ErrTimeout) && !errors.As(err, &body) || errors.As(err, &op) && op.Op == "dial"
}
