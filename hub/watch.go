package hub

import (
	"context"
	"time"
)

// watchMost is the maximum time between two checks of the alarms: the clock may
// be set.
const watchMost = time.Second

// ring sets an alarm. The caller holds h.mu.
func (h *Hub) ring(n *alarm, at time.Time) {
	h.registry.alarms.set(n, at)
	if n.index == 0 {
		h.poke()
	}
}

// poke makes watch check what it waits for.
func (h *Hub) poke() { wake(h.poked) }

// watch handles everything that depends on time until ctx ends: leases expire,
// deliveries are retried, slow ones change lanes, and those that take too long
// are canceled.
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

// rung performs the action of an alarm.
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

// watchFlights watches the deliveries under way. None stays in the fast lane for
// long: when the slow lane has no room even for deliveries from there, the
// delivery is canceled and retried in the slow lane.
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

// breakOff cancels a delivery that has taken too long.
func (f *flight) breakOff(patience time.Duration) {
	f.late, f.patience = true, patience
	f.cancel()
}

// land waits until no delivery is under way. Those that have not ended after
// grace are canceled: they are made again when the hub is restarted.
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
