package sitemap_test

import (
	"net/http"
	"testing"

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
