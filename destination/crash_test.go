package destination_test

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"syscall"
	"testing"

	"lockstep/blob"
	"lockstep/blob/faultfs"
	"lockstep/destination/journaltest"
)

// faultPlaces yields the numbers of the writes that are to fail, without end.
func faultPlaces() iter.Seq[int] {
	return func(yield func(int) bool) {
		for at := 1 + rand.IntN(*faultStep); yield(at); at += *faultStep {
		}
	}
}

// TestFault lets writes fail in turn: because the process was killed, the power was
// cut, the disk is full or one write failed. The next run makes the mirror exact.
func TestFault(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		faults *faultfs.Faults
	}{
		{"kill", &faultfs.Faults{Mode: faultfs.Killed}},
		{"power cut", &faultfs.Faults{Mode: faultfs.PowerCut}},
		{"full disk", &faultfs.Faults{Err: syscall.ENOSPC}},
		{"one write", &faultfs.Faults{Err: syscall.EIO, Count: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for at := range faultPlaces() {
				if done := faultAt(t, &faultfs.Faults{At: at, Err: tt.faults.Err, Count: tt.faults.Count, Mode: tt.faults.Mode}); done {
					return
				}
			}
		})
	}
}

// faultAt runs a short history with one fault in it, and reports whether the fault
// did not occur.
func faultAt(t *testing.T, f *faultfs.Faults) (done bool) {
	t.Helper()
	s := newSite(t, style{})
	defer s.srv.Close()
	m := newMirror(t, s)
	dir, err := blob.NewDir(m.dir, blob.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	m.opts.MaxDelete, m.opts.Jobs = 100, 2
	plain, mem := m.store, m.journal
	m.store, m.journal = &faultfs.Dir{Dir: dir, Faults: f}, &journaltest.Faulty{Journal: mem, Faults: f}

	for i := range 6 {
		s.put(fmt.Sprintf("/d/f%d", i), fmt.Sprint("one ", i))
	}
	_, err1 := m.sync()
	s.put("/d/f0", "two")
	s.put("/d/f1", "two, and longer")
	s.put("/new/f", "new")
	s.del("/d/f2")
	s.del("/d/f3")
	s.put("/d/f3/below", "a directory now")
	_, err2 := m.sync()
	if f.Steps() < f.At {
		if err1 != nil || err2 != nil {
			t.Fatalf("without a fault: %v, %v", err1, err2)
		}
		return true
	}
	if err1 == nil && err2 == nil && f.Count == 0 {
		t.Fatalf("fault %d: no error", f.At)
	}
	m.store, m.journal = plain, mem
	r, err := m.sync()
	if err != nil {
		t.Fatalf("fault %d: next run: %v\n%+v", f.At, err, r)
	}
	m.same()
	if a := m.audit(); !a.InSync || a.Foreign > 0 {
		t.Fatalf("fault %d: %+v", f.At, a)
	}
	return false
}
