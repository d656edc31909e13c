package bulk

import (
	"archive/zip"
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/destination/internal/dump"
	"lockstep/destination/internal/transfer"
	"lockstep/resourcesync"
)

const manifestHead = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:md capability="resourcedump-manifest" at="2024-05-01T02:00:00Z"/><rs:ln rel="up" href="http://x/capabilitylist.xml"/>`

// manifestText is a manifest of files that are at base.
func manifestText(base string, names ...string) string {
	var b strings.Builder
	b.WriteString(manifestHead)
	for _, name := range names {
		uri, path, _ := strings.Cut(name, "=")
		if path == "" {
			path = uri
		}
		fmt.Fprintf(&b, "<url><loc>%s/r/%s</loc><rs:md path=\"/%s\"/></url>\n", base, uri, path)
	}
	b.WriteString("</urlset>")
	return b.String()
}

// entry returns the entry of the package in a dump.
func (g *packageRig) entry(contents ...string) *resourcesync.Entry {
	e := &resourcesync.Entry{Loc: g.srv.URL + "/p.zip"}
	for _, path := range contents {
		e.Links = append(e.Links, resourcesync.Link{Rel: "contents", Href: g.srv.URL + path})
	}
	return e
}

// read reads the manifest of the package.
func (g *packageRig) read(shelf *dump.Shelf, e *resourcesync.Entry) (paths []string, c dump.Copy, err error) {
	m, err := g.opener.OpenManifest(g.t.Context(), e, shelf, true, allowAll)
	if err != nil {
		return nil, c, err
	}
	defer m.Close()
	if m.Header.Capability != resourcesync.ResourceDumpManifest {
		g.t.Errorf("it is a %s", m.Header.Capability)
	}
	for e, err := range m.Entries() {
		if err != nil {
			return paths, c, err
		}
		paths = append(paths, e.Path)
	}
	g.warnings = append(g.warnings, m.Warnings()...)
	return paths, m.Copy(), nil
}

// TestManifest: the manifest of a package is read from beside it, or from
// inside.
func TestManifest(t *testing.T) {
	t.Parallel()
	index := strings.NewReplacer("urlset", "sitemapindex").Replace(manifestHead) +
		`<sitemap><loc>http://example.com/x</loc><rs:md path="/m/1.xml"/></sitemap>
		<sitemap><loc>/m/2.xml</loc></sitemap></sitemapindex>`
	loop := strings.NewReplacer("urlset", "sitemapindex").Replace(manifestHead) +
		`<sitemap><loc>/manifest.xml</loc></sitemap></sitemapindex>`
	long := map[string]string{"manifest.xml": manifestText("http://x", "a", "b"), "long": strings.Repeat("x", 300_000)}
	one := manifestText("http://x", "a", "b")
	tests := map[string]struct {
		pack     map[string]string
		contents string // of the copy
		noRanges bool
		want     []string
		warns    bool
		err      string
	}{
		"copy":              {map[string]string{}, one, false, []string{"/a", "/b"}, false, ""},
		"inside":            {map[string]string{"manifest.xml": one}, "", false, []string{"/a", "/b"}, false, ""},
		"inside, far":       {long, "", false, []string{"/a", "/b"}, false, ""},
		"inside, no ranges": {long, "", true, []string{"/a", "/b"}, false, ""},
		"in a folder":       {map[string]string{"x/manifest.xml": one}, "", false, []string{"/a", "/b"}, true, ""},
		"copy is no XML":    {map[string]string{"manifest.xml": one}, "gone fishing", false, []string{"/a", "/b"}, false, ""},
		"nowhere":           {map[string]string{"a": "1"}, "", false, nil, false, "manifest: there is none"},
		"neither":           {map[string]string{"a": "1"}, "gone fishing", false, nil, false, "nor in the package"},
		"no XML":            {map[string]string{"manifest.xml": "gone fishing"}, "", false, nil, false, "manifest"},
		"half":              {map[string]string{"manifest.xml": one[:len(one)-60]}, "", false, []string{"/a"}, false, "manifest.xml"},
		"index":             {map[string]string{"manifest.xml": index, "m/1.xml": one, "m/2.xml": manifestText("http://x", "c")}, "", false, []string{"/a", "/b", "/c"}, true, ""},
		"index, copied":     {map[string]string{"manifest.xml": index, "m/1.xml": one, "m/2.xml": manifestText("http://x", "c")}, index, false, []string{"/a", "/b", "/c"}, true, ""},
		"index, part gone":  {map[string]string{"manifest.xml": index, "m/1.xml": one}, "", false, nil, false, "m/2.xml is not in the package"},
		"index of indexes":  {map[string]string{"manifest.xml": loop}, "", false, nil, false, "an index leads to an index"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newPackageRig(t, packOf(t, tt.pack, zip.Deflate))
			if name == "inside, far" {
				g.body = packOf(t, tt.pack, zip.Store)
			}
			g.answer = func(w http.ResponseWriter, r *http.Request) bool {
				switch {
				case r.URL.Path == "/contents.xml":
					http.ServeContent(w, r, "", time.Time{}, strings.NewReader(tt.contents))
				case tt.noRanges:
					_, _ = w.Write(g.served())
				default:
					return false
				}
				return true
			}
			var contents []string
			if tt.contents != "" {
				contents = append(contents, "/contents.xml")
			}
			got, _, err := g.read(new(dump.Shelf), g.entry(contents...))
			if !slices.Equal(got, tt.want) || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("entries %q, %v, want %q, %q", got, err, tt.want, tt.err)
			}
			if (len(g.warnings) > 0) != tt.warns {
				t.Errorf("warnings: %q", g.warnings)
			}
		})
	}
}

// TestManifestShelf: a package that can only be fetched whole is fetched once, for its
// manifest and for its members.
func TestManifestShelf(t *testing.T) {
	t.Parallel()
	files := someFiles(20, 6_000_000)
	files["manifest.xml"] = manifestText("http://x", "a")
	g := newPackageRig(t, packOf(t, files, zip.Store))
	g.answer = func(w http.ResponseWriter, r *http.Request) bool {
		_, _ = w.Write(g.served())
		return true
	}
	shelf := new(dump.Shelf)
	if _, _, err := g.read(shelf, g.entry()); err != nil {
		t.Fatal(err)
	}
	job := g.bare(files, sumOf(g.body)) // which was not known when it was fetched
	job.Shelf = shelf
	g.get(job)
	g.expect(files)
	if len(g.requests()) > 1 {
		t.Errorf("%d requests", len(g.requests()))
	}

	if _, _, err := g.read(shelf, g.entry()); err != nil {
		t.Fatal(err)
	}
	g.outcomes = map[string]transfer.Outcome{}
	job.Hashes = sumOf([]byte("another"))
	for _, a := range job.Wanted {
		a.URI += "-2"
	}
	g.p.get(t.Context(), job)
	if len(g.outcomes) > 0 || len(g.requests()) > 3 { // again, bypassing caches
		t.Errorf("%d were taken, %d requests", len(g.outcomes), len(g.requests()))
	}
	shelf.Clear()
}

// TestManifestDiffers: where the copy differs from the manifest in the package,
// the one inside determines the paths of members (RS-ZIP-10).
func TestManifestDiffers(t *testing.T) {
	t.Parallel()
	files := someFiles(5)
	g := newPackageRig(t, nil)
	moved := map[string]string{}
	var names, now []string
	for _, name := range sorted(maps.Keys(files)) {
		if name == "manifest.xml" {
			continue
		}
		moved["moved/"+name] = files[name]
		names, now = append(names, name), append(now, name+"=moved/"+name)
	}
	outside, inside := manifestText(g.srv.URL, names...), manifestText(g.srv.URL, now...)
	moved["manifest.xml"] = inside
	g.body = packOf(t, moved, zip.Deflate)
	delete(files, "manifest.xml")
	g.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/contents.xml" {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader([]byte(outside)))
		}
		return r.URL.Path == "/contents.xml"
	}
	_, c, err := g.read(new(dump.Shelf), g.entry("/contents.xml"))
	if err != nil || c.Size != int64(len(outside)) {
		t.Fatalf("%+v, %v", c, err)
	}
	job := g.job(files)
	job.Copy = c
	g.get(job)
	if len(g.singles) > 0 || len(g.warnings) != 1 || !strings.Contains(g.warnings[0], "the one inside counts") {
		t.Errorf("handed back %q, warnings %q", g.singles, g.warnings)
	}
	g.warnings = nil
	g.expect(files)

	g.outcomes, outside = map[string]transfer.Outcome{}, inside
	if _, job.Copy, err = g.read(new(dump.Shelf), g.entry("/contents.xml")); err != nil {
		t.Fatal(err)
	}
	for _, a := range job.Wanted {
		a.Member.Path = "/moved" + a.Member.Path
		a.URI += "-2"
	}
	g.get(job)
	if len(g.singles)+len(g.warnings) > 0 {
		t.Errorf("handed back %q, warnings %q", g.singles, g.warnings)
	}
}

// allowAll lets a Source name any address.
func allowAll(string) string { return "" }
