// Package timing reads a hub's clock, and provides the waits that its parts share.
package timing

import (
	"math/rand/v2"
	"time"
)

// SaveTime is how long a store may take before the hub answers that the client
// should retry. The write itself does not end with the request: it is
// completed.
const SaveTime = 30 * time.Second

// Micros returns t to the microsecond, which is what stores retain. A monotonic
// reading remains, so that leases and waits have the right length when the
// system clock is set.
func Micros(t time.Time) time.Time {
	return t.Add(-time.Duration(t.Nanosecond() % int(time.Microsecond)))
}

// Anchored returns t, which a store may have returned, with the monotonic reading of
// now.
func Anchored(t, now time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return now.Add(t.Sub(now))
}

const spread = 0.2 // relative variation of a wait

// Jitter returns d changed by up to a fifth, so that requests that failed
// together are not retried together.
func Jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 - spread + 2*spread*rand.Float64()))
}

// Due returns the time of the next attempt that a store returned; now if that is further away than the longest wait,
// most with Jitter: it was saved by a clock that was ahead.
func Due(next, now time.Time, most time.Duration) time.Time {
	if next.Sub(now) > Longest(most) {
		return now
	}
	return Anchored(next, now)
}

// Longest returns the longest result of Jitter.
func Longest(d time.Duration) time.Duration { return d + time.Duration(spread*float64(d)) }
