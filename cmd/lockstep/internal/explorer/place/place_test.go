package place_test

import (
	"archive/zip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"lockstep/cmd/lockstep/internal/explorer/outline"
	"lockstep/cmd/lockstep/internal/explorer/place"
	"lockstep/destination"
	"lockstep/destination/journal"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/oaipmh/oaipmhtest"
	"lockstep/resourcesync"
)

// describe opens an address and returns its description, with all parts read.
func describe(t *testing.T, address string, edit func(*place.Options)) (*outline.Place, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	client, err := fetch.New(fetch.Options{Home: discover.Home(address), Retries: -1, AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	o := place.Options{Address: address, Client: client, Dir: t.TempDir(), Start: func(task func(context.Context)) {
		running.Go(func() { task(ctx) })
	}}
	if edit != nil {
		edit(&o)
	}
	p, err := place.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	out, err := outline.Of(ctx, p, outline.Options{All: true, Entries: 2})
	if err != nil {
		t.Fatal(err)
	}
	return out, nil
}

// check opens an address, and compares what is there with its kind and its first list.
func check(t *testing.T, address, kind, title string, parts int, entries int64, edit func(*place.Options)) *outline.Place {
	t.Helper()
	p, err := describe(t, address, edit)
	if err != nil {
		t.Fatal(err)
	}
	if p.Kind != kind || len(p.Sets) == 0 || len(p.Sets[0].Lists) == 0 {
		t.Fatalf("%s is %+v, want a %s", address, p, kind)
	}
	l := p.Sets[0].Lists[0]
	if l.Title != title || l.PartsRead != parts || l.Parts != parts || l.Entries != entries || l.More || l.Error != "" {
		t.Errorf("%s: %+v; want %s with %d entries in %d parts", address, l, title, entries, parts)
	}
	return p
}

func served(t *testing.T, files map[string]string) string {
	t.Helper()
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, strings.ReplaceAll(text, "BASE", server.URL))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

const sitemap = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>BASE/a</loc></url><url><loc>BASE/b</loc><lastmod>2026-01-02</lastmod></url></urlset>`

func TestSitemap(t *testing.T) {
	t.Parallel()
	base := served(t, map[string]string{"/sitemap.xml": sitemap})
	check(t, base+"/sitemap.xml", place.Sitemap, "Sitemap", 1, 2, nil)
	index := served(t, map[string]string{"/a.xml": sitemap, "/b.xml": sitemap,
		"/sitemap.xml": `<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><sitemap><loc>BASE/a.xml</loc></sitemap><sitemap><loc>BASE/b.xml</loc></sitemap><sitemap><loc>BASE/a.xml</loc></sitemap></sitemapindex>`})
	check(t, index+"/sitemap.xml", place.Sitemap, "Sitemap Index", 2, 4, nil)
}

func feedDocument(extra, entries string) string {
	return `<feed xmlns="http://www.w3.org/2005/Atom" xmlns:fh="http://purl.org/syndication/history/1.0"><id>urn:x:feed</id><title>News &lt;b&gt;</title><author><name>A</name></author><updated>2026-01-02T03:04:05Z</updated>` + extra + entries + `</feed>`
}

func feedEntry(n int) string {
	return fmt.Sprintf(`<entry><id>urn:x:%d</id><title>T</title><updated>2026-01-01T00:00:0%dZ</updated><link rel="alternate" href="BASE/%d" type="text/html"/></entry>`, n, n, n)
}

// TestFeed reads a feed from its subscription document to its oldest archive, which leads
// back to itself.
func TestFeed(t *testing.T) {
	t.Parallel()
	base := served(t, map[string]string{
		"/feed.xml": feedDocument(`<link rel="self" href="BASE/feed.xml"/><link rel="prev-archive" href="BASE/old.xml"/>`, feedEntry(3)),
		"/old.xml":  feedDocument(`<fh:archive/><link rel="self" href="BASE/old.xml"/><link rel="current" href="BASE/feed.xml"/><link rel="prev-archive" href="BASE/old.xml"/>`, feedEntry(2)+feedEntry(1)),
	})
	p := check(t, "atom-pmh:"+base+"/feed.xml", place.Feed, "Atom-PMH feed", 2, 3, nil)
	if row := p.Sets[0].Lists[0].Rows[0]; row.URI != base+"/3" || row.Kind != "active" || row.Type != "text/html" {
		t.Errorf("the first entry is %+v", row)
	}
}

func TestRepository(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(oaipmhtest.New(oaipmhtest.Options{Records: 250, PageSize: 100, Sets: []string{"even", "odd"}}))
	t.Cleanup(server.Close)
	p := check(t, "oai-pmh:"+server.URL, place.Repository, "OAI-PMH repository", 3, 250, nil)
	if len(p.Sets) != 3 || p.Sets[1].Lists[0].Entries != 125 {
		t.Errorf("the sets are %+v", p.Sets)
	}
}

func writePackage(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	for member, text := range map[string]string{"a.txt": "a", "manifest.xml": `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="resourcedump-manifest" at="2026-01-01"/><url><loc>http://example.org/a</loc><rs:md path="/a.txt"/></url><url><loc>http://example.org/b</loc><rs:md path="/b.txt"/></url></urlset>`} {
		w, err := z.Create(member)
		if err == nil {
			_, err = io.WriteString(w, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestFiles opens a package and documents in files, and says what a directory is not.
func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(strings.ReplaceAll(text, "BASE", "http://example.org")), 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	writePackage(t, filepath.Join(dir, "dump.zip"))
	p := check(t, filepath.Join(dir, "dump.zip"), place.Package, "ZIP package, Manifest of a Resource Dump", 1, 2, nil)
	if rows := p.Sets[0].Lists[0].Rows; len(rows) != 2 || rows[0].Path != "a.txt" || rows[1].Path != "" || !strings.Contains(rows[1].Facts[0].Value, "no such member") {
		t.Errorf("the members are %+v", rows)
	}
	check(t, write("list #1.xml", sitemap), place.Document, "Sitemap", 1, 2, nil)
	check(t, write("feed.atom", feedDocument("", feedEntry(1))), place.Document, "Atom-PMH feed", 1, 1, nil)
	if p, err := describe(t, write("text.txt", "no document"), nil); err != nil || p.Sets[0].Lists[0].Error == "" {
		t.Errorf("a text: %+v, %v", p, err)
	}
	if _, err := describe(t, dir, nil); err == nil || !strings.Contains(err.Error(), "neither a mirror nor a published Source") {
		t.Errorf("a directory: %v", err)
	}
}

// TestPackageOverTheNetwork opens a package from a server that sends no parts.
func TestPackageOverTheNetwork(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "dump.zip")
	writePackage(t, name)
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	base := served(t, map[string]string{"/dump.zip": string(content), "/package": string(content)})
	check(t, base+"/dump.zip", place.Package, "ZIP package, Manifest of a Resource Dump", 1, 2, nil)
	check(t, base+"/package", place.Package, "ZIP package, Manifest of a Resource Dump", 1, 2, nil)
}

// TestArchive opens a document that discovery has no use for.
func TestArchive(t *testing.T) {
	t.Parallel()
	base := served(t, map[string]string{"/archive.xml": `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="changelist-archive"/><url><loc>BASE/cl.xml</loc><rs:md from="2026-01-01" until="2026-02-01"/></url></urlset>`})
	check(t, base+"/archive.xml", place.Document, "Change List Archive", 1, 1, nil)
}

// TestResync opens what the program resync-build (Python) wrote.
func TestResync(t *testing.T) {
	t.Parallel()
	site := filepath.Join("..", "..", "..", "testdata", "interop", "site")
	files := map[string]string{}
	for _, name := range []string{"capabilitylist.xml", "resourcelist.xml", "changelist.xml", "changelist-after.xml"} {
		text, err := os.ReadFile(filepath.Join(site, name))
		if err != nil {
			t.Fatal(err)
		}
		files["/"+name] = string(text)
	}
	base := served(t, files)
	check(t, filepath.Join(site, "resourcelist.xml"), place.Document, "Resource List", 1, 5, nil)
	p := check(t, filepath.Join(site, "changelist-after.xml"), place.Document, "Change List", 1, 3, nil)
	if kinds := p.Sets[0].Lists[0].Kinds; len(kinds) == 0 {
		t.Errorf("no changes: %+v", p)
	}
	if p, err := describe(t, base+"/resourcelist.xml", nil); err != nil || p.Sets[0].Lists[0].Entries != 5 {
		t.Errorf("over the network: %+v, %v", p, err)
	}
}

// TestMirror shows what a mirror has recorded, in parts.
func TestMirror(t *testing.T) {
	t.Parallel()
	var j journal.Mem
	var batch journal.Batch
	for n := range 60_000 {
		batch.Put = append(batch.Put, journal.Held{URI: fmt.Sprintf("http://example.org/%06d", n), Path: fmt.Sprint(n), Length: 3, Type: "text/plain", Hashes: resourcesync.Hashes{}})
	}
	if err := j.Record(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	p := check(t, t.TempDir(), place.Mirror, "Mirror", 2, 60_000, func(o *place.Options) {
		o.Mirror = func(context.Context, string) (*place.MirrorState, bool, error) {
			return &place.MirrorState{MirrorState: destination.MirrorState{Source: "http://example.org/"}, Journal: &j, Close: func() error { return nil }}, true, nil
		}
	})
	if p.Source != "http://example.org/" {
		t.Errorf("its Source is %s", p.Source)
	}
}
