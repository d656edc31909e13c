package atom

import "time"

// A clock gives out the updated of n new entries, the newest first: each is
// its event's time in whole milliseconds (AP-DOC-08), or as much earlier as it
// takes for all to differ, and later than all that was published before
// (AP-TS-11), whatever the clock does. Where there are more events than
// milliseconds since then, they are later, by as little as that takes. Some are
// equal only of events by the ten thousand in a moment: times far ahead of the
// clock would have harvesters read the same again and again until it catches up
// (AP-HV-10).
type clock struct {
	last  int64 // newest published before, in milliseconds
	top   int64 // the newest of all
	n     int64
	left  int64 // to be given out
	given int64 // last
}

// noTime is before all times that are published.
const noTime = -1 << 62

// How far times may run ahead of the clock so that all differ: by maxAhead, and
// in any case by a millisecond for each of fewEntries entries.
const (
	maxAhead   = 60_000 // milliseconds
	fewEntries = 1_000
)

// newClock returns what gives out n times; newest is that of the last event.
func newClock(last int64, newest, now time.Time, n int64) *clock {
	c := &clock{last: last, top: max(newest.UnixMilli(), last+1), n: n, left: n}
	if room := c.top - last; last > noTime && room < n {
		c.top = max(c.top, min(last+n, now.UnixMilli()))
		if n <= fewEntries || last+n <= now.UnixMilli()+maxAhead {
			c.top = max(c.top, last+n)
		}
	}
	return c
}

// next returns the time of the event at t, which is before those asked for
// already.
func (c *clock) next(t time.Time) int64 {
	c.left--
	before := c.left // so many are older
	switch {
	case c.left == c.n-1:
		c.given = c.top
	case c.last > noTime && c.top-c.last < c.n: // no room: spread evenly
		c.given = c.last + 1 + before*(c.top-c.last-1)/(c.n-1)
	default:
		c.given = max(min(t.UnixMilli(), c.given-1), c.last+1+before)
	}
	return c.given
}

// millis returns the instant of n milliseconds.
func millis(n int64) time.Time { return time.UnixMilli(n).UTC() }
