package destination_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"lockstep/blob"
	"lockstep/destination"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
)

// TestOtherPortIsOtherHost: a Source may name resources at its own host and
// port. At another port of the same machine is another server: it is not asked,
// unless --allow-host names it.
func TestOtherPortIsOtherHost(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte("a secret of another server"))
	}))
	t.Cleanup(other.Close)
	var src *httptest.Server
	src = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/resourcelist.xml":
			w.Header().Set("Content-Type", "application/xml")
			_, _ = fmt.Fprintf(w, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`+
				`<rs:md capability="resourcelist" at="2026-01-05T10:00:00Z"/><url><loc>%s/own.txt</loc></url><url><loc>%s/secret.txt</loc></url></urlset>`, src.URL, other.URL)
		case "/own.txt":
			_, _ = w.Write([]byte("own"))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(src.Close)
	home, err := url.Parse(src.URL)
	if err != nil {
		t.Fatal(err)
	}
	otherHost := strings.TrimPrefix(other.URL, "http://")
	for _, tt := range []struct {
		allow            []string
		created, refused int64
	}{
		{nil, 1, 1},
		{[]string{strings.TrimPrefix(src.URL, "http://")}, 1, 1},
		{[]string{otherHost}, 2, 0},
		{[]string{"127.0.0.1"}, 2, 0},
	} {
		asked.Store(0)
		client, err := fetch.New(fetch.Options{Home: home})
		if err != nil {
			t.Fatal(err)
		}
		var reason string
		d, err := destination.New(&blob.Mem{}, &journal.Mem{}, client, destination.Options{AllowHosts: tt.allow, OnEvent: func(e destination.Event) {
			if e.Kind == destination.EventRefused {
				reason = e.Err.Error()
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		r, err := d.Sync(t.Context(), src.URL+"/resourcelist.xml")
		client.Close()
		if r.Created != tt.created || r.Refused != tt.refused {
			t.Errorf("allowed %v: %d created, %d refused, %v; want %d, %d", tt.allow, r.Created, r.Refused, err, tt.created, tt.refused)
		}
		if tt.refused == 1 && (asked.Load() != 0 || !strings.Contains(reason, "--allow-host "+otherHost)) {
			t.Errorf("allowed %v: the other server was asked %d times; refused: %s", tt.allow, asked.Load(), reason)
		}
	}
}
