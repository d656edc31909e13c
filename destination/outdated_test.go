package destination_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/destination"
)

// A pending resource that its Source no longer has, and of which no change says that it is
// gone, is settled by its list: the Source's state was restored from an older copy, or it does
// not report deletions. The same holds for content that is not as an earlier change
// described it.
func TestOutdated(t *testing.T) {
	t.Parallel()
	for _, held := range []bool{false, true} {
		for name, then := range map[string]func(s *site){
			"gone":      func(s *site) { delete(s.files, "/x") },
			"different": func(s *site) { s.files["/x"] = siteFile{data: []byte("another"), mod: s.now.Truncate(time.Second)} },
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := newSite(t, style{})
				m := newMirror(t, s)
				s.put("/y", "y")
				s.put("/z", "z")
				if held {
					s.put("/x", "first")
				}
				m.mustSync()
				s.put("/x", "described")
				s.put("/y", "new")
				s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
					if r.URL.Path == "/x" {
						http.NotFound(w, r)
					}
					return r.URL.Path == "/x"
				})
				if r, err := m.sync(); err == nil || r.Failed != 1 {
					t.Fatalf("%d failed: %v", r.Failed, err)
				}
				s.setFault(nil)
				s.mu.Lock()
				then(s) // and no change says so
				s.mu.Unlock()
				r := m.mustSync()
				if r.Failed != 0 || len(r.Failures) != 0 {
					t.Errorf("%d failed: %v", r.Failed, r.Failures)
				}
				m.same()
				if r := m.mustSync(); r.Mode != "none" {
					t.Errorf("then %s", r.Mode)
				}
			})
		}
	}
}

// The list of a Source that names what it does not have is read again after longer and
// longer times.
func TestOutdatedForever(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	m := &clocked{newMirror(t, s), time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)}
	s.put("/x", "x")
	s.put("/y", "y")
	missing := func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/x" {
			http.NotFound(w, r)
		}
		return r.URL.Path == "/x"
	}
	s.setFault(missing)
	lists := 0
	s.rewrite = func(path, text string) string {
		if path == "/rs/resourcelist.xml" {
			lists++
			text = strings.Replace(text, "</urlset>", strings.Repeat(" ", lists)+"</urlset>", 1)
		}
		return text
	}
	runs := func(n int) (read int) {
		for range n {
			m.now = m.now.Add(time.Hour)
			r, err := m.sync()
			if err == nil || r.Failed != 1 {
				t.Fatalf("%d failed: %v", r.Failed, err)
			}
			if s.got("/rs/resourcelist.xml") > 0 {
				read++
			}
		}
		return read
	}
	if n := runs(200); n < 5 || n > 45 {
		t.Errorf("the list was read %d times in 200 hours", n)
	}
	s.setFault(nil)
	if _, err := m.sync(); err != nil {
		t.Fatal(err)
	}
	m.same()
	s.put("/x", "new")
	s.setFault(missing)
	if n := runs(2); n != 1 {
		t.Errorf("the list was read %d times after the resource was there", n)
	}
}

// restore gives the Source the files and the history that it had, and then other changes.
func (s *site) restore(files map[string]siteFile, log []siteEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files, s.log = maps.Clone(files), slices.Clone(log)
}

// A Source returns to an older state, and the resource of its newest event changes again:
// that the history is another one only shows in that it does not begin as it did.
func TestRewritten(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	m := newMirror(t, s)
	s.put("/y", "y")
	s.put("/z", "z")
	s.forget(2)
	m.mustSync()
	files, log := maps.Clone(s.files), slices.Clone(s.log)
	s.put("/x", "soon forgotten")
	s.put("/y", "new")
	wantCounts(t, m.mustSync(), "incremental created=1 updated=1 deleted=0 unchanged=0 failed=0 refused=0")
	s.restore(files, log)
	s.put("/y", "newer")
	wantCounts(t, m.mustSync(), "baseline created=0 updated=1 deleted=1 unchanged=1 failed=0 refused=0")

	s.advance(time.Hour)
	s.put("/z", "second")
	s.put("/y", "second")
	m.mustSync()
	s.restore(files, log)
	s.put("/y", "third")
	before := m.files()
	if _, err := m.sync(); !errors.Is(err, destination.ErrRefused) {
		t.Errorf("a resource is older there than here: %v", err)
	}
	if d := cmp.Diff(before, m.files()); d != "" {
		t.Error(d)
	}
}

// A Source that lists only the newest change of each resource is compared a few times,
// until that is known of it.
func TestNewestChangesOnly(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	m := newMirror(t, s)
	for _, name := range []string{"/a", "/b", "/c", "/d"} {
		s.put(name, "first")
	}
	m.mustSync()
	compared := 0
	for i := range 20 {
		for _, name := range []string{"/b", "/a"} {
			s.put(name, fmt.Sprint(i))
			s.mu.Lock()
			last := len(s.log) - 1
			s.log = slices.DeleteFunc(s.log, func(e siteEvent) bool { return e.path == name && e.at.Before(s.log[last].at) })
			s.mu.Unlock()
		}
		if r := m.mustSync(); r.Mode == destination.ModeBaseline {
			compared++
		}
	}
	if compared == 0 || compared > 3 {
		t.Errorf("compared %d times", compared)
	}
}
