package limit

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"lockstep/hub/internal/refusal"
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

// TestBudget: all bodies together are limited to a number of bytes, and release
// them.
func TestBudget(t *testing.T) {
	t.Parallel()
	b := &Budget{left: 14_000}
	body, done, err := b.Read(strings.NewReader(strings.Repeat("x", 9000)), -1, 10_000)
	if err != nil || len(body) != 9000 {
		t.Fatalf("read = %d bytes, %v", len(body), err)
	}
	var refused *refusal.Refusal
	if _, _, err := b.Read(strings.NewReader(strings.Repeat("x", 12_000)), -1, 50_000); !errors.As(err, &refused) || refused.Status != 503 || refused.After == 0 {
		t.Errorf("beyond the budget: %v, want to come back later", err)
	}
	if _, _, err := b.Read(strings.NewReader("x"), 1, 50_000); err != nil {
		t.Errorf("a small body: %v, want it to pass whatever is left", err)
	}
	done()
	for _, r := range []io.Reader{strings.NewReader(strings.Repeat("x", 10_001)), io.MultiReader(strings.NewReader("x"), broken{})} {
		if _, _, err := b.Read(r, -1, 10_000); err == nil {
			t.Error("read = nil, want an error")
		}
	}
	if b.left != 14_000 {
		t.Errorf("%d bytes are left, want all", b.left)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
