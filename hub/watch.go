package hub

import (
	"context"
	"time"
)

// watchMost is how long the alarms are not looked at, at most: the clock may be
// set.
const watchMost = time.Second

// ring sets an alarm. The caller holds h.mu.
func (h *Hub) ring(n *alarm, at time.Time) {
	h.registry.alarms.set(n, at)
	if n.index == 0 {
		h.poke()
	}
}

// poke makes watch look at what there is to wait for.
func (h *Hub) poke() { wake(h.poked) }

// watch sees to it that what has its time happens, until ctx ends: leases end,
// deliveries are tried again, those that are slow change lanes, and those that
// take too long are given up.
func (h *Hub) watch(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.poked:
		case <-timer.C:
		}
		h.mu.Lock()
		now := h.now()
		for n := h.registry.alarms.due(now); n != nil; n = h.registry.alarms.due(now) {
			h.rung(n, now)
		}
		h.watchFlights()
		h.spawn()
		wait := watchMost
		if len(h.registry.alarms) > 0 {
			wait = min(wait, h.registry.alarms[0].at.Sub(now))
		}
		if len(h.flights) > 0 {
			wait = min(wait, watchEvery)
		}
		h.mu.Unlock()
		timer.Reset(max(wait, time.Millisecond))
	}
}

// rung does what an alarm was set for.
func (h *Hub) rung(n *alarm, now time.Time) {
	if n.host != nil {
		n.host.shut = false
		n.host.offer()
		return
	}
	s := n.sub
	if !now.Before(s.Expires) {
		h.expire(s)
		return
	}
	h.ring(&s.alarm, s.Expires)
	if s.stage == waiting {
		h.resume(s)
	}
}

// watchFlights looks after the deliveries under way. None stays in the fast lane
// for long: when the slow one has no place even for those who come from there,
// patience is at an end, and the delivery is tried again by the slow lane.
func (h *Hub) watchFlights() {
	for _, f := range h.flights {
		if f.start.IsZero() || f.late {
			continue
		}
		age := time.Since(f.start)
		to := &f.sub.host.queues[slow]
		switch {
		case age >= h.opts.Timeout:
			f.breakOff(h.opts.Timeout)
		case age < slowAfter || f.queue == to:
		case to.lane.running < to.lane.limit*slowMore:
			f.queue.leave()
			f.queue = to
			f.queue.enter()
		default:
			f.breakOff(slowAfter)
		}
	}
}

// breakOff ends a delivery that has taken too long.
func (f *flight) breakOff(patience time.Duration) {
	f.late, f.patience = true, patience
	f.cancel()
}

// land waits until no delivery is under way. Those that have not ended after
// grace are broken off: they are made again when the hub is started again.
func (h *Hub) land(grace time.Duration) {
	h.mu.Lock()
	h.scheduler.draining = true
	h.mu.Unlock()
	timer := time.AfterFunc(grace, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, f := range h.flights {
			if !f.start.IsZero() {
				f.cancel()
			}
		}
	})
	defer timer.Stop()
	h.workers.Wait()
}
