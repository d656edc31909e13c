package destination_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lockstep/destination"
)

// TestFollowPolls follows a Source that tells nothing.
func TestFollowPolls(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "one")
	m := newMirror(t, s)
	f, err := m.destination().Follow(m.address(), destination.FollowOptions{Poll: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	s.put("/b", "two")
	eventually(t, func() bool {
		b, _ := os.ReadFile(filepath.Join(m.dir, "b"))
		return string(b) == "two"
	})
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v, want nil when its context ended", err)
	}
	m.same()
}

// eventually waits until is is true.
func eventually(t testing.TB, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never came about")
		}
	}
}
