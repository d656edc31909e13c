package fetch_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"lockstep/internal/fetch"
)

// Failures of tentative requests do not count against their host: it is neither probed
// nor asked less, and each is sent once.
func TestTentativeFailures(t *testing.T) {
	t.Parallel()
	var requests, probes atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.Method == http.MethodHead {
			probes.Add(1)
		}
		if strings.HasPrefix(r.URL.Path, "/broken") {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(srv.Close)
	home, _ := url.Parse(srv.URL)
	c, err := fetch.New(fetch.Options{Home: home})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	const n = 40
	for range n {
		if resp, err := c.GetWhole(t.Context(), fetch.Request{URI: srv.URL + "/broken", Document: true, Tentative: true}); err == nil {
			_ = resp.Body.Close()
			t.Fatal("a broken document was read")
		}
	}
	resp, err := c.GetWhole(t.Context(), fetch.Request{URI: srv.URL + "/whole", Document: true})
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if requests.Load() != n+1 || probes.Load() != 0 {
		t.Errorf("%d requests, %d of them probes; want %d and none", requests.Load(), probes.Load(), n+1)
	}
}

// A tentative request follows no redirect to another host, and none is sent where it is
// yet to be determined whether credentials may be.
func TestTentativeStays(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(other.Close)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, other.URL, http.StatusFound)
		case "/here":
			http.Redirect(w, r, "/there", http.StatusFound)
		}
	}))
	t.Cleanup(srv.Close)
	home, _ := url.Parse(srv.URL)
	c, err := fetch.New(fetch.Options{Home: home})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if resp, err := c.GetWhole(t.Context(), fetch.Request{URI: srv.URL + "/away", Document: true, Tentative: true}); err == nil || elsewhere.Load() > 0 {
		t.Errorf("GetWhole = %v, %v, by %d requests to the other host; want an error, and none", resp, err, elsewhere.Load())
	}
	resp, err := c.GetWhole(t.Context(), fetch.Request{URI: srv.URL + "/here", Document: true, Tentative: true})
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if !fetch.Spare(c, home) {
		t.Error("Spare reports false without limits")
	}
	for _, o := range []fetch.Options{{Jobs: 2}, {Rate: 1}, {BearerToken: "secret"}} {
		o.Home = home
		c, err := fetch.New(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		if fetch.Spare(c, home) {
			t.Errorf("Spare reports true with %+v", o)
		}
	}
}
