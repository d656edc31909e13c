package destination_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/destination"
	"lockstep/discover"
	"lockstep/internal/fetch"
)

// large is a resource that no break in the middle of a copy buffer hides.
var large = strings.Repeat("0123456789abcdef", 100_000)

// syncAgain syncs with a client that retries.
func (m *mirror) syncAgain(retries int) (destination.Report, error) {
	m.t.Helper()
	c, err := fetch.New(fetch.Options{Home: discover.Home(m.address()), Retries: retries})
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(c.Close)
	d, err := destination.New(m.store, m.journal, c, m.opts)
	if err != nil {
		m.t.Fatal(err)
	}
	m.site.reset()
	return d.Sync(context.Background(), m.address())
}

// breakOff sends part of a body and breaks the connection.
func breakOff(w http.ResponseWriter, etag, body string, n int) {
	if etag != "" {
		w.Header().Set("ETag", etag)
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	_, _ = io.WriteString(w, body[:n])
	panic(http.ErrAbortHandler)
}

// TestRangesWithinRun breaks a transfer off in the middle; what the server then
// makes of the range that is asked for differs.
func TestRangesWithinRun(t *testing.T) {
	t.Parallel()
	other := strings.Repeat("fedcba9876543210", 100_000)
	part := func(w http.ResponseWriter, body string, from, total int, etag string) {
		if etag != "" {
			w.Header().Set("ETag", etag)
		}
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(body)-1, total))
		w.WriteHeader(http.StatusPartialContent)
		_, _ = io.WriteString(w, body[from:])
	}
	for _, tt := range []struct {
		name  string
		style style
		etag  string
		then  func(w http.ResponseWriter, r *http.Request, from int) bool // answers the range; false: as it should be
		gets  int
		whole bool // all came again
	}{
		{name: "the rest", etag: `"1"`, gets: 2, then: func(w http.ResponseWriter, r *http.Request, from int) bool {
			if r.Header.Get("If-Range") != `"1"` {
				return false
			}
			part(w, large, from, len(large), `"1"`)
			return true
		}},
		{name: "the rest, no validators", gets: 2},
		{name: "no hash, no validators", style: style{noHash: true}, gets: 2, whole: true},
		{name: "no hash, weak validator", style: style{noHash: true}, etag: `W/"1"`, gets: 2, whole: true},
		{name: "no hash, strong validator", style: style{noHash: true}, etag: `"1"`, gets: 2, then: func(w http.ResponseWriter, _ *http.Request, from int) bool {
			part(w, large, from, len(large), `"1"`)
			return true
		}},
		{name: "no hash, part of something else", style: style{noHash: true}, etag: `"1"`, gets: 3, whole: true, then: func(w http.ResponseWriter, _ *http.Request, from int) bool {
			part(w, other, from, len(other), `"2"`)
			return true
		}},
		{name: "no hash, part of something unnamed", style: style{noHash: true, noLength: true}, etag: `"1"`, gets: 3, whole: true, then: func(w http.ResponseWriter, _ *http.Request, from int) bool {
			part(w, other+other, from, 2*len(other), "")
			return true
		}},
		{name: "no hash, part of something longer", style: style{noHash: true, noLength: true}, etag: `"1"`, gets: 3, whole: true, then: func(w http.ResponseWriter, _ *http.Request, from int) bool {
			part(w, other+other, from, 2*len(other), `"1"`)
			return true
		}},
		{name: "no hash, less than the rest", style: style{noHash: true, noLength: true}, etag: `"1"`, gets: 3, whole: true, then: func(w http.ResponseWriter, _ *http.Request, from int) bool {
			w.Header().Set("ETag", `"1"`)
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/*", from, from+9))
			w.WriteHeader(http.StatusPartialContent)
			_, _ = io.WriteString(w, large[from:from+10])
			return true
		}},
		{name: "ranges ignored", etag: `"1"`, gets: 2, whole: true, then: func(w http.ResponseWriter, _ *http.Request, _ int) bool {
			_, _ = io.WriteString(w, large)
			return true
		}},
		{name: "416", etag: `"1"`, gets: 3, whole: true, then: func(w http.ResponseWriter, _ *http.Request, _ int) bool {
			w.Header().Set("Content-Range", "bytes */7")
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return true
		}},
		{name: "another range", etag: `"1"`, gets: 3, whole: true, then: func(w http.ResponseWriter, _ *http.Request, from int) bool {
			part(w, large, from-1, len(large), `"1"`)
			return true
		}},
		{name: "no range at all", etag: `"1"`, gets: 3, whole: true, then: func(w http.ResponseWriter, _ *http.Request, from int) bool {
			w.WriteHeader(http.StatusPartialContent)
			_, _ = io.WriteString(w, large[from:])
			return true
		}},
		{name: "part of something else", etag: `"1"`, gets: 3, whole: true, then: func(w http.ResponseWriter, _ *http.Request, from int) bool {
			part(w, other, from, len(other), "")
			return true
		}},
		{name: "304", etag: `"1"`, gets: 3, whole: true, then: func(w http.ResponseWriter, _ *http.Request, _ int) bool {
			w.WriteHeader(http.StatusNotModified)
			return true
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, tt.style)
			s.put("/large", large)
			var mu sync.Mutex
			n := 0
			s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != "/large" {
					return false
				}
				mu.Lock()
				n++
				first := n == 1
				mu.Unlock()
				var from int
				if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err == nil && tt.then != nil && tt.then(w, r, from) {
					return true
				}
				if first {
					breakOff(w, tt.etag, large, len(large)/2)
				}
				return false
			})
			m := newMirror(t, s)
			r, err := m.syncAgain(2)
			if err != nil {
				t.Fatalf("Sync: %v\n%+v", err, r)
			}
			m.same()
			if got := s.got("/large"); got != tt.gets {
				t.Errorf("%d requests, want %d", got, tt.gets)
			}
			if whole := r.Bytes > int64(len(large)+len(large)/4); whole != tt.whole {
				t.Errorf("%d bytes came, want all again: %v", r.Bytes, tt.whole)
			}
		})
	}
}

// TestRangesOfCodedBody: a body whose coding was undone is fetched from the beginning,
// since its bytes are not those that a range counts.
func TestRangesOfCodedBody(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{noHash: true, noLength: true})
	random := make([]byte, 300_000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(random) // never fails
	text := hex.EncodeToString(random)
	s.put("/large", text)
	coded := gzipped(text)
	first := true
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/large" {
			return false
		}
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("ETag", `"1"`)
		s.mu.Lock()
		now := first
		first = false
		s.mu.Unlock()
		if now {
			breakOff(w, "", coded, len(coded)/2)
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(coded))
		return true
	})
	m := newMirror(t, s)
	if r, err := m.syncAgain(2); err != nil {
		t.Fatalf("Sync: %v\n%+v", err, r)
	}
	m.same()
}

// TestRangesAcrossRuns resumes in a second run, through a proxy that is not always
// there, whether or not the resource is still the same.
func TestRangesAcrossRuns(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change bool
		gets   int
		share  float64 // of it that may come in the second run
	}{
		{"the same", false, 1, 0.3},
		{"another since", true, 1, 1.3}, // its hash shows that before it is requested
	} {
		s := newSite(t, style{})
		s.put("/large", large)
		cut := true
		s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
			s.mu.Lock()
			now := cut
			s.mu.Unlock()
			if r.URL.Path == "/large" && now {
				breakOff(w, `"x"`, large, len(large)*4/5)
			}
			return false
		})
		m := newMirror(t, s)
		if _, err := m.sync(); !errors.Is(err, destination.ErrIncomplete) {
			t.Fatalf("%s: %v", tt.name, err)
		}
		s.mu.Lock()
		cut = false
		s.mu.Unlock()
		if tt.change {
			s.put("/large", strings.Repeat("fedcba9876543210", 100_000))
		}
		r, err := m.syncAgain(-1)
		if err != nil || s.got("/large") > tt.gets+1 || float64(r.Bytes) > tt.share*float64(len(large))+20_000 {
			t.Errorf("%s: %v, %d requests, %d bytes", tt.name, err, s.got("/large"), r.Bytes)
		}
		m.same()
	}
}

// TestManyBreaks: a transfer succeeds as long as each attempt makes progress, though
// there are more breaks than attempts.
func TestManyBreaks(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	data := bytes.Repeat([]byte(large), 12) // 19 MB
	s.put("/large", string(data))
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/large" {
			return false
		}
		var from int
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err == nil {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(data)-1, len(data)))
			w.Header().Set("Content-Length", fmt.Sprint(len(data)-from))
			w.WriteHeader(http.StatusPartialContent)
		} else {
			w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		}
		if to := from + 2<<20; to < len(data) {
			_, _ = w.Write(data[from:to])
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(data[from:])
		return true
	})
	m := newMirror(t, s)
	start := time.Now()
	if r, err := m.syncAgain(1); err != nil || r.Bytes > int64(len(data)+len(data)/5) {
		t.Fatalf("%v, %d bytes, %s\n%+v", err, r.Bytes, time.Since(start), r)
	}
	m.same()
}
