package discover_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/internal/freeport"
	"lockstep/resourcesync"
)

const (
	both = "main: resourcelist changelist; maps: resourcelist"
	main = "main: resourcelist changelist"
	maps = "maps: resourcelist"
)

// Requirements: RS-DISC-01, RS-DISC-02, RS-DISC-03, RS-DISC-09, RS-DISC-10, RS-DISC-11, RS-DISC-12, RS-IDX-09, RS-VER-06, RS-SD-10.
func TestFind(t *testing.T) {
	t.Parallel()
	below := site{"/.well-known/resourcesync": "", "/data/.well-known/resourcesync": usual()["/.well-known/resourcesync"]}
	tests := []struct {
		name, address string
		changes       site // to the usual site
		want          string
		all           bool
		requests      int64
	}{
		{name: "host", address: "NAME", want: both, all: true, requests: 4},
		{name: "base", address: "HOST", want: both, all: true, requests: 4},
		{name: "base with path", address: "HOST/articles/", want: both, all: true, requests: 4},
		{name: "base that links", address: "HOST/", changes: site{"/": usual()["/page.html"]}, want: both, all: true, requests: 5},
		{name: "base that is forbidden", address: "HOST/", changes: site{"/": "status 403"}, want: both, all: true, requests: 4},
		{name: "well-known", address: "HOST/.well-known/resourcesync", want: both, all: true, requests: 3},
		{name: "redirected well-known", address: "HOST", all: true, want: both, requests: 5,
			changes: site{"/sd.xml": usual()["/.well-known/resourcesync"], "/.well-known/resourcesync": "-> HOST/sd.xml"}},
		{name: "capability list", address: "HOST/rs/main/capabilitylist.xml", want: main, requests: 1},
		{name: "redirected capability list", address: "HOST/old", want: "old: resourcelist", requests: 2},
		{name: "resource list", address: "HOST/rs/maps/resourcelist.xml", want: maps, requests: 2},
		{name: "resource list index", address: "HOST/rs/main/resourcelist.xml", want: main, requests: 2},
		{name: "part", address: "HOST/rs/main/part1.xml", want: main, requests: 2},
		{name: "change list", address: "HOST/rs/main/changelist.xml", want: main, requests: 2},
		{name: "resource list with nothing above", address: "HOST/rs/maps/resourcelist.xml", want: "maps: resourcelist (alone)", requests: 1,
			changes: site{"/rs/maps/resourcelist.xml": doc(`capability="resourcelist"`+at, nil, `HOST/m`)}},
		{name: "part whose up is its index", address: "HOST/p.xml", requests: 3, want: main,
			changes: site{"/p.xml": doc(`capability="resourcelist"`+at, []string{"up HOST/rs/main/resourcelist.xml"})}},
		{name: "list whose up is the description", address: "HOST/rs/maps/resourcelist.xml", requests: 4, want: maps,
			changes: site{"/rs/maps/resourcelist.xml": doc(`capability="resourcelist"`+at, []string{"up HOST/.well-known/resourcesync"})}},
		{name: "part without up", address: "HOST/p.xml", requests: 3, want: main,
			changes: site{"/p.xml": doc(`capability="resourcelist"`+at, []string{"index HOST/rs/main/resourcelist.xml"})}},
		{name: "up by header", address: "HOST/p.xml", requests: 2, want: main,
			changes: site{"/p.xml": "Link: </rs/main/capabilitylist.xml>; rel=resourcesync\n\n" + doc(`capability="resourcelist"`+at, nil)}},
		{name: "page", address: "HOST/page.html", want: maps, requests: 2},
		{name: "Link header", address: "HOST/image", want: maps, requests: 2},
		{name: "Link header to the description", address: "HOST/x", requests: 4, want: both, all: true,
			changes: site{"/x": "Link: </.well-known/resourcesync>; rel=resourcesync\n\nx"}},
		{name: "robots", address: "HOST", all: true, want: both, requests: 8,
			changes: site{"/.well-known/resourcesync": "", "/sd.xml": usual()["/.well-known/resourcesync"], "/robots.txt": "Sitemap: HOST/rs/maps/resourcelist.xml\n",
				"/rs/maps/capabilitylist.xml": doc(`capability="capabilitylist"`, []string{"up HOST/sd.xml"}, `HOST/rs/maps/resourcelist.xml capability="resourcelist"`)}},
		{name: "robots with plain Sitemaps", address: "HOST", want: "news: resourcelist (alone); main: resourcelist (alone)", requests: 5,
			changes: site{"/.well-known/resourcesync": "", "/robots.txt": "Sitemap: HOST/news.xml\nSitemap: HOST/sitemap.xml", "/news.xml": doc("", nil, "HOST/n"), "/sitemap.xml": doc("", nil, "HOST/o")}},
		{name: "guess", address: "HOST/deep/", want: "deep: resourcelist (alone)", requests: 6,
			changes: site{"/.well-known/resourcesync": "", "/deep/sitemap.xml": doc("", nil, "HOST/n")}},
		{name: "well-known below the path", address: "HOST/data/", want: both, all: true, requests: 5, changes: below},
		{name: "well-known below the path without slash", address: "HOST/data", want: both, all: true, requests: 5, changes: below},
		{name: "well-known beside a page", address: "HOST/data/x/", want: both, all: true, requests: 6,
			changes: site{"/.well-known/resourcesync": "", "/data/x/": "-> HOST/data/start.html", "/data/start.html": "<html></html>", "/data/.well-known/resourcesync": usual()["/.well-known/resourcesync"]}},
		{name: "well-known below the path, the root forbidden", address: "HOST/data/", want: both, all: true, requests: 5,
			changes: site{"/.well-known/resourcesync": "status 403", "/data/.well-known/resourcesync": usual()["/.well-known/resourcesync"]}},
		{name: "guess at the root", address: "HOST/deep", want: "main: resourcelist (alone)", requests: 6,
			changes: site{"/.well-known/resourcesync": "", "/sitemap.xml": index("", nil, "HOST/n.xml")}},
		{name: "plain Sitemap", address: "HOST/sitemap.xml", changes: site{"/sitemap.xml": doc("", nil, "HOST/n")}, want: "main: resourcelist (alone)", requests: 1},
		{name: "dump", address: "HOST/resourcedump.xml", want: "main: resourcedump (alone)", requests: 1,
			changes: site{"/resourcedump.xml": doc(`capability="resourcedump"`+at, nil, "HOST/n.zip")}},
		{name: "description index", address: "HOST", want: both, all: true, requests: 5,
			changes: site{"/.well-known/resourcesync": index(`capability="description"`, nil, "HOST/sd.xml"), "/sd.xml": usual()["/.well-known/resourcesync"]}},
		{name: "capability list index", address: "HOST", want: both, all: true, requests: 4,
			changes: site{"/.well-known/resourcesync": index(`capability="capabilitylist"`, nil, "HOST/rs/main/capabilitylist.xml", "HOST/rs/maps/capabilitylist.xml")}},
		{name: "a set missing", address: "HOST", changes: site{"/rs/maps/capabilitylist.xml": ""}, want: "main: resourcelist changelist; maps: (error)", all: true, requests: 4},
		{name: "own list in place of the named one", address: "HOST/rs/own.xml", want: maps, requests: 2,
			changes: site{"/rs/own.xml": doc(`capability="resourcelist"`+at, []string{"up HOST/rs/maps/capabilitylist.xml"})}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := usual().with(tt.changes).serve(t)
			found, err := discover.Find(t.Context(), srv.client, srv.fill(tt.address))
			if err != nil {
				t.Fatal(err)
			}
			if got := summary(found.Sets); got != tt.want || found.All != tt.all || srv.requests.Load() != tt.requests {
				t.Errorf("Find(%s) = %s, all %v, by %d requests; want %s, all %v, by %d\nway: %s",
					tt.address, got, found.All, srv.requests.Load(), tt.want, tt.all, tt.requests, srv.strip(way(found)))
			}
			if len(found.Way) == 0 {
				t.Error("Find tells no way")
			}
		})
	}
}

func way(f *discover.Found) string {
	var b strings.Builder
	for _, s := range f.Way {
		b.WriteString("\n\t" + s.String())
	}
	return b.String()
}

// TestFindLinkedSets begins at a page whose header names every set of a Source:
// the first leads to all of them, and the others add no steps.
func TestFindLinkedSets(t *testing.T) {
	t.Parallel()
	srv := usual().with(site{"/": "Link: <HOST/rs/main/capabilitylist.xml>; rel=\"resourcesync\", <HOST/rs/maps/capabilitylist.xml>; rel=\"resourcesync\"\n\n<html></html>"}).serve(t)
	found, err := discover.Find(t.Context(), srv.client, srv.fill("HOST/"))
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Sets) != 2 || !found.All || srv.requests.Load() != 5 || strings.Contains(way(found), "of no use") {
		t.Errorf("%d sets, all %v, by %d requests, way: %s", len(found.Sets), found.All, srv.requests.Load(), srv.strip(way(found)))
	}
}

func TestFindFails(t *testing.T) {
	t.Parallel()
	bare := site{"/.well-known/resourcesync": ""}
	none := site{"/.well-known/resourcesync": "", "/rs/main/capabilitylist.xml": "", "/rs/maps/capabilitylist.xml": ""}
	login := "<html><body>Please log in</body></html>"
	tests := []struct {
		name, address string
		changes       site
		want          []string // parts of the error
	}{
		{"nothing", "HOST", bare, []string{"HOST: no ResourceSync document, Sitemap, Atom feed or OAI-PMH repository found", "404"}},
		{"dead link", "HOST/page.html", site{"/rs/maps/capabilitylist.xml": ""}, []string{"HOST/rs/maps/capabilitylist.xml: status 404"}},
		{"dead link up", "HOST/rs/maps/resourcelist.xml", none, []string{"HOST/rs/maps/resourcelist.xml: Resource List, and the link up", "HOST/rs/maps/capabilitylist.xml: status 404"}},
		{"login", "HOST", site{"/": login, "/.well-known/resourcesync": login, "/.well-known/resource-that-should-not-exist-whose-status-code-should-not-be-200": login, "/robots.txt": login, "/sitemap.xml": login, "/resourcelist.xml": login},
			[]string{"HOST: no ResourceSync document", "an HTML page"}},
		{"missing list", "HOST/rs/none.xml", nil, []string{"get HOST/rs/none.xml: status 404 Not Found"}},
		{"cut off", "HOST/cut.xml", site{"/cut.xml": usual()["/rs/main/capabilitylist.xml"][:300]}, []string{"read HOST/cut.xml: line "}},
		{"circle of up", "HOST/a.xml", site{
			"/a.xml": doc(`capability="resourcedump-manifest"`+at, []string{"up HOST/b.xml"}),
			"/b.xml": doc(`capability="resourcedump-manifest"`+at, []string{"up HOST/a.xml"})}, []string{"HOST/b.xml"}},
		{"circle of descriptions", "HOST", site{
			"/.well-known/resourcesync": doc(`capability="description"`, nil, `HOST/b.xml capability="capabilitylist"`),
			"/b.xml":                    doc(`capability="description"`, nil, `HOST/.well-known/resourcesync capability="capabilitylist"`)},
			[]string{"HOST/.well-known/resourcesync: the documents name each other in a circle"}},
		{"capability list of itself", "HOST/c.xml", site{"/c.xml": doc(`capability="capabilitylist"`, nil, `HOST/c.xml capability="resourcelist"`)},
			[]string{"read HOST/c.xml: the documents name each other in a circle"}},
		{"redirect loop", "HOST/l", site{"/l": "-> HOST/m", "/m": "-> HOST/l"}, []string{"get HOST/l: redirected to HOST/m: redirect to HOST/l not followed", "circle"}},
		{"no sets", "HOST/.well-known/resourcesync", site{"/.well-known/resourcesync": doc(`capability="description"`, nil)}, []string{"lists no set"}},
		{"manifest", "HOST/m.xml", site{"/m.xml": doc(`capability="resourcedump-manifest"`+at, nil)}, []string{"HOST/m.xml: Resource Dump Manifest"}},
		{"scheme", "gopher://x.example/", nil, []string{"gopher"}},
		{"empty", " ", nil, []string{"no address"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := usual().with(tt.changes).serve(t)
			found, err := discover.Find(t.Context(), srv.client, srv.fill(tt.address))
			if err == nil {
				t.Fatalf("Find(%s) = %s, want an error", tt.address, summary(found.Sets))
			}
			for _, want := range tt.want {
				if got := srv.strip(err.Error()); !strings.Contains(got, want) {
					t.Errorf("Find(%s): %s\nwant %q in it", tt.address, got, want)
				}
			}
		})
	}
}

func TestFindKeepsPasswords(t *testing.T) {
	t.Parallel()
	srv := usual().serve(t)
	for _, address := range []string{"http://me:secret@NAME", "me:secret@NAME"} {
		found, err := discover.Find(t.Context(), srv.client, srv.fill(address))
		if err != nil || strings.Contains(fmt.Sprintf("%+v", found), "secret") {
			t.Errorf("Find(%s) = %+v, %v, want no password in it", address, found, err)
		}
	}
}

func TestFindUnreachable(t *testing.T) {
	t.Parallel()
	address, err := freeport.Address(t.Context()) // where no other test listens later
	if err != nil {
		t.Fatal(err)
	}
	_, err = discover.Find(t.Context(), usual().serve(t).client, address)
	if err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("Find of a dead address: %v, want connection refused", err)
	}
}

func TestFindFile(t *testing.T) {
	t.Parallel()
	srv := usual().serve(t)
	file := filepath.Join(t.TempDir(), "list.xml")
	if err := os.WriteFile(file, []byte(srv.fill(srv.site["/rs/maps/resourcelist.xml"])), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := fetch.New(fetch.Options{AllowPrivate: true}) // a file may name addresses that only this machine can reach
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	for _, address := range []string{file, "file://" + filepath.ToSlash(file)} {
		found, err := discover.Find(t.Context(), client, address)
		if err != nil {
			t.Fatal(err)
		}
		if got := summary(found.Sets); got != maps || !strings.HasPrefix(found.Sets[0].URI(resourcesync.ResourceList), "file://") {
			t.Errorf("Find(%s) = %s at %s, want %s at the file", address, got, found.Sets[0].URI(resourcesync.ResourceList), maps)
		}
	}
	if _, err := discover.Find(t.Context(), client, filepath.Dir(file)); err == nil {
		t.Error("Find of a directory: no error")
	}
	if _, err := discover.Find(t.Context(), client, file+".none"); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("Find of no file: %v", err)
	}
}

func TestRefresh(t *testing.T) {
	t.Parallel()
	srv := usual().serve(t)
	found, err := discover.Find(t.Context(), srv.client, srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	requests, full := srv.requests.Load(), srv.full.Load()
	same, changed, err := discover.Refresh(t.Context(), srv.client, found)
	if err != nil || changed || summary(same.Sets) != both || srv.requests.Load() != requests+3 || srv.full.Load() != full {
		t.Errorf("Refresh = %v, %v, %v by %d requests, %d in full; want all unchanged, 3, 0",
			same, changed, err, srv.requests.Load()-requests, srv.full.Load()-full)
	}
	srv.site["/rs/maps/capabilitylist.xml"] = doc(`capability="capabilitylist"`, nil, `HOST/rs/maps/r.xml capability="resourcedump"`)
	now, changed, err := discover.Refresh(t.Context(), srv.client, found)
	if want := "main: resourcelist changelist; maps: resourcedump"; err != nil || !changed || summary(now.Sets) != want {
		t.Errorf("Refresh = %v, %v, %v, want %s", now, changed, err, want)
	}
	srv.site["/.well-known/resourcesync"] = doc(`capability="description"`, nil, `HOST/rs/main/capabilitylist.xml capability="capabilitylist"`)
	now, changed, err = discover.Refresh(t.Context(), srv.client, found)
	if err != nil || !changed || summary(now.Sets) != main || !now.All {
		t.Errorf("Refresh = %v, %v, %v, want %s", now, changed, err, main)
	}
}
