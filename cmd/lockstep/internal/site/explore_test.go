package site

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestExplorer: the pages for browsing are at one address and below, see paths that begin there,
// and ask for documents in the name of their client.
func TestExplorer(t *testing.T) {
	t.Parallel()
	type key struct{}
	documents := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _ := r.Context().Value(key{}).(string)
		_, _ = io.WriteString(w, "document "+r.URL.Path+" for "+name) // a recorder takes all
	})
	o := Options{BaseURL: "https://x.org/a%20b", Embedding: &Embedding{}, Explorer: func(baseURL string, own http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/read" {
				own.ServeHTTP(w, httptest.NewRequest(http.MethodGet, baseURL+"/list.xml", nil).WithContext(r.Context()))
				return
			}
			_, _ = io.WriteString(w, "page "+r.URL.String())
		})
	}}
	if got, want := o.exploreURI(), "https://x.org/a%20b/-/explore/"; got != want {
		t.Errorf("address %s, want %s", got, want)
	}
	f := &front{exploreDir: "/a%20b/-/explore/", explorer: o.explore(documents)}
	for target, want := range map[string]string{
		"/a%20b/-/explore/":           "page /",
		"/a%20b/-/explore/set?name=x": "page /set?name=x",
		"/a%20b/-/explore/a%2Fb/":     "page /a%2Fb/",
		"/a%20b/-/explore/read":       "document /a b/list.xml for reader",
		"/a%20b/-/explore/../x":       "404 page not found\n",
		"/a%20b/-/explore/%2e%2e/x":   "404 page not found\n",
		"/a%20b/-/explore":            "",
		"/a%20b/-/explorer":           "-",
		"/-/explore/":                 "-",
	} {
		r := httptest.NewRequest(http.MethodGet, target, nil)
		r = r.WithContext(context.WithValue(r.Context(), key{}, "reader"))
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
	if o.Explorer = nil; (&front{explorer: o.explore(documents)}).serveExplorer(nil, httptest.NewRequest(http.MethodGet, "/-/explore/", nil)) {
		t.Error("without an explorer there are pages")
	}
}
