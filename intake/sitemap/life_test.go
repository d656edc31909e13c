package sitemap_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/catalog"
	"lockstep/intake/sitemap"
)

// A mapLife is a site whose Sitemap changes at random: resources come, change,
// go, and move from part to part; some are listed by two; parts come and go,
// and some cannot be read for a while.
type mapLife struct {
	w     *webSite
	rnd   *rand.Rand
	parts map[string]map[string]string // part to resource to lastmod
	stamp int
}

func (l *mapLife) step() {
	for range 1 + l.rnd.IntN(4) {
		part := fmt.Sprintf("/%d.xml", l.rnd.IntN(4))
		uri := fmt.Sprintf("/r%02d", l.rnd.IntN(30))
		switch l.rnd.IntN(7) {
		case 0:
			delete(l.parts, part)
		case 1:
			other := fmt.Sprintf("/%d.xml", l.rnd.IntN(4))
			if l.parts[part] != nil && l.parts[other] != nil {
				l.parts[other], l.parts[part] = l.parts[part], l.parts[other]
			}
		case 2:
			delete(l.parts[part], uri)
		default:
			if l.parts[part] == nil {
				l.parts[part] = make(map[string]string)
			}
			for _, p := range l.parts { // a resource has the same lastmod in all documents
				if _, ok := p[uri]; ok {
					p[uri] = l.date()
				}
			}
			if listedBy(l.parts, uri) == 0 || l.rnd.IntN(4) == 0 {
				l.parts[part][uri] = l.date()
			}
			for _, p := range l.parts {
				if _, ok := p[uri]; ok {
					p[uri] = l.date()
				}
			}
		}
		l.stamp++
	}
}

func listedBy(parts map[string]map[string]string, uri string) (n int) {
	for _, p := range parts {
		if _, ok := p[uri]; ok {
			n++
		}
	}
	return n
}

func (l *mapLife) date() string {
	return time.Unix(int64(1.7e9)+int64(l.stamp), 0).UTC().Format(time.RFC3339)
}

// publish puts the pages out, with the broken part broken.
func (l *mapLife) publish(broken string) {
	pages := make(map[string]string)
	for i := range 4 {
		pages[fmt.Sprintf("/%d.xml", i)] = ""
	}
	var locs []string
	for _, part := range slices.Sorted(maps.Keys(l.parts)) {
		locs = append(locs, "BASE"+part)
		var entries []string
		for _, uri := range slices.Sorted(maps.Keys(l.parts[part])) {
			entries = append(entries, dated(uri, l.parts[part][uri]))
		}
		l.rnd.Shuffle(len(entries), func(i, k int) { entries[i], entries[k] = entries[k], entries[i] })
		pages[part] = urlset(entries...)
		if part == broken {
			pages[part] = pages[part][:len(pages[part])*2/3]
		}
	}
	pages["/sitemap.xml"] = mapIndex(locs...)
	if len(locs) == 0 {
		pages["/sitemap.xml"] = `<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"/>`
	}
	l.w.put(pages)
}

// want is what the parts list: URI to lastmod.
func (l *mapLife) want() map[string]string {
	m := make(map[string]string)
	for _, p := range l.parts {
		for uri, date := range p {
			m[l.w.URL+uri] = date
		}
	}
	return m
}

// TestSitemapLife sees to it that what is read in part comes to the same as
// what is read whole, in one life or in many.
func TestSitemapLife(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			l := &mapLife{w: newWebSite(t), rnd: rand.New(rand.NewPCG(seed, 1)), parts: make(map[string]map[string]string)}
			cat := catalog.NewMem(nil)
			o := sitemap.Options{State: filepath.Join(t.TempDir(), "state"), AllowEmpty: true}
			s := newSitemap(t, l.w, cat, o)
			for i := range 60 {
				l.step()
				broken := ""
				if l.rnd.IntN(4) == 0 {
					broken = fmt.Sprintf("/%d.xml", l.rnd.IntN(4))
				}
				l.publish(broken)
				if l.rnd.IntN(3) == 0 {
					s = newSitemap(t, l.w, cat, o)
				}
				before := lastmods(t, cat)
				r, err := s.Scan(t.Context())
				must(t, err)
				got, want := lastmods(t, cat), l.want()
				if r.Unreadable.Count > 0 {
					if r.Deleted > 0 {
						t.Fatalf("step %d: %d deleted, but %v", i, r.Deleted, r.Unreadable.First)
					}
					for uri := range before {
						if _, ok := got[uri]; !ok {
							t.Fatalf("step %d: %s is gone, but %v", i, uri, r.Unreadable.First)
						}
					}
					continue
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("step %d: %s (-want +got)\n%s", i, counts(r), diff)
				}
			}
		})
	}
}

func lastmods(t *testing.T, cat catalog.Catalog) map[string]string {
	t.Helper()
	m := make(map[string]string)
	for r, err := range cat.Resources(t.Context(), set, catalog.Range{}) {
		must(t, err)
		m[r.URI] = r.Lastmod.Format(time.RFC3339)
	}
	return m
}
