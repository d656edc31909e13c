package fetch_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"lockstep/internal/fetch"
)

// TestCredentialsNeverOverHTTP: where a Source that was named by http redirects
// to https, no request over http carries credentials: it is found out without
// them, reported once, and the https address is used from then on, by later
// Clients that know of it at once.
func TestCredentialsNeverOverHTTP(t *testing.T) {
	t.Parallel()
	var plain, leaked, secure atomic.Int64
	tls := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer s3cret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		secure.Add(1)
		_, _ = w.Write([]byte("content of " + r.URL.Path))
	}))
	t.Cleanup(tls.Close)
	open := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		plain.Add(1)
		if r.Header.Get("Authorization") != "" || r.Header.Get("X-Key") != "" {
			leaked.Add(1)
		}
		http.Redirect(w, r, tls.URL+r.URL.Path, http.StatusMovedPermanently)
	}))
	t.Cleanup(open.Close)
	var log bytes.Buffer
	o := fetch.Options{
		BearerToken: "s3cret", Header: http.Header{"X-Key": {"s3cret"}}, CAFile: certificateFile(t, tls),
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}
	saved := ""
	c := client(t, open.URL, o)
	c.UseHTTPS("", func(host string) { saved = host })
	for _, path := range []string{"/a", "/b", "/c"} {
		if got, err := get(t.Context(), c, fetch.Request{URI: open.URL + path}); err != nil || got != "content of "+path {
			t.Fatalf("GET %s = %q, %v", path, got, err)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, open.URL+"/d", nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := c.Do(r); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("Do: %v, %v", resp, err)
	} else {
		_ = resp.Body.Close()
	}
	if plain.Load() != 1 || leaked.Load() != 0 || secure.Load() != 4 {
		t.Errorf("%d requests over http, %d of them with credentials; %d over https", plain.Load(), leaked.Load(), secure.Load())
	}
	if n := strings.Count(log.String(), "redirects to https"); n != 1 || strings.Contains(log.String(), "s3cret") {
		t.Errorf("reported %d times:\n%s", n, log.String())
	}
	if saved != strings.TrimPrefix(tls.URL, "https://") {
		t.Fatalf("saved %q", saved)
	}
	later := client(t, open.URL, o)
	later.UseHTTPS(saved, nil)
	if got, err := get(t.Context(), later, fetch.Request{URI: open.URL + "/e"}); err != nil || got != "content of /e" || plain.Load() != 1 {
		t.Errorf("later: %q, %v, %d requests over http", got, err, plain.Load())
	}
	other := client(t, open.URL, o)
	other.UseHTTPS("elsewhere.example", nil) // of another Source
	if other.HTTPS() != "" {
		t.Errorf("credentials would go to %s", other.HTTPS())
	}
}
