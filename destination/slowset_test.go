package destination_test

import (
	"bytes"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/destination"
)

// drips answers path with text, byte for byte, until done; what drips first is what of text follows at.
func drips(s *site, path, at string, text func() string, done *atomic.Bool) {
	inner := s.fault
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != path {
			return inner != nil && inner(w, r)
		}
		begin, end, _ := strings.Cut(text(), at)
		_, _ = w.Write([]byte(begin))
		pad := bytes.Repeat([]byte(" "), 1)
		for ; !done.Load() && r.Context().Err() == nil; time.Sleep(5 * time.Millisecond) {
			_, _ = w.Write(pad)
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = w.Write([]byte(at + end))
		return true
	})
}

// TestSlowSet: a set whose documents or resources arrive byte for byte does not delay another one, and is brought
// into step when that one is.
func TestSlowSet(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{"list": "/rs/resourcelist.xml", "resource": "/slow"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, style{noChanges: true, noHash: true})
			s.put("/a", "one")
			s.put("/b", "two")
			s.withSlowSet("/other")
			if name == "resource" {
				s.put("/slow", "x")
			}
			var other atomic.Bool
			s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != "/other" {
					return false
				}
				other.Store(true)
				_, _ = w.Write([]byte("other"))
				return true
			})
			text := func() string { return "x" }
			if name == "list" {
				s.mu.Lock()
				list, _ := s.document(path)
				s.mu.Unlock()
				text = func() string { return list }
			}
			drips(s, path, map[string]string{"list": "<url>", "resource": "x"}[name], text, &other)
			m := newMirror(t, s)
			d := m.destination()
			d.SetPatience(200 * time.Millisecond)
			r, err := d.Sync(t.Context(), m.address())
			if err != nil {
				t.Fatalf("%v: %+v", err, r)
			}
			all := int64(3)
			if name == "resource" {
				all++
			}
			var sum int64
			for i := range r.BySet {
				sum += r.BySet[i].Created
				if !r.BySet[i].Complete {
					t.Errorf("%+v", r.BySet[i])
				}
			}
			if r.Created != all || sum != all || r.Failed != 0 || len(r.BySet) != 2 || !r.Complete {
				t.Errorf("%+v", r)
			}
			if len(r.Warnings) == 0 || !strings.Contains(r.Warnings[0], "other sets go first") {
				t.Errorf("warnings %q", r.Warnings)
			}
			var done int
			for _, e := range m.events {
				if e.Kind == destination.EventDone {
					done++
				}
			}
			if done != 2 {
				t.Errorf("%d results of sets", done)
			}
		})
	}
}
