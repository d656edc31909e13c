package sitemap_test

import (
	"testing"

	"lockstep/catalog"
	"lockstep/intake/sitemap"
)

// TestSitemapEntriesWithoutLoc: an entry that does not say which resource it is
// about leaves the reading of a Sitemap incomplete, so that nothing is deleted.
func TestSitemapEntriesWithoutLoc(t *testing.T) {
	t.Parallel()
	const old = "2024-05-01"
	for name, bad := range map[string]string{
		"no loc":             "<url><lastmod>2024</lastmod></url>",
		"words":              "<url><loc>not a uri</loc></url>",
		"bad host":           "<url><loc>http://[::1/b</loc></url>",
		"bad escape":         "<url><loc>BASE/%zz</loc></url>",
		"no namespace":       `<url xmlns=""><loc>BASE/b</loc></url>`,
		"misspelt namespace": `<url xmlns="http://www.sitemaps.org/schemas/sitemap/9.0"><loc>BASE/b</loc></url>`,
		"in an element":      `<x:group xmlns:x="urn:x"><url><loc>BASE/b</loc></url></x:group>`,
		"two locs":           "<url><loc>BASE/b</loc><loc>BASE/z</loc></url>",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, index := range []bool{false, true} {
				w, cat := newWebSite(t), catalog.NewMem(nil)
				doc := "/sitemap.xml"
				if index {
					doc = "/1.xml"
					w.put(map[string]string{"/sitemap.xml": mapIndex("BASE/1.xml")})
				}
				scan := func(incomplete bool, want string, entries ...string) {
					t.Helper()
					w.put(map[string]string{doc: urlset(entries...)})
					r, err := newSitemap(t, w, cat, sitemap.Options{}).Scan(t.Context())
					must(t, err)
					if got := r.Unreadable.Count > 0; got != incomplete {
						t.Errorf("incomplete: %v, want %v: %v", got, incomplete, r.Unreadable.First)
					}
					if got := paths(t, w, cat); got != want {
						t.Errorf("the catalog holds %s, want %s", got, want)
					}
				}
				scan(false, "/a /b /c", dated("/a", old), dated("/b", old), dated("/c", old))
				scan(true, "/a /b /c /d", dated("/a", old), bad, dated("/d", old))
				scan(false, "/a /d", dated("/a", old), dated("/d", old))
			}
		})
	}
}

// TestSitemapMalformedFields: an entry of which a field is malformed still lists its
// resource, which is kept, without what cannot be published.
func TestSitemapMalformedFields(t *testing.T) {
	t.Parallel()
	w, cat := newWebSite(t), catalog.NewMem(nil)
	for _, field := range []string{
		"", `<rs:md encoding="g zip"/>`, `<rs:md encoding="é" type="text/plain"/>`, `<rs:md type="junk type"/>`, `<rs:md length="-5" hash="md5:zz"/>`,
		`<lastmod>yesterday</lastmod>`, `<rs:ln rel="my own" href="http://x.example/" encoding="g zip"/>`,
	} {
		entry := "<url><loc>BASE/b</loc>" + field + "</url>"
		w.put(map[string]string{"/sitemap.xml": urlset(dated("/a", "2024-05-01"), entry)})
		r, err := newSitemap(t, w, cat, sitemap.Options{}).Scan(t.Context())
		must(t, err)
		if got := paths(t, w, cat); got != "/a /b" || r.Unreadable.Count > 0 {
			t.Errorf("%s: the catalog holds %s, want /a /b; %v", field, got, r.Unreadable.First)
		}
	}
}
