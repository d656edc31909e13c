package destination_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/destination"
	"lockstep/destination/journal"
	"lockstep/storage/sqlite"
)

// TestReclaimLostState takes over, without a flag, the files of a mirror whose
// state is lost, and fetches nothing of what is right.
func TestReclaimLostState(t *testing.T) {
	t.Parallel()
	for name, st := range map[string]style{"changes": {}, "lists": {noChanges: true}, "parts": {listParts: 3}, "dump": {dumpStyle: dumpStyle{dump: true}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := localSite(t, st, 10)
			s.put("/a%20b", "odd")
			s.later()
			m := newMirror(t, s)
			m.mustSync()
			m.journal = new(journal.Mem)
			r := m.mustSync()
			if r.By.Adopted != 11 || r.Created != 0 || s.bytes() != 0 {
				t.Errorf("%+v, %d bytes", r, s.bytes())
			}
			if a := m.audit(); !a.InSync || a.Foreign > 0 {
				t.Errorf("%+v", a)
			}
			s.del("/d3/f") // they are the mirror's own from then on
			s.later()
			m.mustSync()
		})
	}
}

// TestReclaimDiffers leaves alone, and names, what differs in a mirror whose state
// is lost. The rest is taken over.
func TestReclaimDiffers(t *testing.T) {
	t.Parallel()
	s := localSite(t, style{}, 10)
	m := newMirror(t, s)
	m.mustSync()
	m.journal = new(journal.Mem)
	writeFile(t, m.path("d3/f"), "the user's")
	if err := os.Remove(m.path("d4/f")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r, err := m.sync()
		if !errors.Is(err, destination.ErrIncomplete) || r.Failed != 1 || !strings.Contains(fmt.Sprint(r.Failures), "--adopt --replace") {
			t.Errorf("%v, %+v", err, r)
		}
		if f := m.files(); f["d3/f"] != "the user's" || f["d4/f"] != "content of 4" {
			t.Errorf("files %v", f)
		}
	}
	m.opts.Adopt, m.opts.Replace = true, true
	m.opts.Baseline = true
	m.mustSync()
}

// TestReclaimStranger takes nothing over in a directory that contains a file the
// Source does not list: it may belong to another program.
func TestReclaimStranger(t *testing.T) {
	t.Parallel()
	s := localSite(t, style{}, 5)
	m := newMirror(t, s)
	m.mustSync()
	m.journal = new(journal.Mem)
	writeFile(t, m.path("notes"), "the user's")
	r, err := m.sync()
	if !errors.Is(err, destination.ErrIncomplete) || r.By.Adopted != 0 || r.Failed != 5 || !strings.Contains(fmt.Sprint(r.Failures), "--adopt") {
		t.Errorf("%v, %+v", err, r)
	}
	m.opts.Adopt = true
	if r, err = m.sync(); err != nil || r.By.Adopted != 5 || s.bytes() != 0 {
		t.Errorf("%v, %+v", err, r)
	}
}

// TestReclaimOlderState puts a state of an earlier day back beside the files of
// today: one run makes the mirror exact, files that are right are not fetched.
func TestReclaimOlderState(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 14))
		s := localSite(t, style{noChanges: seed%3 == 1}, 12)
		s.put("/file", "a file")
		s.later()
		m := newMirror(t, s)
		m.opts.MaxDelete = 100
		state, older := filepath.Join(t.TempDir(), "state.db"), filepath.Join(t.TempDir(), "older.db")
		with := func(do func()) {
			db, err := sqlite.Open(state)
			if err != nil {
				t.Fatal(err)
			}
			m.journal = db.Journal()
			do()
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
		with(func() { m.mustSync() })
		data, err := os.ReadFile(state)
		if err == nil {
			err = os.WriteFile(older, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range 12 {
			switch path := fmt.Sprintf("/d%d/f", i); r.IntN(4) {
			case 0:
				s.put(path, fmt.Sprint("another ", i))
			case 1:
				s.del(path)
			case 2:
				s.put(path+"2", "new")
			}
		}
		s.del("/file")
		s.put("/file/below", "a directory")
		s.later()
		with(func() { m.mustSync() })
		if err := os.Rename(older, state); err != nil {
			t.Fatal(err)
		}
		with(func() {
			m.mustSync()
			if n := s.bytes(); n != 0 {
				t.Errorf("seed %d: %d bytes fetched again", seed, n)
			}
			if a := m.audit(); !a.InSync || a.Foreign > 0 {
				t.Errorf("seed %d: %+v", seed, a)
			}
			m.ownPlaces()
			m.mustSync()
		})
	}
}

// TestReclaimWithoutHashes takes over the files of a mirror whose state is lost also
// where the Source states no hashes: what it serves is compared with them, and they
// are not written again. That length and time are the same proves nothing.
func TestReclaimWithoutHashes(t *testing.T) {
	t.Parallel()
	for name, st := range map[string]style{"changes": {noHash: true}, "lists": {noHash: true, noChanges: true}, "no length": {noHash: true, noLength: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := localSite(t, st, 10)
			m := newMirror(t, s)
			m.mustSync()
			m.journal = new(journal.Mem)
			info, err := os.Stat(m.path("d3/f"))
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, m.path("d3/f"), "CONTENT of 3")
			if err := os.Chtimes(m.path("d3/f"), info.ModTime(), info.ModTime()); err != nil {
				t.Fatal(err)
			}
			before, err := os.Stat(m.path("d4/f"))
			if err != nil {
				t.Fatal(err)
			}
			for run := range 2 {
				r, err := m.sync()
				if !errors.Is(err, destination.ErrIncomplete) || r.Failed != 1 || r.Created != 0 || run == 0 && r.By.Adopted != 9 ||
					!strings.Contains(fmt.Sprint(r.Failures), "/d3/f") || !strings.Contains(fmt.Sprint(r.Failures), "remove it") {
					t.Errorf("run %d: %v, %+v", run, err, r)
				}
			}
			if f := m.files(); f["d3/f"] != "CONTENT of 3" || f["d4/f"] != "content of 4" {
				t.Errorf("files %v", f)
			}
			if after, err := os.Stat(m.path("d4/f")); err != nil || !os.SameFile(before, after) {
				t.Errorf("the file was written again: %v", err)
			}
			if err := os.Remove(m.path("d3/f")); err != nil {
				t.Fatal(err)
			}
			m.mustSync()
			m.same()
		})
	}
}

// TestReclaimWithoutHashesStranger takes nothing over without hashes, either, in a
// directory that contains a file the Source does not list.
func TestReclaimWithoutHashesStranger(t *testing.T) {
	t.Parallel()
	s := localSite(t, style{noHash: true}, 5)
	m := newMirror(t, s)
	m.mustSync()
	m.journal = new(journal.Mem)
	writeFile(t, m.path("notes"), "the user's")
	r, err := m.sync()
	if !errors.Is(err, destination.ErrIncomplete) || r.By.Adopted != 0 || r.Failed != 5 || s.bytes() != 0 {
		t.Errorf("%v, %+v, %d bytes", err, r, s.bytes())
	}
}
