package sitemap_test

import (
	"fmt"
	"strings"
	"testing"

	"lockstep/catalog"
	"lockstep/intake/sitemap"
)

// TestSitemapIndexesWithoutEnd reads indexes that are nested too deep, or lead to
// nothing a thousand times: the reading is incomplete, and nothing is deleted. As
// many Sitemaps without an entry are read.
func TestSitemapIndexesWithoutEnd(t *testing.T) {
	t.Parallel()
	const none = `<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"></sitemapindex>`
	many := func(to string, n int) (site map[string]string, locs []string) {
		site = map[string]string{}
		for i := range n {
			path := fmt.Sprintf("/m%d.xml", i)
			site[path], locs = to, append(locs, "BASE"+path)
		}
		return site, locs
	}
	deep := map[string]string{"/sitemap.xml": mapIndex("BASE/1.xml"), "/1.xml": mapIndex("BASE/2.xml"), "/2.xml": mapIndex("BASE/3.xml"), "/3.xml": none}
	barren, locs := many(none, 1200)
	barren["/sitemap.xml"] = mapIndex(locs...)
	empty, locs := many(urlset(), 1200)
	empty["/sitemap.xml"] = mapIndex(append(locs, "BASE/full.xml")...)
	empty["/full.xml"] = urlset(dated("/a", "2024-05-01"))
	for name, tt := range map[string]struct {
		site map[string]string
		says string
	}{"deep": {deep, "nested more than 3 deep"}, "barren": {barren, "1000 documents in a row"}, "empty": {empty, ""}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, cat := newWebSite(t), catalog.NewMem(nil)
			w.put(map[string]string{"/sitemap.xml": urlset(dated("/a", "2024-05-01"))})
			_, err := newSitemap(t, w, cat, sitemap.Options{}).Scan(t.Context())
			must(t, err)
			w.put(tt.site)
			r, err := newSitemap(t, w, cat, sitemap.Options{}).Scan(t.Context())
			must(t, err)
			if said := fmt.Sprint(r.Unreadable.First); (r.Unreadable.Count > 0) != (tt.says != "") || !strings.Contains(said, tt.says) {
				t.Errorf("%d unreadable: %.300s, want %q", r.Unreadable.Count, said, tt.says)
			}
			if got := paths(t, w, cat); got != "/a" {
				t.Errorf("the catalog holds %s", got)
			}
		})
	}
}
