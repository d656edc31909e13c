package catalogtest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/catalog"
)

// RunClock tests event times and Marks with a clock that stops and steps. The
// catalog that open returns must read the time from the clock it is given.
func RunClock(t *testing.T, open func(*testing.T, func() time.Time) catalog.Catalog) {
	start := time.Date(2026, 3, 4, 5, 6, 7, 890_123_456, time.UTC)
	micro := start.Truncate(time.Microsecond)
	var now atomic.Int64
	c := open(t, func() time.Time { return start.Add(time.Duration(now.Load())) })
	name := set
	set := func(d time.Duration) { now.Store(int64(d)) }
	var puts []catalog.Update
	n := 0
	next := func(k int) []catalog.Update { // k changes
		n++
		puts = puts[:0]
		for i := range k {
			puts = append(puts, put(string(rune('a'+i)), time.Duration(n).String()))
		}
		return puts
	}
	events := func() (first, last time.Time) {
		ch := changes(t, c, status(t, c).Last-catalog.Seq(len(puts)))
		for i := range ch[1:] {
			if !ch[i+1].EventTime.After(ch[i].EventTime) {
				t.Errorf("change %d at %v follows one at %v", ch[i+1].Seq, ch[i+1].EventTime, ch[i].EventTime)
			}
		}
		return ch[0].EventTime, ch[len(ch)-1].EventTime
	}
	if m := mark(t, c); !m.At.Equal(micro) {
		t.Errorf("Mark at %v, want %v", m.At, micro)
	}

	// Time enough since the Mark: the changes end at the clock's time.
	set(time.Second)
	apply(t, c, catalog.Applied{Created: 5}, next(5)...)
	first, last := events()
	if !last.Equal(micro.Add(time.Second)) || !first.Equal(last.Add(-4*time.Microsecond)) {
		t.Errorf("5 changes at %v from %v to %v", micro.Add(time.Second), first, last)
	}

	// The clock stops: each is a microsecond later.
	apply(t, c, catalog.Applied{Updated: 3}, next(3)...)
	if f, l := events(); !f.Equal(last.Add(time.Microsecond)) || !l.Equal(last.Add(3*time.Microsecond)) {
		t.Errorf("3 changes while the clock stands at %v: from %v to %v", last, f, l)
	}

	// It steps back, behind changes and Marks.
	set(time.Minute)
	m := mark(t, c)
	set(-time.Hour)
	if again := mark(t, c); again.At.Before(m.At) {
		t.Errorf("Mark at %v after one at %v", again.At, m.At)
	}
	apply(t, c, catalog.Applied{Updated: 2}, next(2)...)
	if f, l := events(); !f.After(m.At) || l.After(m.At.Add(2*time.Microsecond)) {
		t.Errorf("2 changes after the Mark at %v: from %v to %v", m.At, f, l)
	}
	s := status(t, c)
	if m := mark(t, c); m.At.Before(s.LastTime) || m.Seq != s.Last {
		t.Errorf("Mark = %v after change %d at %v", m, s.Last, s.LastTime)
	}

	// A Mark that it has not reached comes before what follows.
	if _, can := c.(catalog.LaterMarker); can {
		ahead := micro.Add(2 * time.Minute)
		m, err := catalog.MarkAfter(context.Background(), c, name, ahead)
		if err != nil || !m.At.Equal(ahead) || m.Seq != status(t, c).Last {
			t.Errorf("MarkAfter(%v) = %v, %v", ahead, m, err)
		}
		if m, err := catalog.MarkAfter(context.Background(), c, name, micro); err != nil || !m.At.Equal(ahead) {
			t.Errorf("MarkAfter(%v) after one at %v = %v, %v", micro, ahead, m, err)
		}
		apply(t, c, catalog.Applied{Updated: 1}, next(1)...)
		if f, _ := events(); !f.After(ahead) {
			t.Errorf("change at %v after the Mark at %v", f, ahead)
		}
	}

	// It is correct again: event times return to it.
	set(time.Hour)
	apply(t, c, catalog.Applied{Updated: 2}, next(2)...)
	if _, l := events(); !l.Equal(micro.Add(time.Hour)) {
		t.Errorf("change at %v, want %v", l, micro.Add(time.Hour))
	}
	set(2 * time.Hour)
	apply(t, c, catalog.Applied{Created: 8995, Updated: 5}, next(9000)...) // perhaps too many for one transaction
	if f, l := events(); !l.Equal(micro.Add(2*time.Hour)) || l.Sub(f) != 8999*time.Microsecond {
		t.Errorf("9000 changes at %v from %v to %v", micro.Add(2*time.Hour), f, l)
	}
}
