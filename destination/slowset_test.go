package destination_test

import (
	"bytes"
	"context"
	"errors"
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
			var sum, bytes int64
			var elapsed float64
			for i := range r.BySet {
				sum += r.BySet[i].Created
				bytes, elapsed = bytes+r.BySet[i].Bytes, elapsed+r.BySet[i].Elapsed
				if !r.BySet[i].Complete {
					t.Errorf("%+v", r.BySet[i])
				}
			}
			if elapsed > r.Elapsed || elapsed < 0.2 || bytes > r.Bytes {
				t.Errorf("the sets have taken %v s of %v, %d bytes of %d", elapsed, r.Elapsed, bytes, r.Bytes)
			}
			if r.Created != all || r.Unchanged != 0 || sum != all || r.Failed != 0 || len(r.BySet) != 2 || !r.Complete {
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

// TestSlowSetInterrupted: what a slow set has received is counted for it also if the run is interrupted before the set
// has another turn.
func TestSlowSetInterrupted(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{noChanges: true, noHash: true})
	s.put("/a", "one")
	s.put("/b", "two")
	s.put("/slow", "x")
	s.withSlowSet("/other")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/other" {
			return false
		}
		cancel()
		<-r.Context().Done()
		return true
	})
	drips(s, "/slow", "x", func() string { return "x" }, new(atomic.Bool))
	m := newMirror(t, s)
	d := m.destination()
	d.SetPatience(200 * time.Millisecond)
	r, err := d.Sync(ctx, m.address())
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("%v: %+v", err, r)
	}
	var sum int64
	for i := range r.BySet {
		sum += r.BySet[i].Created
		if r.BySet[i].Complete {
			t.Errorf("%+v", r.BySet[i])
		}
	}
	if r.Created != 2 || sum != 2 || len(r.BySet) != 2 || r.Failed != 0 {
		t.Errorf("%+v", r)
	}
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/other" {
			_, _ = w.Write([]byte("other"))
		}
		return r.URL.Path == "/other"
	})
	if r, err := m.destination().Sync(t.Context(), m.address()); err != nil || r.Created != 2 || r.By.Request != 2 {
		t.Errorf("the next run: %v: %+v", err, r)
	}
}

// TestSlowSetDryRun: a dry run counts what it would do once, however many turns a set takes.
func TestSlowSetDryRun(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{noChanges: true, noHash: true})
	s.put("/a", "one")
	s.put("/b", "two")
	s.withSlowSet("/other")
	var other atomic.Bool
	s.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/two/resourcelist.xml" {
			other.Store(true)
		}
		return false
	})
	s.mu.Lock()
	list, _ := s.document("/rs/resourcelist.xml")
	s.mu.Unlock()
	drips(s, "/rs/resourcelist.xml", "</urlset>", func() string { return list }, &other)
	m := newMirror(t, s)
	m.opts.DryRun = true
	d := m.destination()
	d.SetPatience(200 * time.Millisecond)
	r, err := d.Sync(t.Context(), m.address())
	if err != nil || r.Created != 3 || len(r.BySet) != 2 || r.BySet[0].Created != 1 || r.BySet[1].Created != 2 || len(r.Warnings) == 0 {
		t.Errorf("%v: %+v", err, r)
	}
}
