package atom

import (
	"testing"
	"time"
)

// TestClock gives out times when there is room for them, and when there is not.
func TestClock(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 2, 0, 0, 0, time.UTC)
	at := now.UnixMilli()
	for _, tt := range []struct {
		name     string
		last     int64
		event    time.Time
		n, top   int64
		strictly bool
	}{
		{"first", noTime, now, 1_000_000, at, true},
		{"room", at - 5_000, now, 5_000, at, true},
		{"events of long ago", at - 5_000, now.Add(-time.Hour), 3_000, at - 2_000, true},
		{"events of long ago, and little room", at - 5_000, now.Add(-time.Hour), 6_000, at + 1_000, true},
		{"no room", at, now, 10_000, at + 10_000, true},
		{"the clock ran back", at + 3_600_000, now, 2, at + 3_600_002, true},
		{"the clock ran back, and many", at + 3_600_000, now, 10_000, at + 3_600_001, false}, // AP-TS-11: not earlier
		{"too many", at, now, 100_000, at + 1, false},
	} {
		c := newClock(tt.last, tt.event, now, tt.n)
		newer := tt.top + 1
		for i := range tt.n {
			got := c.next(tt.event)
			if i == 0 && got != tt.top {
				t.Errorf("%s: newest of %d, want %d", tt.name, got, tt.top)
			}
			if got <= tt.last || got > newer || tt.strictly && got == newer {
				t.Fatalf("%s: time %d is %d, after %d, of feeds until %d", tt.name, i, got, newer, tt.last)
			}
			newer = got
		}
	}
}
