package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// A site is a Source that is a plain Sitemap.
type site struct {
	mu    sync.Mutex // guards pages
	pages map[string]string
	gets  int
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.URL.Path == "/list.xml" {
		fmt.Fprintf(w, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="resourcelist" at="%s"/>`,
			time.Now().UTC().Format(time.RFC3339Nano))
		for path, text := range s.pages {
			fmt.Fprintf(w, `<url><loc>http://%s%s</loc><lastmod>2024-01-01T00:00:0%dZ</lastmod><rs:md length="%[4]d"/></url>`, r.Host, path, len(text)%10, len(text))
		}
		fmt.Fprint(w, `</urlset>`)
		return
	}
	text, ok := s.pages[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	s.gets++
	fmt.Fprint(w, text)
}

func TestSearch(t *testing.T) {
	t.Parallel()
	s := &site{pages: map[string]string{"/a": "a horse, a kingdom", "/b": "the winter of our discontent", "/c": "a winter's tale"}}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	dir := t.TempDir()
	try := func(want string, args ...string) {
		t.Helper()
		var out strings.Builder
		if err := run(t.Context(), args, &out); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, &out)
		}
		if got := strings.ReplaceAll(out.String(), srv.URL, ""); got != want {
			t.Fatalf("%q printed\n%swant\n%s", args, got, want)
		}
	}
	try("3 created, 0 updated, 0 deleted, 0 failed\n", "update", srv.URL+"/list.xml", dir)
	try("/b: the [winter] of our [discontent]\n", "find", dir, "winter AND discontent")
	s.mu.Lock()
	s.pages["/b"] = "the summer"
	delete(s.pages, "/c")
	s.mu.Unlock()
	try("0 created, 1 updated, 1 deleted, 0 failed\n", "update", srv.URL+"/list.xml", dir)
	try("", "find", dir, "winter")
	try("/b: the [summer]\n", "find", dir, "summer")
	if s.gets != 4 {
		t.Errorf("%d resources were fetched, want 4", s.gets)
	}
	if err := run(t.Context(), nil, nil); !errors.Is(err, errUsage) {
		t.Error(err)
	}
}
