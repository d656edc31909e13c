package delivery

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"lockstep/hub/internal/post"
)

const (
	stayFor    = 32                     // consecutive messages to a subscriber that lags behind, while the page with them is in memory
	watchEvery = 100 * time.Millisecond // precision of timeouts
	storeRetry = time.Second            // after the store could not be read
)

// A deliverer makes the deliveries whose turn it is. The lock of the registry
// guards what it changes.
type deliverer struct {
	registry  *registry
	scheduler *scheduler
	logs      *logs
	poster    *post.Poster
	outcomes  *outcomes
	progress  *progressSaver
	alarms    *alarmClock
	timeout   time.Duration
	now       func() time.Time
	log       *slog.Logger

	flights []*flight
	workers sync.WaitGroup
}

// A flight is a chain of deliveries, one at a time.
type flight struct {
	sub    *subscription // nil: none
	queue  *queue        // the queue that counts it
	stayed int           // consecutive messages to the same subscriber
	start  time.Time     // of the current delivery; zero: none
	cancel context.CancelFunc
	late   bool // canceled because it took too long
	index  int  // in deliverer.flights

	patience time.Duration // the time limit that it exceeded
}

// spawn starts all deliveries whose turn it is. The caller holds the lock of the
// registry.
func (d *deliverer) spawn() {
	for {
		s, q := d.scheduler.take()
		if s == nil {
			return
		}
		f := &flight{sub: s, queue: q, index: len(d.flights)}
		if d.flights = append(d.flights, f); len(d.flights) == 1 {
			d.alarms.poke()
		}
		d.workers.Go(func() { d.fly(f) })
	}
}

// fly makes deliveries for as long as a subscription has its turn.
func (d *deliverer) fly(f *flight) {
	d.registry.mu.Lock()
	defer d.registry.mu.Unlock()
	for f.sub != nil {
		d.chain(f)
	}
	end := len(d.flights) - 1
	d.flights[f.index] = d.flights[end]
	d.flights[f.index].index = f.index
	d.flights[end] = nil
	d.flights = d.flights[:end]
}

// chain makes deliveries for as long as a subscription has its turn and none is
// canceled: one context serves them all. The caller holds the lock of the registry.
func (d *deliverer) chain(f *flight) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f.cancel = cancel
	sender := d.poster.Sender(ctx)
	for f.sub != nil && ctx.Err() == nil {
		if d.deliver(ctx, sender, f) {
			continue
		}
		f.queue.leave()
		f.stayed = 0
		f.sub, f.queue = d.scheduler.take()
		d.spawn()
	}
}

// deliver makes one attempt to deliver the next message, if there is one, and
// reports whether to send the subscriber another at once. The caller holds
// the lock of the registry, which is released during the delivery. sender sends
// within ctx, which f.cancel ends.
func (d *deliverer) deliver(ctx context.Context, sender *post.Sender, f *flight) (stay bool) {
	s := f.sub
	if d.registry.lapsed() {
		d.scheduler.rest(s, d.now().Add(storeRetry))
		return false
	}
	e, err := d.next(s)
	if err != nil {
		d.log.Error("messages could not be read", slog.String("topic", s.log.url), slog.Any("err", err))
		d.scheduler.rest(s, d.now().Add(storeRetry))
		return false
	}
	if e == nil || d.scheduler.draining {
		d.scheduler.resume(s)
		return false
	}
	s.stage, s.moved = sending, false
	f.late, f.start = false, time.Now()
	target, secret, topic := s.target, s.secret, s.Topic
	d.registry.mu.Unlock()
	out := outcome{Result: sender.Post(&e.Message, e.header, target, secret, topic)}
	d.registry.mu.Lock()
	out.took = time.Since(f.start)
	f.start = time.Time{}
	if out.Err != nil && ctx.Err() != nil { // canceled by the hub
		out.late, out.ended = f.late, !f.late
		if f.late {
			out.Err = fmt.Errorf("no answer within %v", f.patience)
		}
	}
	d.outcomes.settle(s, e, out)
	if d.stays(f) {
		f.stayed++
		return true
	}
	d.scheduler.resume(s)
	return false
}

// stays reports whether the next message to the same subscriber is sent at once:
// the subscriber lags behind, the messages it needs were just read, and other
// readers would displace them.
func (d *deliverer) stays(f *flight) bool {
	s := f.sub
	p := &s.Progress
	return s.stage == sending && p.Attempts == 0 && s.slow == 0 && f.stayed < stayFor && !d.scheduler.draining &&
		p.Cursor < s.log.last && s.log.recent.find(p.Cursor+1) == nil
}

// next returns the next message for s, or nil if there is none. It skips
// messages that are no longer available. The caller holds the lock of the
// registry.
func (d *deliverer) next(s *subscription) (*entry, error) {
	for s.stage != gone && !d.registry.lapsed() {
		p := &s.Progress
		if !d.now().Before(s.Expires) {
			d.outcomes.expire(s)
			return nil, nil
		}
		if p.Cursor >= s.log.last {
			return nil, nil
		}
		seq := p.Cursor + 1
		e, forgotten, err := d.logs.at(context.Background(), s.log, seq)
		switch {
		case err != nil:
			return nil, err
		case s.stage == gone:
			return nil, nil // ended while the store was read
		case seq != p.Cursor+1: // moved while the store was read
		case e == nil:
			d.outcomes.skip(s, forgotten)
		case e.Seq > seq:
			d.outcomes.skip(s, e.Seq-1)
		case e.Whole && s.log.whole > e.Seq: // WS-C-11: superseded
			p.Cursor = e.Seq
			d.progress.note(s)
		default:
			return e, nil
		}
	}
	return nil, nil
}

// watchFlights watches the deliveries under way. None stays in the fast lane for
// long: when the slow lane, or the share of the host in it, has no room even for
// deliveries from there, the delivery is canceled and retried in the slow lane.
func (d *deliverer) watchFlights() {
	for _, f := range d.flights {
		if f.start.IsZero() || f.late {
			continue
		}
		age := time.Since(f.start)
		to := &f.sub.host.queues[slow]
		switch {
		case age >= d.timeout:
			f.breakOff(d.timeout)
		case age < slowAfter || f.queue == to:
		case to.lane.running < to.lane.limit*slowMore && to.running < to.lane.perHost*slowMore:
			f.queue.leave()
			f.queue = to
			f.queue.enter()
		default:
			f.breakOff(slowAfter)
		}
	}
}

// busy reports whether deliveries are under way. The caller holds the lock of the
// registry.
func (d *deliverer) busy() bool { return len(d.flights) > 0 }

// breakOff cancels a delivery that has taken too long.
func (f *flight) breakOff(patience time.Duration) {
	f.late, f.patience = true, patience
	f.cancel()
}

// land waits until no delivery is under way. Those that have not ended after
// grace are canceled: they are made again when the hub is restarted.
func (d *deliverer) land(grace time.Duration) {
	d.registry.mu.Lock()
	d.scheduler.draining = true
	d.registry.mu.Unlock()
	timer := time.AfterFunc(grace, func() {
		d.registry.mu.Lock()
		defer d.registry.mu.Unlock()
		for _, f := range d.flights {
			if !f.start.IsZero() {
				f.cancel()
			}
		}
	})
	defer timer.Stop()
	d.workers.Wait()
}
