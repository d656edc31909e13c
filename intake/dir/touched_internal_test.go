package dir

import (
	"slices"
	"testing"
	"time"
)

// TestTouchedCreated: new names are returned once, and not those from which something was renamed, as when a file is
// replaced.
func TestTouchedCreated(t *testing.T) {
	t.Parallel()
	w := touched{wake: make(chan struct{}, 1)}
	w.Created("a")
	w.Created("tmp")
	w.Renamed("tmp")
	w.Created("b")
	w.Touched("c")
	later := time.Now().Add(time.Hour)
	paths, created, all := w.due(later)
	if !slices.Equal(paths, []string{"a", "b", "c", "tmp"}) || !slices.Equal(created, []string{"a", "b"}) || all {
		t.Errorf("due = %q, %q, %t", paths, created, all)
	}
	w.Touched("a")
	if _, created, _ := w.due(later); len(created) > 0 {
		t.Errorf("new again: %q", created)
	}
	w.Everything()
	w.Created("a")
	if _, _, all := w.due(later); !all {
		t.Error("not everything is due")
	}
	w.Touched("a")
	if _, created, _ := w.due(later); len(created) > 0 {
		t.Errorf("new although everything was scanned: %q", created)
	}
}
