package sitemap_test

import (
	"net/http"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/catalog"
	"lockstep/intake/sitemap"
)

// TestSitemapMoves: resources that move from one part of an index to another while these are
// read are not taken for deleted; others are deleted as ever.
func TestSitemapMoves(t *testing.T) {
	t.Parallel()
	for _, plain := range []bool{false, true} {
		w, cat := newWebSite(t), catalog.NewMem(nil)
		w.plain = plain
		if _, err := cat.Mark(t.Context(), set); err != nil { // changes are recorded from now on
			t.Fatal(err)
		}
		const day = "2024-05-01"
		w.put(map[string]string{
			"/sitemap.xml": mapIndex("BASE/1.xml", "BASE/2.xml"),
			"/1.xml":       urlset(dated("/a", day)),
			"/2.xml":       urlset(dated("/b", day), dated("/c", day), dated("/d", day), dated("/e", day)),
		})
		s := newSitemap(t, w, cat, sitemap.Options{})
		scan := func(want, holds string) {
			t.Helper()
			r, err := s.Scan(t.Context())
			must(t, err)
			if got := counts(r); got != want {
				t.Errorf("plain %v: %s, want %s", plain, got, want)
			}
			if got := paths(t, w, cat); got != holds {
				t.Errorf("plain %v: the catalog holds %s, want %s", plain, got, holds)
			}
		}
		scan("5 created, 0 updated, 0 deleted, 0 unchanged, 5 listed, 0 unreadable", "/a /b /c /d /e")

		// c is deleted; b moves during the first reading, and d during the next one.
		w.put(map[string]string{"/2.xml": urlset(dated("/b", day), dated("/d", day), dated("/e", day))})
		moves := []map[string]string{
			{"/1.xml": urlset(dated("/a", day), dated("/b", day)), "/2.xml": urlset(dated("/d", day), dated("/e", day))},
			{"/1.xml": urlset(dated("/a", day), dated("/b", day), dated("/d", day)), "/2.xml": urlset(dated("/e", day))},
		}
		read := 0 // readings of all documents that have begun
		w.mu.Lock()
		w.then = func(r *http.Request) {
			if r.URL.Path == "/1.xml" && read < len(moves) && (read == 0 || r.Header.Get("If-None-Match") == "") {
				w.put(moves[read])
				read++
			}
		}
		w.mu.Unlock()
		scan("0 created, 0 updated, 1 deleted, 3 unchanged, 3 listed, 0 unreadable", "/a /b /d /e")
		if read != 2 {
			t.Errorf("plain %v: %d moves", plain, read)
		}
		scan("0 created, 0 updated, 0 deleted, 4 unchanged, 4 listed, 0 unreadable", "/a /b /d /e")
		for c, err := range cat.Changes(t.Context(), set, 0) {
			must(t, err)
			if c.Change.String() == "deleted" && c.URI != w.URL+"/c" {
				t.Errorf("plain %v: %s was deleted", plain, c.URI)
			}
		}

		// Without moves a deletion needs no other reading of documents with validators.
		w.put(map[string]string{"/2.xml": urlset()})
		scan("0 created, 0 updated, 1 deleted, 3 unchanged, 3 listed, 0 unreadable", "/a /b /d")
		if took := w.took(); !plain && (took["/1.xml"] != 0 || took["/2.xml"] != 1) {
			t.Errorf("answers %v", took)
		}
	}
}

// TestSitemapDoubt: while it is in doubt whether a resource is gone, the next scan reads again
// only the document that listed it, and the index.
func TestSitemapDoubt(t *testing.T) {
	t.Parallel()
	w, cat := newWebSite(t), catalog.NewMem(nil)
	const day = "2024-05-01"
	w.put(map[string]string{
		"/sitemap.xml": mapIndex("BASE/1.xml", "BASE/2.xml", "BASE/3.xml", "BASE/4.xml"),
		"/1.xml":       urlset(dated("/a", day)),
		"/2.xml":       urlset(dated("/b", day), dated("/c", day), dated("/d", day)),
		"/3.xml":       urlset(dated("/e", day)),
		"/4.xml":       urlset(dated("/f", day)),
	})
	state := filepath.Join(t.TempDir(), "state.json")
	scan := func(holds string, took map[string]int) {
		t.Helper()
		_, err := newSitemap(t, w, cat, sitemap.Options{State: state}).Scan(t.Context())
		must(t, err)
		if got := paths(t, w, cat); got != holds {
			t.Errorf("the catalog holds %s, want %s", got, holds)
		}
		if diff := cmp.Diff(took, w.took()); took != nil && diff != "" {
			t.Errorf("requests (-want +got)\n%s", diff)
		}
	}
	scan("/a /b /c /d /e /f", nil)

	// c is deleted, and 1.xml changes while documents are read: so all are read again, and
	// meanwhile d is deleted.
	w.put(map[string]string{"/2.xml": urlset(dated("/b", day), dated("/d", day))})
	changes := []map[string]string{
		{"/1.xml": urlset(dated("/a", day), dated("/g", day))},
		{"/2.xml": urlset(dated("/b", day))},
	}
	done := 0
	w.mu.Lock()
	w.then = func(r *http.Request) {
		if r.URL.Path == "/1.xml" && done < len(changes) && (done == 0 || r.Header.Get("If-None-Match") == "") {
			w.put(changes[done])
			done++
		}
	}
	w.mu.Unlock()
	scan("/a /b /d /e /f /g", nil)
	if done != len(changes) {
		t.Fatalf("%d changes", done)
	}
	scan("/a /b /e /f /g", map[string]int{"/sitemap.xml": 1, "/2.xml": 1})
	scan("/a /b /e /f /g", map[string]int{})

	// While a part cannot be read nothing is deleted.
	w.put(map[string]string{"/2.xml": urlset(), "/3.xml": "busy"})
	scan("/a /b /e /f /g", map[string]int{"/2.xml": 1, "/3.xml": 1})
	scan("/a /b /e /f /g", map[string]int{"/sitemap.xml": 1, "/2.xml": 1, "/3.xml": 1})
	w.put(map[string]string{"/3.xml": urlset(dated("/e", day))})
	scan("/a /e /f /g", map[string]int{"/sitemap.xml": 1, "/2.xml": 1, "/3.xml": 1})
	scan("/a /e /f /g", map[string]int{})
}
