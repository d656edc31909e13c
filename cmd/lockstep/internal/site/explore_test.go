package site

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestServeExplorer passes requests for the pages on, with paths that begin at their address.
func TestServeExplorer(t *testing.T) {
	t.Parallel()
	f := &front{exploreDir: "/a%20b/-/explore/", explorer: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "page "+r.URL.String()) // a recorder takes all
	})}
	for target, want := range map[string]string{
		"/a%20b/-/explore/":           "page /",
		"/a%20b/-/explore/set?name=x": "page /set?name=x",
		"/a%20b/-/explore/a%2Fb/":     "page /a%2Fb/",
		"/a%20b/-/explore/../x":       "404 page not found\n",
		"/a%20b/-/explore/%2e%2e/x":   "404 page not found\n",
		"/a%20b/-/explore":            "",
		"/a%20b/-/explorer":           "-",
		"/-/explore/":                 "-",
	} {
		r := httptest.NewRequest(http.MethodGet, target, nil)
		w := httptest.NewRecorder()
		got := "-"
		if f.serveExplorer(w, r) {
			got = w.Body.String()
		}
		if w.Code == http.StatusMovedPermanently && w.Header().Get("Location") == f.exploreDir {
			got = ""
		}
		if got != want {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
	}
	if (&front{}).serveExplorer(nil, httptest.NewRequest(http.MethodGet, "/-/explore/", nil)) {
		t.Error("without an explorer there are pages")
	}
}

// TestExploreURI is empty where nothing but files is written.
func TestExploreURI(t *testing.T) {
	t.Parallel()
	o := Options{BaseURL: "https://x.org/a%20b", Embedding: &Embedding{}, Content: true}
	if got, want := o.exploreURI(), "https://x.org/a%20b/-/explore/"; got != want {
		t.Errorf("address %s, want %s", got, want)
	}
	o.Content = false
	if got := o.exploreURI(); got != "" {
		t.Errorf("address of pages beside files: %s", got)
	}
}
