package fence_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"lockstep/blob"
	"lockstep/blob/blobtest"
	"lockstep/blob/fence"
)

func holds(context.Context) error { return nil }

// TestFence: as long as no other process writes, a Store is like any other.
func TestFence(t *testing.T) {
	t.Parallel()
	blobtest.RunLimits(t, blobtest.Limits{NoResume: true}, func(t *testing.T) blob.Store {
		return fence.New(blobtest.NewConditional(), holds, func(err error) { t.Errorf("conflict: %v", err) })
	})
}

// A writing is a process that writes through a Store.
type writing struct {
	*testing.T
	store     *fence.Store
	held      error // what its lease says
	pause     func()
	conflicts int
}

func newWriting(t *testing.T, base fence.Base) *writing {
	w := &writing{T: t}
	w.store = fence.New(base, func(context.Context) error {
		err := w.held
		if w.pause != nil { // after the process has looked at its lease
			pause := w.pause
			w.pause = nil
			pause()
		}
		return err
	}, func(error) { w.conflicts++ })
	return w
}

func (w *writing) write(name, text string) error {
	w.Helper()
	b, err := w.store.Create(w.Context(), name)
	if err != nil {
		w.Fatal(err)
	}
	defer b.Close()
	if _, err := io.WriteString(b, text); err != nil {
		w.Fatal(err)
	}
	return w.store.Commit(w.Context(), b)
}

func (w *writing) read(name string) string {
	w.Helper()
	r, err := w.store.Open(w.Context(), name)
	if err != nil {
		w.Fatal(err)
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		w.Fatal(err)
	}
	return string(text)
}

func (w *writing) wants(name, text string) {
	w.Helper()
	if got := w.read(name); got != text {
		w.Errorf("%s is %q, want %q", name, got, text)
	}
}

var errLost = errors.New("the lease is lost")

// TestPaused: a process that is paused after it has looked at its lease replaces nothing that its
// successor has written, whether it knew the blob or not.
func TestPaused(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{true, false} {
		base := blobtest.NewConditional()
		first, second := newWriting(t, base), newWriting(t, base)
		if known {
			if err := first.write("list", "1"); err != nil {
				t.Fatal(err)
			}
		}
		first.pause = func() {
			if err := second.write("list", "2"); err != nil {
				t.Fatal(err)
			}
			first.held = errLost
		}
		if err := first.write("list", "late"); !errors.Is(err, blob.ErrConflict) || first.conflicts != 1 {
			t.Errorf("known %t: the paused process writes: %v, %d conflicts", known, err, first.conflicts)
		}
		second.wants("list", "2")
		if first.read("list"); !errors.Is(first.write("list", "later"), errLost) {
			t.Errorf("known %t: the paused process writes what it has read since", known)
		}
		if err := first.store.Remove(t.Context(), "list"); !errors.Is(err, errLost) {
			t.Errorf("known %t: the paused process removes: %v", known, err)
		}
		if err := second.write("list", "3"); err != nil {
			t.Errorf("known %t: the successor: %v", known, err)
		}
		second.wants("list", "3")
	}
}

// TestLate: a successor that has read a blob learns that its predecessor has written it after that.
func TestLate(t *testing.T) {
	t.Parallel()
	base := blobtest.NewConditional()
	first, second := newWriting(t, base), newWriting(t, base)
	if err := first.write("state", "1"); err != nil {
		t.Fatal(err)
	}
	first.pause = func() { second.wants("state", "1") }
	if err := first.write("state", "late"); err != nil {
		t.Fatal(err)
	}
	second.wants("state", "late")
	if err := second.write("state", "2"); !errors.Is(err, blob.ErrConflict) || second.conflicts != 1 {
		t.Errorf("the successor replaces what it has not read first: %v", err)
	}
	second.wants("state", "late")
	if err := second.write("state", "2"); err != nil {
		t.Errorf("after it has read it: %v", err)
	}
}
