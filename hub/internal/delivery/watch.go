package delivery

import (
	"context"
	"time"
)

// watchMost is the maximum time between two checks of the alarms: the clock may
// be set.
const watchMost = time.Second

// A watcher handles everything that depends on time: leases expire, deliveries
// are retried, slow ones change lanes, and those that take too long are canceled.
type watcher struct {
	registry  *registry
	alarms    *alarmClock
	scheduler *scheduler
	outcomes  *outcomes
	deliverer *deliverer
	now       func() time.Time
}

// run works until ctx ends.
func (w *watcher) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.alarms.poked:
		case <-timer.C:
		}
		w.registry.mu.Lock()
		now := w.now()
		lapsed := w.registry.lapsed()
		for !lapsed {
			n := w.alarms.due(now)
			if n == nil {
				break
			}
			w.rung(n, now)
		}
		w.deliverer.watchFlights()
		w.deliverer.spawn()
		wait := w.alarms.wait(now, watchMost)
		if w.deliverer.busy() {
			wait = min(wait, watchEvery)
		}
		if lapsed {
			wait = watchEvery
		}
		w.registry.mu.Unlock()
		timer.Reset(max(wait, time.Millisecond))
	}
}

// rung performs the action of an alarm.
func (w *watcher) rung(n *alarm, now time.Time) {
	if n.host != nil {
		n.host.shut = false
		n.host.offer()
		return
	}
	s := n.sub
	if !now.Before(s.Expires) {
		w.outcomes.expire(s)
		return
	}
	w.alarms.ring(&s.alarm, s.Expires)
	if s.stage == waiting {
		w.scheduler.resume(s)
	}
}
