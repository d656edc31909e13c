package destination_test

import (
	"bytes"
	"errors"
	"net/http"
	"testing"

	"lockstep/destination"
)

// Where the last of the changes cannot be read, the earlier ones are not taken for
// the current state of a resource.
func TestPartialChanges(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{dumpStyle: dumpStyle{dump: true, changeDump: true, noList: true, noChangeList: true, each: 1}})
	m := newMirror(t, s)
	s.put("/a", "version one")
	s.put("/b", "beside it")
	s.makeDump()
	s.put("/a", "version two")
	s.put("/a", "version three")
	m.mustSync()

	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		s.mu.Lock()
		gone := bytes.Contains(s.dumps.files[r.URL.Path], []byte("version three"))
		s.mu.Unlock()
		if gone {
			http.NotFound(w, r)
		}
		return gone
	})
	m.opts.Baseline = true
	if r, err := m.sync(); !errors.Is(err, destination.ErrIncomplete) {
		t.Fatalf("Sync = %v, %s", err, counts(r))
	}
	if got := m.files()["a"]; got != "version three" {
		t.Errorf("the mirror went back to %q", got)
	}
	s.setFault(nil)
	m.opts.Baseline = false
	m.mustSync()
}
