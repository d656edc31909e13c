package fetch_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"lockstep/internal/fetch"
)

// An upgradingSource is http://example.com, some or all of whose addresses
// redirect to https, at the default ports of both. It is reached through a
// proxy.
type upgradingSource struct {
	proxy, ca             string // of fetch.Options
	plain, leaked, secure atomic.Int64
}

const sourceSecret = "s3cret"

func newUpgradingSource(t *testing.T, redirect func(path string) string) *upgradingSource {
	t.Helper()
	s := &upgradingSource{}
	tls := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+sourceSecret {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		s.secure.Add(1)
		_, _ = io.WriteString(w, "content of "+r.URL.Path)
	}))
	t.Cleanup(tls.Close)
	s.ca = certificateFile(t, tls)
	s.proxy = serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect {
			tunnel(w, r.Host, tls.Listener.Addr().String())
			return
		}
		s.plain.Add(1)
		if r.Header.Get("Authorization") != "" || r.Header.Get("X-Key") != "" {
			s.leaked.Add(1)
		}
		if to := redirect(r.URL.Path); to != "" {
			http.Redirect(w, r, to, http.StatusMovedPermanently)
			return
		}
		_, _ = io.WriteString(w, "content of "+r.URL.Path)
	}).URL
	return s
}

// tunnel connects a client of the proxy to the server at address, if it requests
// the default port.
func tunnel(w http.ResponseWriter, host, address string) {
	if host != "example.com:443" {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	in, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = in.Close() }()
	out, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = out.Close() }()
	_, _ = io.WriteString(in, "HTTP/1.1 200 OK\r\n\r\n")
	go func() { _, _ = io.Copy(out, in) }() // until either end closes
	_, _ = io.Copy(in, out)
}

func (s *upgradingSource) client(t *testing.T, log *bytes.Buffer) *fetch.Client {
	t.Helper()
	return client(t, "http://example.com", fetch.Options{
		BearerToken: sourceSecret, Header: http.Header{"X-Key": {sourceSecret}}, CAFile: s.ca, Proxy: s.proxy,
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
}

// TestCredentialsNeverOverHTTP: if a Source that was named by http redirects to
// https, no request over http has credentials: a request without them
// determines it, it is reported once, and the https address is used from then
// on, and at once by later Clients.
func TestCredentialsNeverOverHTTP(t *testing.T) {
	t.Parallel()
	s := newUpgradingSource(t, func(path string) string { return "https://example.com" + path })
	var log bytes.Buffer
	saved := ""
	c := s.client(t, &log)
	c.UseHTTPS("", func(host string) { saved = host })
	for _, path := range []string{"/a", "/b", "/c"} {
		if got, err := get(t.Context(), c, fetch.Request{URI: "http://example.com" + path}); err != nil || got != "content of "+path {
			t.Fatalf("GET %s = %q, %v", path, got, err)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://example.com/d", nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := c.Do(r); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("Do: %v, %v", resp, err)
	} else {
		_ = resp.Body.Close()
	}
	if s.plain.Load() != 1 || s.leaked.Load() != 0 || s.secure.Load() != 4 {
		t.Errorf("%d requests over http, %d of them with credentials; %d over https", s.plain.Load(), s.leaked.Load(), s.secure.Load())
	}
	if n := strings.Count(log.String(), "redirects to https"); n != 1 || strings.Contains(log.String(), sourceSecret) {
		t.Errorf("reported %d times:\n%s", n, log.String())
	}
	if saved != "example.com" {
		t.Fatalf("saved %q", saved)
	}
	later := s.client(t, &log)
	later.UseHTTPS(saved, nil)
	if got, err := get(t.Context(), later, fetch.Request{URI: "http://example.com/e"}); err != nil || got != "content of /e" || s.plain.Load() != 1 {
		t.Errorf("later: %q, %v, %d requests over http", got, err, s.plain.Load())
	}
}

// TestCredentialsUpgradedLater: if only some addresses redirect to https, the
// first redirect is reported, and credentials use https from then on.
func TestCredentialsUpgradedLater(t *testing.T) {
	t.Parallel()
	s := newUpgradingSource(t, func(path string) string {
		if path != "/b" {
			return ""
		}
		return "https://example.com/b"
	})
	var log bytes.Buffer
	c := s.client(t, &log)
	for _, path := range []string{"/a", "/b", "/c", "/a"} {
		if got, err := get(t.Context(), c, fetch.Request{URI: "http://example.com" + path}); err != nil || got != "content of "+path {
			t.Fatalf("GET %s = %q, %v", path, got, err)
		}
	}
	if s.plain.Load() != 3 || s.secure.Load() != 3 { // without credentials, /a, /b; then /b, /c, /a
		t.Errorf("%d requests over http, %d over https", s.plain.Load(), s.secure.Load())
	}
	if n := strings.Count(log.String(), "redirects to https"); n != 1 {
		t.Errorf("reported %d times:\n%s", n, log.String())
	}
}

// TestCredentialsToAnotherPort: the target of a redirect from http to https at
// another port or host is another server: credentials are sent neither there nor
// over http, and the error contains a hint.
func TestCredentialsToAnotherPort(t *testing.T) {
	t.Parallel()
	for _, to := range []string{"https://example.com:8443", "https://other.example.com", "https://example.com.:444", "https://example.com:80"} {
		s := newUpgradingSource(t, func(path string) string { return to + path })
		c := s.client(t, &bytes.Buffer{})
		for _, path := range []string{"/a", "/b"} {
			_, err := get(t.Context(), c, fetch.Request{URI: "http://example.com" + path})
			if foreign, ok := errors.AsType[*fetch.ForeignUpgradeError](err); !ok || foreign.To != to || !strings.Contains(err.Error(), "give "+to+" as its address") {
				t.Errorf("%s to %s: %v", path, to, err)
			}
		}
		if s.plain.Load() != 1 || s.leaked.Load() != 0 || s.secure.Load() != 0 {
			t.Errorf("%s: %d requests over http, %d of them with credentials; %d over https", to, s.plain.Load(), s.leaked.Load(), s.secure.Load())
		}
	}
	for host, want := range map[string]string{"example.com": "example.com", "EXAMPLE.com:443": "EXAMPLE.com:443", "example.com:8443": "", "elsewhere.example": "", "": ""} {
		c := client(t, "http://example.com", fetch.Options{BearerToken: sourceSecret})
		if c.UseHTTPS(host, nil); c.HTTPS() != want {
			t.Errorf("UseHTTPS(%q): credentials go to %q, want %q", host, c.HTTPS(), want)
		}
	}
}

// TestCredentialsOfAnUnavailableSource: while a Source that was named by http only reports
// that it is temporarily unavailable, or does not respond, neither requests nor the probes
// after many failures have credentials: it may have https.
func TestCredentialsOfAnUnavailableSource(t *testing.T) {
	t.Parallel()
	for name, on := range map[string]func(w *wire){
		"status 503":  func(w *wire) { w.answer(503, "Connection: close\r\n", "") },
		"status 429":  func(w *wire) { w.answer(429, "Connection: close\r\n", "") },
		"no response": func(*wire) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				probes, leaked := 0, 0
				c := wired(t, fetch.Options{BearerToken: sourceSecret, Retries: -1}, func(w *wire, r *http.Request, _ int) {
					if r.Method == http.MethodHead {
						probes++
					}
					if r.Header.Get("Authorization") != "" {
						leaked++
					}
					on(w)
				})
				for range 40 {
					if _, err := get(t.Context(), c, fetch.Request{URI: "/list", Document: true}); err == nil {
						t.Error("Get succeeded")
					}
				}
				if leaked > 0 || probes == 0 && name != "status 429" {
					t.Errorf("%d of %d requests with credentials; %d were probes", leaked, c.Requests(), probes)
				}
			})
		})
	}
}

// TestCredentialsAfterAnError: a Source at an http address that answers 500 to requests without
// credentials, and has no https, gets them.
func TestCredentialsAfterAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := wired(t, fetch.Options{BearerToken: sourceSecret, Retries: -1}, func(w *wire, r *http.Request, _ int) {
			if r.Header.Get("Authorization") == "" {
				w.answer(500, "Connection: close\r\n", "")
				return
			}
			w.answer(200, "Connection: close\r\n", "list")
		})
		if got, err := get(t.Context(), c, fetch.Request{URI: "/list", Document: true}); err != nil || got != "list" {
			t.Errorf("Get = %q, %v", got, err)
		}
	})
}
