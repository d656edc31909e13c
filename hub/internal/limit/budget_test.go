package limit

import (
	"errors"
	"io"
	"strings"
	"testing"

	"lockstep/hub/internal/refusal"
)

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

// TestCount: what was read of a body counts until it is closed, and no more is read than is left.
func TestCount(t *testing.T) {
	t.Parallel()
	b := &Budget{left: 14_000}
	open := func(n int) io.ReadCloser { return b.Count(io.NopCloser(strings.NewReader(strings.Repeat("x", n)))) }
	one, other := open(9000), open(15_000)
	if n, err := io.Copy(io.Discard, one); n != 9000 || err != nil || b.left != 14_000-(9000-firstRead) {
		t.Errorf("read %d bytes, %v; %d are left", n, err, b.left)
	}
	var refused *refusal.Refusal
	if _, err := io.Copy(io.Discard, other); !errors.As(err, &refused) {
		t.Errorf("beyond the budget: %v, want a refusal", err)
	}
	for _, r := range []io.ReadCloser{one, other, one} {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if b.left != 14_000 {
		t.Errorf("%d bytes are left, want all", b.left)
	}
}
