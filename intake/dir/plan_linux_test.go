package dir

import (
	"testing"
	"time"

	"lockstep/intake/internal/pathname"
)

// TestPlanLimited: if a scan of touched paths finds a directory that cannot be watched, the next
// full scan is near, even if there are none at intervals.
func TestPlanLimited(t *testing.T) {
	t.Parallel()
	f, err := pathname.NewFilter(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, interval := range []time.Duration{-1, time.Hour} {
		w := &watch{d: &Dir{o: Options{ScanInterval: interval}}}
		w.tree.Open(t.TempDir(), &w.touched, f)
		defer w.tree.Close()
		w.tree.Begin()
		w.plan(true, time.Second, nil)
		if until := time.Until(w.nextFull); interval > 0 && until < interval/2 || interval < 0 && !w.nextFull.IsZero() {
			t.Fatalf("with interval %v, the next full scan is in %v", interval, until)
		}
		w.tree.Add(".")
		w.tree.Add("x/..") // a second path of the root
		if !w.tree.Limited() {
			t.Fatal("a directory with two paths is watched")
		}
		w.plan(false, 0, nil)
		if until := time.Until(w.nextFull); w.nextFull.IsZero() || until > pollShare*time.Second {
			t.Errorf("with interval %v, the next full scan is in %v, want %v", interval, until, pollShare*time.Second)
		}
	}
}
