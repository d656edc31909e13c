// Package availability finds out whether a database works, for many callers and without asking it
// often, also where its server needs long for an answer.
package availability

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// checkTime is how long a caller waits for a check, and how long one may take at first.
	// Where that is not enough, the next one may take twice as long.
	checkTime = 5 * time.Second
	checkMost = 40 * time.Second
	// checkFor is how long a result is valid: readiness checks cause at most one
	// write in that time.
	checkFor = time.Second
)

// A Check is the result of the latest check. Several callers wait for one. The zero value is ready
// to use.
type Check struct {
	mu      sync.Mutex // guards what follows
	at      time.Time  // when it was found, by the monotonic clock; zero: there is none
	err     error
	slow    bool          // it took longer than a caller waits
	within  time.Duration // how long the next one may take; 0: checkTime
	running *checking     // nil: none
}

// A checking is a check under way.
type checking struct {
	done chan struct{}
	stop context.CancelFunc
	err  error // valid when done is closed
}

// Result returns the result of probe: a recent one, or that of a check which is under way. On a
// server that takes longer to answer than a caller waits, it is that of the check before, as long
// as the next one is under way. name is that of the database.
func (c *Check) Result(name string, probe func(context.Context) error) error {
	c.mu.Lock()
	if !c.at.IsZero() && time.Since(c.at) < checkFor {
		defer c.mu.Unlock()
		return c.err
	}
	if c.running == nil {
		c.begin(name, probe)
	}
	own, works := c.running, c.slow && c.err == nil
	c.mu.Unlock()
	if works {
		return nil
	}
	timer := time.NewTimer(checkTime)
	defer timer.Stop()
	select {
	case <-own.done:
		return own.err
	case <-timer.C:
		return late(name, checkTime)
	}
}

func late(name string, after time.Duration) error {
	return fmt.Errorf("database %s: no answer within %v", name, after)
}

// begin begins a check, which ends by itself, or by [Check.End]. It is not that of one caller. The
// caller holds the lock.
func (c *Check) begin(name string, probe func(context.Context) error) {
	within := max(c.within, checkTime)
	ctx, cancel := context.WithTimeout(context.Background(), within)
	own := &checking{done: make(chan struct{}), stop: cancel}
	c.running = own
	began := time.Now()
	go func() {
		defer close(own.done)
		err := probe(ctx)
		if err != nil && ctx.Err() != nil {
			err = late(name, within)
		}
		cancel()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.at, c.err, c.running, own.err = time.Now(), err, nil, err
		took := time.Since(began)
		if c.slow = took > checkTime; took > within/2 {
			c.within = min(2*within, checkMost)
		} else if took < within/8 {
			c.within = within / 2
		}
	}()
}

// End ends the check under way.
func (c *Check) End() {
	c.mu.Lock()
	own := c.running
	c.mu.Unlock()
	if own != nil {
		own.stop()
		<-own.done
	}
}
