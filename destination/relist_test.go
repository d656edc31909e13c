package destination_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"lockstep/destination"
)

// TestRelist: a Source without a Change List changes while it is read. What its
// list explains when it is read again is no failure.
func TestRelist(t *testing.T) {
	t.Parallel()
	for name, st := range map[string]style{
		"list": {noChanges: true}, "index": {noChanges: true, listParts: 3}, "no validators": {noChanges: true, noETag: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, st)
			for i := range 10 {
				s.put(fmt.Sprintf("/d/f%d", i), fmt.Sprintf("content %d", i))
			}
			m := newMirror(t, s)
			m.mustSync()
			for i := range 10 {
				s.put(fmt.Sprintf("/d/f%d", i), fmt.Sprintf("more content %d", i))
			}
			s.put("/d/new", "not yet held")
			var mu sync.Mutex
			changes := 0
			s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				mu.Lock()
				defer mu.Unlock()
				if strings.HasPrefix(r.URL.Path, "/d/") && changes < 2 {
					changes++
					s.put(r.URL.Path, fmt.Sprintf("changed while it was read, %d", changes))
					if changes == 1 {
						s.del("/d/new")
						s.del("/d/f9")
					}
				}
				return false
			})
			r, err := m.sync()
			if err != nil || r.Failed != 0 || len(r.Failures) != 0 {
				t.Fatalf("Sync: %v\n%+v", err, r)
			}
			m.same()
		})
	}
}

// TestRelistFails: what stays wrong is a failure after two readings, and after one
// if the list is unchanged.
func TestRelistFails(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		grows bool
		lists int
	}{
		"list as it was": {false, 2},    // once to see that
		"list changes":   {true, 1 + 4}, // each time once to see that
	} {
		s := newSite(t, style{noChanges: true})
		s.put("/x", "content")
		s.put("/y", "content")
		n := 0
		s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
			switch r.URL.Path {
			case "/y":
				_, _ = io.WriteString(w, "something else") // the client finds out
				return true
			case "/rs/resourcelist.xml":
				if n++; tt.grows {
					s.put(fmt.Sprint("/new", n), "x")
				}
			}
			return false
		})
		m := newMirror(t, s)
		r, err := m.sync()
		if !errors.Is(err, destination.ErrIncomplete) || r.Failed != 1 || len(r.Failures) != 1 || n != tt.lists {
			t.Errorf("%s: %v, %d readings, want %d\n%+v", name, err, n, tt.lists, r)
		}
		if r.Unchanged != 0 {
			t.Errorf("%s: counted twice: %+v", name, r)
		}
	}
}
