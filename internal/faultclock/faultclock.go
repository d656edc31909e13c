// Package faultclock provides clocks that tests set: they stand still, or run and
// are stepped, as an operator or a time service steps the clock of a machine.
package faultclock

import (
	"sync"
	"time"
	"unsafe"
)

// A Clock shows a time that tests set. All methods are safe for concurrent use.
type Clock struct {
	mu   sync.Mutex // guards what follows
	at   time.Time  // of a clock that stands still
	runs bool
	step time.Duration // of a clock that runs: how far it is ahead
}

// New returns a clock that stands still at a time, until it is moved.
func New(at time.Time) *Clock { return &Clock{at: at} }

// Running returns a clock that runs as [time.Now] does. Step moves only its wall
// clock reading: the monotonic reading, by which package time measures intervals,
// stays right, as on a machine whose clock is set.
func Running() *Clock { return &Clock{runs: true} }

// Now returns the time that the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs {
		return stepped(time.Now(), c.step)
	}
	return c.at
}

// Step moves the clock by d, forward or back.
func (c *Clock) Step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs {
		c.step += d
	} else {
		c.at = c.at.Add(d)
	}
}

// Set has a clock that stands still show another time.
func (c *Clock) Set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
}

// stepped returns t with its wall clock reading moved by whole seconds, and its
// monotonic reading as it is. Package time offers no way to do so; the tests of this
// package check the representation that is used here.
func stepped(t time.Time, by time.Duration) time.Time {
	const (
		monotonic = 1 << 63 // flag: there is a monotonic reading
		seconds   = 30      // where the seconds since 1885 begin
	)
	raw := (*struct {
		wall uint64
		ext  int64 // the monotonic reading
	})(unsafe.Pointer(&t))
	if raw.wall&monotonic == 0 { // in a bubble of testing/synctest
		since := t.Unix() - time.Date(1885, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
		raw.wall, raw.ext = monotonic|uint64(since)<<seconds|uint64(t.Nanosecond()), t.UnixNano()
	}
	raw.wall += uint64(int64(by/time.Second)) << seconds
	return t
}
