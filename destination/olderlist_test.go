package destination_test

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	"lockstep/destination"
)

// TestOlderListKeepsWhatIsPending: a run in which a resource cannot be fetched, and the Change List cannot be read
// again, takes nothing from a Resource List that is older than the changes applied: what failed stays pending, and
// what was deleted stays so.
func TestOlderListKeepsWhatIsPending(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		noAt, later bool
	}{
		{"of an earlier time", false, false},
		{"of an unknown time", true, false},
		{"of an earlier time, in a later run", false, true},
		{"of an unknown time, in a later run", true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, style{noAt: tt.noAt})
			for _, path := range []string{"/a", "/b", "/gone"} {
				s.put(path, "old content of "+path)
			}
			m := newMirror(t, s)
			m.mustSync()
			s.put("/more", "so that the list is a newer one")
			s.frozen("/rs/resourcelist.xml")
			s.put("/b", "new content of /b")
			s.del("/gone")
			var unreadable atomic.Bool // the Change List, when it has been read once
			s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				switch {
				case r.URL.Path == "/gone" && !tt.noAt: // its deletion is announced, not carried out
					_, _ = w.Write([]byte("old content of /gone"))
				case r.URL.Path == "/b", r.URL.Path == "/rs/changelist.xml" && unreadable.Swap(unreadable.Load() || !tt.later):
					http.NotFound(w, r)
				default:
					return false
				}
				return true
			})
			incomplete := func() {
				if r, err := m.sync(); !errors.Is(err, destination.ErrIncomplete) || r.Failed == 0 && !tt.later {
					t.Errorf("%v: %s", err, counts(r))
				}
			}
			incomplete()
			if tt.later {
				unreadable.Store(true)
				incomplete()
			}
			s.setFault(nil)
			m.mustSync()
		})
	}
}
