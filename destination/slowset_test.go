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

// TestSlowSetContinues: the next turn of a slow set continues a resource where the last one
// ended, if a hash or an ETag shows whether it is still the same.
func TestSlowSetContinues(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		noHash bool
		etags  [2]string // in the first turn, and then
		ranges int       // responses with a part
	}{
		"hash":        {false, [2]string{"", ""}, 1},
		"ETag":        {true, [2]string{`"1"`, `"1"`}, 1},
		"another":     {true, [2]string{`"1"`, `"2"`}, 0},
		"weak ETag":   {true, [2]string{`W/"1"`, `W/"1"`}, 0},
		"no ETag":     {true, [2]string{"", ""}, 0},
		"ETag is new": {true, [2]string{"", `"1"`}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, style{noChanges: true, noHash: c.noHash})
			s.withSlowSet("/other")
			var other atomic.Bool
			first := strings.Repeat("1", 1<<16)
			then := first
			if c.etags[0] != c.etags[1] {
				then = strings.Repeat("2", 1<<16)
			}
			s.put("/slow", then)
			var parts atomic.Int32
			s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				switch r.URL.Path {
				case "/other":
					other.Store(true)
					_, _ = w.Write([]byte("other"))
					return true
				case "/slow":
				default:
					return false
				}
				if other.Load() {
					w.Header().Set("ETag", c.etags[1])
					if given := r.Header.Get("If-Range"); r.Header.Get("Range") != "" && (given == "" || given == c.etags[1]) {
						parts.Add(1)
					}
					http.ServeContent(w, r, "", time.Time{}, strings.NewReader(then))
					return true
				}
				w.Header().Set("ETag", c.etags[0])
				w.Header().Set("Content-Length", "65536")
				n := len(first) / 2
				_, _ = w.Write([]byte(first[:n]))
				for ; r.Context().Err() == nil && n < len(first); time.Sleep(5 * time.Millisecond) {
					_, _ = w.Write([]byte(first[n : n+1]))
					_ = http.NewResponseController(w).Flush()
					n++
				}
				return true
			})
			m := newMirror(t, s)
			d := m.destination()
			d.SetPatience(200 * time.Millisecond)
			r, err := d.Sync(t.Context(), m.address())
			if err != nil || len(r.Warnings) == 0 {
				t.Fatalf("%v: %+v", err, r)
			}
			if got := m.files()["slow"]; got != then {
				t.Errorf("the resource is %.10q…, %d bytes", got, len(got))
			}
			if n := parts.Load(); int(n) != c.ranges {
				t.Errorf("%d responses with a part, want %d", n, c.ranges)
			}
		})
	}
}

// TestSlowSetComparedAgain: a set that is compared as a whole, because resources have become old
// enough, and is put off because one of them arrives byte for byte, is compared in its next turn.
func TestSlowSetComparedAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "one")
	s.put("/young", "x")
	s.withSlowSet("/a")
	var other atomic.Bool
	s.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/two/resourcelist.xml" {
			other.Store(true)
		}
		return false
	})
	m := newMirror(t, s)
	m.opts.MinAge = time.Hour
	now := s.now.Add(time.Minute)
	run := func() (destination.Report, error) {
		d := m.destination()
		d.SetClock(func() time.Time { return now })
		d.SetPatience(200 * time.Millisecond)
		return d.Sync(t.Context(), m.address())
	}
	if r, err := run(); err != nil || m.files()["young"] != "" {
		t.Fatalf("%v, %v, %+v", err, m.files(), r)
	}
	s.put("/new", "z")
	now = now.Add(2 * time.Hour)
	other.Store(false)
	drips(s, "/young", "x", func() string { return "x" }, &other)
	r, err := run()
	if err != nil {
		t.Fatalf("%v: %+v", err, r)
	}
	if m.files()["young"] != "x" {
		t.Errorf("young is missing after a run that says %t: %v, %+v", r.Complete, m.files(), r)
	}
}
