package fetch_test

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/fetch"
)

// The client for plain requests sends those for resources over HTTP/1.1, and
// nothing else.
func TestSimpleRequests(t *testing.T) {
	t.Parallel()
	c := client(t, source, fetch.Options{})
	for name, tt := range map[string]struct {
		request fetch.Request
		want    bool
	}{
		"resource":          {fetch.Request{}, true},
		"conditional":       {fetch.Request{IfNoneMatch: `"a"`, IfModifiedSince: "x", NoCache: true}, true},
		"own header":        {fetch.Request{Header: http.Header{"Accept-Encoding": {"br"}}}, true},
		"document":          {fetch.Request{Document: true}, false},
		"POST":              {fetch.Request{Post: []byte("x")}, false},
		"range":             {fetch.Request{RangeFrom: 1}, false},
		"end":               {fetch.Request{RangeLast: 1}, false},
		"gzip":              {fetch.Request{AcceptGzip: true}, false},
		"other script":      {fetch.Request{URI: "http://bücher.example/a"}, false},
		"TLS, unknown host": {fetch.Request{URI: "https://source.example/a"}, false},
	} {
		if tt.request.URI == "" {
			tt.request.URI = source + "/a"
		}
		if got := c.IsSimple(tt.request); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
	for name, o := range map[string]fetch.Options{
		"proxy":                  {Proxy: "http://proxy.example:3128"},
		"proxy from environment": {Proxy: fetch.ProxyEnvironment},
	} {
		if client(t, source, o).IsSimple(fetch.Request{URI: source + "/a"}) {
			t.Errorf("with a %s it does", name)
		}
	}
	fetch.OnlyGeneral(c)
	if c.IsSimple(fetch.Request{URI: source + "/a"}) {
		t.Error("used though it is switched off")
	}
}

// Over TLS it is used once a response has shown that the host negotiates HTTP/1.1,
// without a handshake to find out; and for a host that prefers HTTP/2 if it is near.
func TestSimpleTLS(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		http2      bool
		takes      time.Duration
		least, old int64 // requests by HTTP/1.1, at least and at most
		conns      int64
	}{
		"HTTP/1.1":         {false, 0, 81, 81, 3},
		"HTTP/2, near":     {true, 0, 60, 80, 4},
		"HTTP/2, far":      {true, 10 * time.Millisecond, 0, 0, 2},
		"HTTP/1.1 and far": {false, 10 * time.Millisecond, 81, 81, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var old atomic.Int64
			s, c, conns := serveTLS(t, tt.http2, 2, func(w http.ResponseWriter, r *http.Request) {
				if r.ProtoMajor == 1 {
					old.Add(1)
				}
				time.Sleep(tt.takes)
				_, _ = w.Write([]byte(r.URL.Path + r.Header.Get("Authorization")))
			})
			for _, path := range []string{"/list", "/first"} {
				if got := c.IsSimple(fetch.Request{URI: s.URL + "/a"}); got && (path == "/list" || tt.http2) {
					t.Errorf("before %s: used", path)
				}
				if _, err := get(t.Context(), c, fetch.Request{URI: s.URL + path, Document: path == "/list"}); err != nil {
					t.Fatal(err)
				}
			}
			var wg sync.WaitGroup
			for i := range 4 {
				wg.Go(func() {
					for j := range 20 {
						want := fmt.Sprintf("/%d/%d", i, j)
						if got, err := get(t.Context(), c, fetch.Request{URI: s.URL + want}); err != nil || got != want+"Bearer x" {
							t.Errorf("get = %q, %v", got, err)
						}
					}
				})
			}
			wg.Wait()
			if n := old.Load(); n < tt.least || n > tt.old+1 {
				t.Errorf("%d requests by HTTP/1.1, want %d to %d", n, tt.least, tt.old+1)
			}
			if conns.Load() > tt.conns {
				t.Errorf("%d connections, want at most %d", conns.Load(), tt.conns)
			}
			// A certificate that is not trusted is refused here too.
			if !tt.http2 {
				c = client(t, s.URL, fetch.Options{})
				if _, err := get(t.Context(), c, fetch.Request{URI: s.URL + "/a"}); err == nil || !strings.Contains(err.Error(), "certificate") {
					t.Errorf("without the certificate: %v", err)
				}
			}
		})
	}
}

// serveTLS starts a server, with HTTP/2 or without, and returns a client with a token for
// it. It counts the connections.
func serveTLS(t *testing.T, http2 bool, jobs int, h http.HandlerFunc) (s *httptest.Server, c *fetch.Client, conns *atomic.Int64) {
	t.Helper()
	conns = new(atomic.Int64)
	s = httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = http2
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that are to fail
	s.StartTLS()
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return s, client(t, s.URL, fetch.Options{CAFile: file, Jobs: jobs, BearerToken: "x"}), conns
}

// A near host that prefers HTTP/2 need not support HTTP/1.1: what it answers to that costs
// neither a resource nor an attempt, and after a few such answers it is asked no more.
func TestHostWithoutHTTP1(t *testing.T) {
	t.Parallel()
	const closes, unsupported = -1, -2 // instead of a status
	for name, answer := range map[string]int{
		"no such protocol": unsupported, "closed": closes,
		"status 421": http.StatusMisdirectedRequest, "status 426": http.StatusUpgradeRequired, "status 505": http.StatusHTTPVersionNotSupported,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var old atomic.Int64
			s, c, _ := serveTLS(t, true, 2, func(w http.ResponseWriter, r *http.Request) {
				if r.ProtoMajor == 2 {
					_, _ = io.WriteString(w, r.URL.Path)
					return
				}
				if old.Add(1); answer == closes {
					panic(http.ErrAbortHandler)
				}
				w.WriteHeader(answer)
			})
			if answer == unsupported {
				s.TLS.NextProtos = []string{"h2"}
			}
			for i := range 30 {
				path := fmt.Sprint("/", i)
				if got, err := get(t.Context(), c, fetch.Request{URI: s.URL + path}); err != nil || got != path {
					t.Errorf("Get = %q, %v", got, err)
				}
			}
			if n := old.Load(); n > 4 || n == 0 && answer != unsupported {
				t.Errorf("%d requests by HTTP/1.1", n)
			}
			if c.IsSimple(fetch.Request{URI: s.URL + "/a"}) {
				t.Error("it is asked for more")
			}
		})
	}
}

// A response that it does not interpret costs a second request on a connection of its
// own, but no attempt; and a host that sends many gets single requests.
func TestUnusualResponses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var requests, closing int
		c := wired(t, fetch.Options{Retries: -1}, func(w *wire, r *http.Request, n int) {
			requests++
			if r.Close {
				closing++
			}
			w.say("HTTP/1.1 200 OK\nContent-Length: 2\n\nok") // bare LF
		})
		for range 20 {
			if got, err := get(t.Context(), c, fetch.Request{URI: "/a"}); err != nil || got != "ok" {
				t.Errorf("get = %q, %v", got, err)
			}
		}
		if requests != 24 || closing != 20 || c.Requests() != 24 {
			t.Errorf("%d requests (%d counted), %d on connections of their own; want 24, 20", requests, c.Requests(), closing)
		}
	})
}

// The client for plain requests and net/http send the same requests, with credentials,
// conditions and own header fields.
func TestSameRequests(t *testing.T) {
	t.Parallel()
	for _, r := range []fetch.Request{
		{URI: "/a?b=c&d"},
		{URI: "/a%20b"},
		{URI: "/a b/ü"},
		{URI: "/a", IfNoneMatch: `W/"a", "b"`, IfModifiedSince: "Mon, 23 Nov 2026 04:50:11 GMT"},
		{URI: "/a", NoCache: true, Header: http.Header{"Accept-Encoding": {"br, gzip"}}},
		{URI: "http://other.example/a#b"},
	} {
		var sent [2]string
		for i := range sent {
			synctest.Test(t, func(t *testing.T) {
				home, _ := url.Parse(source)
				c := wired(t, fetch.Options{Home: home, BearerToken: "secret", Header: http.Header{"X-Key": {"1", "2"}}, UserAgent: "test/1"}, func(w *wire, r *http.Request, _ int) {
					var b bytes.Buffer
					fmt.Fprintf(&b, "%s %s %s %v", r.Method, r.RequestURI, r.Host, r.Header)
					sent[i] = b.String()
					w.answer(200, "Connection: close\r\n", "ok")
				})
				if i == 1 {
					fetch.OnlyGeneral(c)
				}
				if _, err := get(t.Context(), c, r); err != nil {
					t.Error(err)
				}
			})
		}
		if sent[0] != sent[1] || sent[0] == "" {
			t.Errorf("sends\n%s\nand by net/http\n%s", sent[0], sent[1])
		}
	}
}
