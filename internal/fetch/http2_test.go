package fetch_test

import (
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/internal/fetch"
)

// serveHTTP2 starts an HTTP/2 server with that many streams per connection, and
// counts the open connections.
func serveHTTP2(t *testing.T, streams, jobs int, h http.HandlerFunc) (s *httptest.Server, c *fetch.Client, conns *atomic.Int64) {
	t.Helper()
	conns = new(atomic.Int64)
	s = httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: streams}
	var open atomic.Int64
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			raise(conns, open.Add(1))
		case http.StateClosed:
			open.Add(-1)
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return s, client(t, s.URL, fetch.Options{CAFile: file, Jobs: jobs}), conns
}

// raise makes most at least n.
func raise(most *atomic.Int64, n int64) {
	for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
	}
}

// Requests to an HTTP/2 host are streams of few connections.
func TestHTTP2(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		streams int
		jobs    int
		conns   int64
		least   int64 // concurrent
	}{
		{"many streams", 250, 0, 6, 24},
		{"few streams", 10, 0, 200, 10}, // about as many as requests
		{"few streams, fixed", 10, 40, 60, 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var now, most, old atomic.Int64
			s, c, conns := serveHTTP2(t, tt.streams, tt.jobs, func(w http.ResponseWriter, r *http.Request) {
				if r.ProtoMajor != 2 {
					old.Add(1)
				}
				raise(&most, now.Add(1))
				time.Sleep(20 * time.Millisecond)
				now.Add(-1)
				_, _ = io.WriteString(w, r.URL.Path)
			})
			if _, err := get(t.Context(), c, fetch.Request{URI: s.URL + "/list", Document: true}); err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for range 150 {
				wg.Go(func() {
					for range 6 {
						if got, err := get(t.Context(), c, fetch.Request{URI: s.URL + "/a"}); err != nil || got != "/a" {
							t.Errorf("Get = %q, %v", got, err)
						}
					}
				})
			}
			wg.Wait()
			if conns.Load() > tt.conns || old.Load() > 0 || most.Load() < tt.least {
				t.Errorf("%d connections, up to %d under way, %d by HTTP/1; want at most %d, at least %d, none",
					conns.Load(), most.Load(), old.Load(), tt.conns, tt.least)
			}
		})
	}
}

// A stream that breaks is repeated, and an unread one delays no other.
func TestHTTP2Streams(t *testing.T) {
	t.Parallel()
	var tries atomic.Int64
	large := strings.Repeat("x", 2<<20)
	s, c, _ := serveHTTP2(t, 250, 0, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/reset":
			if tries.Add(1) < 3 {
				panic(http.ErrAbortHandler)
			}
		case "/cut":
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, "begun")
			return
		case "/large":
			_, _ = io.WriteString(w, large)
			return
		}
		_, _ = io.WriteString(w, r.URL.Path)
	})
	if got, err := get(t.Context(), c, fetch.Request{URI: s.URL + "/reset"}); err != nil || got != "/reset" || tries.Load() != 3 {
		t.Errorf("Get of what is reset twice = %q, %v by %d tries", got, err, tries.Load())
	}
	_, err := get(t.Context(), c, fetch.Request{URI: s.URL + "/cut"})
	var cut *fetch.BodyError
	if !errors.As(err, &cut) || cut.Want != 1000 || !cut.Retryable() {
		t.Errorf("Get of what is cut = %v, want a BodyError of 1000 bytes", err)
	}
	var unread []*fetch.Response
	for range 8 {
		r, err := c.Get(t.Context(), fetch.Request{URI: s.URL + "/large", Document: true})
		if err != nil {
			t.Fatal(err)
		}
		unread = append(unread, r)
	}
	if got, err := get(t.Context(), c, fetch.Request{URI: s.URL + "/small"}); err != nil || got != "/small" {
		t.Errorf("Get beside eight streams nobody reads = %q, %v", got, err)
	}
	for _, r := range unread {
		if got := body(t, r); len(got) != len(large) {
			t.Errorf("large body of %d bytes", len(got))
		}
	}
}
