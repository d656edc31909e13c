package ratelimit

import (
	"testing"
	"time"
)

// TestBuckets: buckets refill, and their number is bounded.
func TestBuckets(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := NewBuckets[int](Rate{Burst: 10, Per: 2}, func() time.Time { return now })
	for i := range 10 {
		if d := b.Take(1, 1); d != 0 {
			t.Fatalf("token %d: wait %v", i, d)
		}
	}
	if d := b.Take(1, 1); d != 500*time.Millisecond {
		t.Errorf("beyond the burst: wait %v, want 500ms", d)
	}
	if d := b.Take(2, 50); d != 0 {
		t.Errorf("more than the burst: wait %v, want all of it to do", d)
	}
	now = now.Add(500 * time.Millisecond)
	if d := b.Take(1, 1); d != 0 {
		t.Errorf("after the wait: wait %v", d)
	}
	b.Give(1, 3)
	if d := b.Take(1, 3); d != 0 {
		t.Errorf("given back: wait %v", d)
	}
	now = now.Add(-time.Hour) // the clock was set back
	if d := b.Take(1, 1); d <= 0 || d > time.Minute {
		t.Errorf("with the clock set back: wait %v", d)
	}
	for i := range 2 * maxBuckets {
		b.Take(i, 1)
	}
	if n := len(b.m); n > maxBuckets {
		t.Errorf("%d are remembered, want at most %d", n, maxBuckets)
	}
}
