// Package pace spreads requests, or bytes, evenly over time.
package pace

import (
	"context"
	"sync"
	"time"

	"lockstep/internal/sleep"
)

// mostLate is how late a unit may be taken without delaying those after it: timers are late.
const mostLate = 100 * time.Millisecond

// A Pace lets Rate units a second pass; zero means no limit. Its methods are safe for
// concurrent use.
type Pace struct {
	Rate   float64
	Shares func() int // number of processes that share the rate; nil: one

	mu     sync.Mutex // guards what follows
	queues [2]chan struct{}
	next   time.Time // time of the next unit
	hold   time.Time // nothing passes before this time
}

// A Turn is that of one caller to take units.
type Turn struct {
	pace  *Pace
	since time.Time
	queue chan struct{} // holds a token until the turn ends; nil: there is no limit
}

// Turn waits for a turn to take units, which the caller has to end. One that is urgent does
// not wait for the turns of those that are not.
func (p *Pace) Turn(ctx context.Context, urgent bool) (Turn, error) {
	t := Turn{pace: p}
	if p.Rate == 0 {
		return t, nil
	}
	t.since = time.Now()
	which := 0
	if urgent {
		which = 1
	}
	p.mu.Lock()
	if p.queues[which] == nil {
		p.queues[which] = make(chan struct{}, 1)
	}
	t.queue = p.queues[which]
	p.mu.Unlock()
	select {
	case t.queue <- struct{}{}:
		return t, nil
	case <-ctx.Done():
		return Turn{}, context.Cause(ctx)
	}
}

// End lets others have their turn.
func (t Turn) End() {
	if t.queue != nil {
		<-t.queue
	}
}

// Take takes n units, or returns how long to wait before it is called again.
func (t Turn) Take(n int) time.Duration {
	p := t.pace
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Rate == 0 {
		return p.held()
	}
	now := time.Now()
	at := latest(t.since, p.next, now.Add(-mostLate), p.hold)
	if wait := at.Sub(now); wait > 0 {
		return wait
	}
	p.next = at.Add(p.time(n))
	return 0
}

// Return returns n units that were taken and not used.
func (p *Pace) Return(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Rate > 0 {
		p.next = p.next.Add(-p.time(n))
	}
}

// time returns how long n units take.
func (p *Pace) time(n int) time.Duration {
	shares := 1
	if p.Shares != nil {
		shares = p.Shares()
	}
	return time.Duration(float64(n) * float64(shares) / p.Rate * float64(time.Second))
}

func latest(t time.Time, others ...time.Time) time.Time {
	for _, o := range others {
		if o.After(t) {
			t = o
		}
	}
	return t
}

// Wait takes n units: it returns when those taken before have had their time. One that ctx
// ends takes none.
func (p *Pace) Wait(ctx context.Context, n int) error {
	t, err := p.Turn(ctx, false)
	if err != nil {
		return err
	}
	defer t.End()
	for {
		d := t.Take(n)
		if d <= 0 {
			return nil
		}
		if err := sleep.For(ctx, d); err != nil {
			return err
		}
	}
}

// Pause lets nothing pass until u.
func (p *Pace) Pause(u time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold = latest(p.hold, u)
}

// Paused returns how long nothing passes because of [Pace.Pause].
func (p *Pace) Paused() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held()
}

func (p *Pace) held() time.Duration {
	if p.hold.IsZero() {
		return 0
	}
	return max(time.Until(p.hold), 0)
}

// Until returns the end of the last pause.
func (p *Pace) Until() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hold
}

// Idle reports whether no unit has to wait.
func (p *Pace) Idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	return p.next.Before(now) && p.hold.Before(now)
}
