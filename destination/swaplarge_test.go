package destination_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"lockstep/blob"
	"lockstep/blob/faultfs"
	"lockstep/destination"
	"lockstep/destination/journaltest"
)

// By default, few more than one step of a change of places removes.
var (
	swapFiles = flag.Int("swap.files", 1030, "files of a directory that becomes a file and back")
	swapKills = flag.Int("swap.kills", 2, "how often such a change is ended at a random write")
)

// become makes a file of the directory /a, or a directory of n files of the file.
func (s *site) become(directory bool, n int, text string) {
	if directory {
		s.del("/a")
	}
	for i := range n {
		if path := fmt.Sprintf("/a/%d/%d", i%9, i); directory {
			s.put(path, text)
		} else {
			s.del(path)
		}
	}
	if !directory {
		s.put("/a", text)
	}
	s.later()
}

// TestSwapBeyondOneStep has a directory of more files than one step removes become
// a file, and that a directory of more files than one step creates: each in one
// run, with all files in their own places, and not without consent.
func TestSwapBeyondOneStep(t *testing.T) {
	t.Parallel()
	for name, st := range map[string]style{"changes": {}, "lists": {noChanges: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, st)
			m := newMirror(t, s)
			s.put("/keep", "x")
			s.become(true, *swapFiles, "one of many")
			m.mustSync()
			before := m.files()
			s.become(false, *swapFiles, "the only one")
			if r, err := m.sync(); !errors.Is(err, destination.ErrRefused) || r.Deleted > 0 || len(m.files()) != len(before) {
				t.Fatalf("without consent: %v, %d deleted, %d of %d files left; want it refused", err, r.Deleted, len(m.files()), len(before))
			}
			m.opts.MaxDelete = 100
			m.mustSync()
			m.ownPlaces()
			s.become(true, 100, "one of a hundred")
			m.mustSync()
			m.ownPlaces()
			if a := m.audit(); !a.InSync || a.Foreign > 0 {
				t.Errorf("%+v", a)
			}
		})
	}
}

// TestSwapBeyondOneStepKilled ends such runs at random writes: the next makes all
// exact, with files in their own places.
func TestSwapBeyondOneStepKilled(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	m := newMirror(t, s)
	m.opts.MaxDelete = 100
	s.put("/keep", "x")
	s.become(true, *swapFiles, "at first")
	m.mustSync()
	for round := range *swapKills {
		s.become(round%2 == 1, *swapFiles, fmt.Sprint("round ", round))
		dir, err := blob.NewDir(m.dir, blob.DirOptions{})
		if err != nil {
			t.Fatal(err)
		}
		f := &faultfs.Faults{At: 1 + rand.IntN(40)}
		plain, journal := m.store, m.journal
		m.store, m.journal = &faultfs.Dir{Dir: dir, Faults: f}, &journaltest.Faulty{Journal: journal, Faults: f}
		_, crash := m.sync()
		dir.Close()
		m.store, m.journal = plain, journal
		if _, err := m.sync(); err != nil {
			t.Fatalf("round %d, after write %d failed (%v): %v", round, f.At, crash, err)
		}
		m.same()
		m.ownPlaces()
		if a := m.audit(); !a.InSync || a.Foreign > 0 {
			t.Fatalf("round %d, after write %d failed: %+v", round, f.At, a)
		}
	}
}
