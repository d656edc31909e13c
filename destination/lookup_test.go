package destination_test

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"lockstep/destination"
)

// says makes the Source state another kind for the last change of some resources;
// with "" it states none.
func (s *site) says(word string, names ...string) {
	attr := ""
	if word != "" {
		attr = fmt.Sprintf(` change="%s"`, word)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rewrite = func(path, text string) string {
		if !strings.HasPrefix(path, "/rs/changelist.xml") && path != "manifest.xml" {
			return text
		}
		for _, name := range names {
			text = spoil(text, name, func(e, _ string) string { return aChange.ReplaceAllString(e, attr) })
		}
		return text
	}
}

var aChange = regexp.MustCompile(` change="\w+"`)

// TestUnknownChange: after a change of an unknown kind the resource itself is
// requested: content is an update, 404 and 410 are deletions.
func TestUnknownChange(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"moved", "removed", "undeleted", "x", ""} {
		for name, st := range map[string]style{"list": {}, "dump": {dumpStyle: dumpStyle{changeDump: true, noChangeList: true}}} {
			t.Run(name+"/"+word, func(t *testing.T) {
				t.Parallel()
				s, m := spoiledSite(t, st)
				s.says(word, "/d")
				m.mustSync()
				s.put("/a", "new a")
				s.put("/new", "new")
				s.put("/gone", "gone")
				s.del("/gone")
				s.del("/b")
				s.del("/c")
				s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
					if r.URL.Path == "/c" {
						w.WriteHeader(http.StatusGone)
					}
					return r.URL.Path == "/c"
				})
				s.says(word, "/a", "/b", "/c", "/gone", "/new", "/d")
				r := m.mustSync()
				wantCounts(t, r, "incremental created=1 updated=1 deleted=2 unchanged=0 failed=0 refused=0")
				wantCounts(t, m.mustSync(), "none created=0 updated=0 deleted=0 unchanged=0 failed=0 refused=0")
			})
		}
	}
}

// TestUnknownChangePending: as long as the resource's own address does not
// answer, the change stays pending.
func TestUnknownChangePending(t *testing.T) {
	t.Parallel()
	s, m := spoiledSite(t, style{})
	m.mustSync()
	s.del("/b")
	s.says("removed", "/b")
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/b" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return r.URL.Path == "/b"
	})
	for range 2 {
		if r, err := m.sync(); !errors.Is(err, destination.ErrIncomplete) || m.files()["b"] != "b" {
			t.Fatalf("Sync: %v\n%+v", err, r)
		}
	}
	s.setFault(nil)
	if r := m.mustSync(); r.Deleted != 1 {
		t.Errorf("%+v", r)
	}
}

// TestUnknownChangeGuard: deletions found this way are guarded like others, and the
// resources are requested again after consent: what is there again stays.
func TestUnknownChangeGuard(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	var names []string
	for i := range 40 {
		names = append(names, fmt.Sprintf("/f%d", i))
		s.put(names[i], "content")
	}
	m := newMirror(t, s)
	m.mustSync()
	for _, name := range names[:30] {
		s.del(name)
	}
	s.says("dropped", names[:30]...)
	for range 2 {
		r, err := m.sync()
		if !errors.Is(err, destination.ErrRefused) || r.Deleted != 0 || len(m.files()) != 40 {
			t.Fatalf("Sync: %v\n%+v", err, r)
		}
	}
	s.put("/f3", "again")
	s.mu.Lock()
	s.log = s.log[:len(s.log)-1] // without a word
	s.mu.Unlock()
	m.opts.MaxDelete = 100
	if r := m.mustSync(); r.Deleted != 29 {
		t.Errorf("%+v", r)
	}
	m.opts.MaxDelete = 0
	m.mustSync()
}

// TestUnknownChangeKept: with --delete keep nothing is deleted, and nothing
// stays pending for it.
func TestUnknownChangeKept(t *testing.T) {
	t.Parallel()
	s, m := spoiledSite(t, style{})
	m.opts.Delete = destination.DeleteKeep
	m.mustSync()
	s.del("/b")
	s.says("removed", "/b")
	for range 2 {
		if r, err := m.sync(); err != nil || m.files()["b"] != "b" || r.Failed != 0 {
			t.Fatalf("Sync: %v\n%+v", err, r)
		}
	}
}
