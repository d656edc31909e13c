package concurrency_test

import (
	"testing"
	"time"

	"lockstep/internal/fetch/concurrency"
)

// While requests to a far host share connections, half as many more may be under way than
// configured; when they no longer do, the configured number applies again.
func TestShared(t *testing.T) {
	t.Parallel()
	const most = 100
	a := concurrency.New(concurrency.Initial, most)
	now := time.Now()
	answer := func(n int, shared bool) {
		for range n {
			now = now.Add(time.Millisecond)
			a.Answered(now, &concurrency.Reply{Reused: true, Shared: shared, Wait: 50 * time.Millisecond, Whole: 50 * time.Millisecond}, true, false)
		}
	}
	for _, tt := range []struct {
		shared bool
		want   int
	}{{false, most}, {true, most * 3 / 2}, {false, most}} {
		if answer(1000, tt.shared); a.Jobs() != tt.want {
			t.Errorf("shared %v: %d requests, want %d", tt.shared, a.Jobs(), tt.want)
		}
	}
	near := concurrency.New(concurrency.Initial, most)
	for range 10_000 {
		now = now.Add(time.Millisecond)
		near.Answered(now, &concurrency.Reply{Reused: true, Shared: true, Wait: time.Millisecond, Whole: time.Millisecond}, true, false)
	}
	if near.Jobs() > most {
		t.Errorf("%d requests to a near host", near.Jobs())
	}
}
