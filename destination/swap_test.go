package destination_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lockstep/blob"
	"lockstep/blob/faultfs"
	"lockstep/destination"
	"lockstep/destination/filename"
	"lockstep/destination/journal"
	"lockstep/destination/journaltest"
	"lockstep/storage/sqlite"
)

var swapLives = flag.Int("swap.lives", 10, "how many lives TestSwapHistories leads")

// ownPlaces checks that every file of the mirror has the name that its URI has
// where nothing is in its way.
func (m *mirror) ownPlaces() {
	m.t.Helper()
	paths, err := filename.New(filename.Options{Origin: m.site.srv.URL})
	if err != nil {
		m.t.Fatal(err)
	}
	for path := range m.files() {
		uri, err := paths.URI(path)
		if err != nil {
			m.t.Fatal(err)
		}
		if own, err := paths.Path(uri); err != nil || own != path {
			m.t.Errorf("%s has the file %q, its own place is %q (%v)", uri, path, own, err)
		}
	}
}

// TestSwapOwnPlace turns files into directories and back: they have their own
// places after one run.
func TestSwapOwnPlace(t *testing.T) {
	t.Parallel()
	for name, st := range map[string]style{"changes": {}, "lists": {noChanges: true}, "sitemap": {sitemap: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, st)
			m := newMirror(t, s)
			m.opts.MaxDelete, m.opts.Delete = 100, destination.DeleteApply
			s.put("/a", "file")
			s.put("/keep", "x")
			s.later()
			m.mustSync()
			for round := range 2 {
				s.del("/a")
				for i := range 40 {
					s.put(fmt.Sprintf("/a/%d", i), fmt.Sprint("below ", i, round))
				}
				s.put("/a/deep/er", "deeper")
				s.later()
				m.mustSync()
				m.ownPlaces()
				for i := range 40 {
					s.del(fmt.Sprintf("/a/%d", i))
				}
				s.del("/a/deep/er")
				s.put("/a", fmt.Sprint("file again ", round))
				s.later()
				m.mustSync()
				m.ownPlaces()
			}
			if a := m.audit(); !a.InSync || a.Foreign > 0 {
				t.Errorf("%+v", a)
			}
		})
	}
}

// TestSwapKilled lets every write of runs in which a file becomes a directory and
// a directory a file be the last: no crash leaves a place with neither the old nor
// the new state for the next run to lose, and that run makes all exact, with files
// in their own places.
func TestSwapKilled(t *testing.T) {
	t.Parallel()
	for at := range faultPlaces() {
		s := newSite(t, style{})
		m := newMirror(t, s)
		m.opts.MaxDelete, m.opts.Jobs = 100, 2
		for _, path := range []string{"/a", "/b/1", "/b/2", "/b/c/3", "/x"} {
			s.put(path, "old "+path)
		}
		m.mustSync()
		for _, path := range []string{"/a", "/b/1", "/b/2", "/b/c/3"} {
			s.del(path)
		}
		for _, path := range []string{"/a/1", "/a/2", "/b"} {
			s.put(path, "new "+path)
		}
		dir, err := blob.NewDir(m.dir, blob.DirOptions{})
		if err != nil {
			t.Fatal(err)
		}
		f := &faultfs.Faults{At: at}
		plain, mem := m.store, m.journal
		m.store, m.journal = &faultfs.Dir{Dir: dir, Faults: f}, &journaltest.Faulty{Journal: mem, Faults: f}
		_, err = m.sync()
		dir.Close()
		if f.Steps() < at {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
		m.store, m.journal = plain, mem
		if _, err := m.sync(); err != nil {
			t.Fatalf("write %d: %v", at, err)
		}
		m.same()
		m.ownPlaces()
		if a := m.audit(); !a.InSync || a.Foreign > 0 {
			t.Fatalf("write %d: %+v", at, a)
		}
		s.srv.Close()
	}
}

// TestSwapFinished has a run killed between the removal of a file and the
// directory that takes its place: the next run finishes the step with the content
// that is here.
func TestSwapFinished(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	m := newMirror(t, s)
	m.opts.MaxDelete = 100
	s.put("/a", "old")
	s.put("/x", "x")
	m.mustSync()
	s.del("/a")
	s.put("/a/1", "new")
	dir, err := blob.NewDir(m.dir, blob.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	plain := m.store
	m.store = &killedStore{Dir: dir}
	if _, err := m.sync(); err == nil {
		t.Fatal("the run should have ended between the two")
	}
	dir.Close()
	m.store = plain
	m.mustSync()
	m.ownPlaces()
	if n := s.got("/a/1"); n != 0 {
		t.Errorf("the content was fetched again (%d requests)", n)
	}
}

// A killedStore dies at the first Commit after a Remove.
type killedStore struct {
	*blob.Dir
	removed bool
}

func (s *killedStore) Remove(ctx context.Context, names ...string) error {
	s.removed = true
	return s.Dir.Remove(ctx, names...)
}

func (s *killedStore) Commit(ctx context.Context, ws ...blob.Writer) error {
	if s.removed {
		for _, w := range ws {
			_ = w.(blob.Keeper).Keep() // as a kill leaves it
		}
		return &blob.CommitError{Name: ws[0].Name(), Err: fmt.Errorf("%w: %w", faultfs.ErrCrash, syscall.EIO)}
	}
	return s.Dir.Commit(ctx, ws...)
}

// TestSwapHistories leads random lives in which names are files and directories
// in turn, with crashes at random writes, and with deletions that are kept for a
// while: in the end every file has its own place.
func TestSwapHistories(t *testing.T) {
	t.Parallel()
	names := []string{"/a", "/a/b", "/a/b/c", "/a/d", "/e", "/e/f", "/e/f/g", "/h"}
	for seed := range uint64(*swapLives) {
		r := rand.New(rand.NewPCG(seed, 15))
		s := newSite(t, style{noChanges: seed%4 == 3})
		m := newMirror(t, s)
		if seed%2 == 0 {
			db, err := sqlite.Open(filepath.Join(t.TempDir(), "j.db"))
			if err != nil {
				t.Fatal(err)
			}
			m.journal = db.Journal()
			t.Cleanup(func() { db.Close() })
		}
		m.opts.MaxDelete = 100
		plain, journal := m.store, m.journal
		s.put("/z", "z")
		for range 12 {
			for range 1 + r.IntN(4) {
				if name := names[r.IntN(len(names))]; s.has(name) {
					s.del(name)
				} else {
					for _, other := range names { // no file beside a directory of its name
						if strings.HasPrefix(other, name+"/") || strings.HasPrefix(name, other+"/") {
							s.del(other)
						}
					}
					s.put(name, fmt.Sprint(name, r.Uint32()))
				}
			}
			s.later()
			dir, err := blob.NewDir(m.dir, blob.DirOptions{})
			if err != nil {
				t.Fatal(err)
			}
			f := &faultfs.Faults{At: 1 + r.IntN(20)}
			m.store, m.journal = &faultfs.Dir{Dir: dir, Faults: f}, &journaltest.Faulty{Journal: journal, Faults: f}
			m.opts.Delete = ""
			if r.IntN(4) == 0 {
				m.opts.Delete = destination.DeleteKeep
			}
			_, _ = m.sync() // it may crash
			dir.Close()
			m.store, m.journal = plain, journal
		}
		m.opts.Delete, m.opts.Baseline = "", true
		if _, err := m.sync(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		m.opts.Baseline = false
		m.same()
		m.ownPlaces()
		if a := m.audit(); !a.InSync || a.Foreign > 0 {
			t.Fatalf("seed %d: %+v", seed, a)
		}
		s.srv.Close()
	}
}

// TestStateOfAnotherMirrorIsNotPlanted: no resource gets a file in a directory of
// our state's name, at any depth; files that an earlier version stored in one move
// to their own places, without being fetched.
func TestStateOfAnotherMirrorIsNotPlanted(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	m := newMirror(t, s)
	s.put("/a/.lockstep/state.db", "planted")
	s.put("/a/.LOCKSTEP/tmp/x", "planted, too")
	s.put("/a/b", "b")
	m.mustSync()
	m.noStateBelow()
	for h, err := range m.journal.Held(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		earlier := strings.ReplaceAll(h.Path, "%~=2E", ".")
		if earlier == h.Path {
			continue
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(m.path(earlier)), 0o755), os.Rename(m.path(h.Path), m.path(earlier))); err != nil {
			t.Fatal(err)
		}
		h.Path = earlier
		if err := m.journal.Record(t.Context(), journal.Batch{Put: []journal.Held{h}, Save: map[string][]byte{"marked": []byte(`{"known":true}`)}}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := m.sync()
	if err != nil || r.Moved != 2 || s.bytes() != 0 {
		t.Errorf("%v, moved %d, %d bytes were sent", err, r.Moved, s.bytes())
	}
	m.noStateBelow()
	m.ownPlaces()
	if r := m.mustSync(); r.Moved != 0 {
		t.Errorf("the next run moved %d", r.Moved)
	}
}

// noStateBelow checks that there is no directory of our state's name below another.
func (m *mirror) noStateBelow() {
	m.t.Helper()
	for _, name := range []string{"a/.lockstep", "a/.LOCKSTEP"} {
		if _, err := os.Lstat(m.path(name)); err == nil {
			m.t.Errorf("%s is there", name)
		}
	}
}

func (s *site) has(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.files[path]
	return ok
}

// TestMarkedMovesHome has resources under marked names, as earlier versions left
// them, move to their own places when these are free, without being fetched.
func TestMarkedMovesHome(t *testing.T) {
	t.Parallel()
	for _, crash := range []bool{false, true} {
		s := newSite(t, style{})
		m := newMirror(t, s)
		writeFile(t, m.path("a"), "the user's") // in the way
		if err := os.MkdirAll(m.path("b/user"), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/a/1", "/a/2", "/b", "/x"} {
			s.put(path, "content of "+path)
		}
		if _, err := m.sync(); err != nil {
			t.Fatal(err)
		}
		if f := m.files(); f["a%~+/1"] == "" || f["b%~-"] == "" {
			t.Fatalf("files %v", f)
		}
		m.mustSyncBeside()
		if err := errors.Join(os.Remove(m.path("a")), os.RemoveAll(m.path("b"))); err != nil {
			t.Fatal(err)
		}
		if crash {
			for at := 1; at < 6; at++ {
				dir, err := blob.NewDir(m.dir, blob.DirOptions{})
				if err != nil {
					t.Fatal(err)
				}
				f := &faultfs.Faults{At: at}
				plain, mem := m.store, m.journal
				m.store, m.journal = &faultfs.Dir{Dir: dir, Faults: f}, &journaltest.Faulty{Journal: mem, Faults: f}
				_, _ = m.sync()
				dir.Close()
				m.store, m.journal = plain, mem
			}
		}
		r := m.mustSync()
		m.ownPlaces()
		if !crash && r.Moved != 3 || s.bytes() != 0 {
			t.Errorf("moved %d, %d bytes", r.Moved, s.bytes())
		}
		if a := m.audit(); !a.InSync || a.Foreign > 0 {
			t.Errorf("%+v", a)
		}
		if r := m.mustSync(); r.Moved+r.Updated+r.Created != 0 {
			t.Errorf("the next run: %+v", r)
		}
	}
}
