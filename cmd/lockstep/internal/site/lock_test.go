package site_test

import (
	"errors"
	"log/slog"
	"path/filepath"
	"testing"

	"lockstep/cmd/lockstep/internal/site"
	"lockstep/cmd/lockstep/internal/stateplace"
	"lockstep/internal/statedir"
)

// TestLock: each process that shares a state has a directory of its own, and one that does not
// is refused while another one uses it.
func TestLock(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	lock := func(p stateplace.Place) (*site.Options, error) {
		o := &site.Options{State: p, Command: "serve", Log: slog.New(slog.DiscardHandler)}
		err := o.Lock()
		if err == nil {
			t.Cleanup(o.Release)
		}
		return o, err
	}
	shared := stateplace.In(dir).Shared()
	for i, want := range []string{dir, dir + "-2", dir + "-3"} {
		o, err := lock(shared)
		if err != nil || o.State.Dir != want {
			t.Fatalf("process %d has %s, %v, want %s", i, o.State.Dir, err, want)
		}
		if i == 1 {
			o.Release()
			if again, err := lock(shared); err != nil || again.State.Dir != want {
				t.Errorf("the next process has %s, %v, want %s", again.State.Dir, err, want)
			}
		}
	}
	if _, err := lock(stateplace.In(dir)); !errors.Is(err, statedir.ErrInUse) {
		t.Errorf("a process that does not share: %v", err)
	}
}
