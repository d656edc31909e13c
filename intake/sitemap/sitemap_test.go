package sitemap_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/sitemap"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// A webSite answers what it holds, with entity tags, and counts.
type webSite struct {
	*httptest.Server
	mu    sync.Mutex // guards pages and asked
	pages map[string]string
	asked map[string]int        // answers other than 304
	plain bool                  // answers have no validators
	then  func(r *http.Request) // called after an answer; may be nil
}

func newWebSite(t *testing.T) *webSite {
	t.Helper()
	w := &webSite{pages: make(map[string]string), asked: make(map[string]int)}
	w.Server = httptest.NewServer(w)
	t.Cleanup(w.Close)
	return w
}

func (w *webSite) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	text, ok := w.pages[r.URL.Path]
	tag := fmt.Sprintf(`"%x"`, of([]byte(text)))
	if r.Header.Get("If-None-Match") != tag {
		w.asked[r.URL.Path]++
	}
	plain, then := w.plain, w.then
	w.mu.Unlock()
	if then != nil {
		defer then(r)
	}
	switch {
	case !ok:
		http.NotFound(rw, r)
	case text == "busy":
		http.Error(rw, "busy", http.StatusForbidden)
	default:
		if !plain {
			rw.Header().Set("ETag", tag)
		}
		rw.Header().Set("Content-Type", "text/x-test")
		http.ServeContent(rw, r, "", time.Time{}, strings.NewReader(text))
	}
}

// put replaces pages; an empty text removes one.
func (w *webSite) put(pages map[string]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for path, text := range pages {
		if text == "" {
			delete(w.pages, path)
			continue
		}
		w.pages[path] = strings.ReplaceAll(text, "BASE", w.URL)
	}
	clear(w.asked)
}

// took returns what was answered since the last put.
func (w *webSite) took() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.asked
	w.asked = make(map[string]int)
	return m
}

func (w *webSite) client(t *testing.T) *fetch.Client {
	t.Helper()
	home, err := url.Parse(w.URL)
	must(t, err)
	c, err := fetch.New(fetch.Options{Home: home, Retries: -1})
	must(t, err)
	t.Cleanup(c.Close)
	return c
}

func urlset(entries ...string) string {
	return `<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"
		xmlns:image="http://www.google.com/schemas/sitemap-image/1.1">` + strings.Join(entries, "") + `</urlset>`
}

func mapIndex(parts ...string) string {
	return `<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><sitemap><loc>` +
		strings.Join(parts, "</loc></sitemap><sitemap><loc>") + `</loc></sitemap></sitemapindex>`
}

func dated(path, lastmod string) string {
	return `<url><loc>BASE` + path + `</loc><lastmod>` + lastmod + `</lastmod><changefreq>daily</changefreq><priority>0.5</priority>` +
		`<image:image><image:loc>BASE/i.png</image:loc></image:image></url>`
}

func newSitemap(t *testing.T, w *webSite, cat catalog.Catalog, o sitemap.Options) *sitemap.Sitemap {
	t.Helper()
	s, err := sitemap.New(w.URL+"/sitemap.xml", w.client(t), cat, set, o)
	must(t, err)
	return s
}

func paths(t *testing.T, w *webSite, cat catalog.Catalog) string {
	t.Helper()
	var ps []string
	for r, err := range cat.Resources(t.Context(), set, catalog.Range{}) {
		must(t, err)
		ps = append(ps, strings.TrimPrefix(r.URI, w.URL))
	}
	return strings.Join(ps, " ")
}

func TestSitemapIndex(t *testing.T) {
	t.Parallel()
	w, cat := newWebSite(t), catalog.NewMem(nil)
	state := filepath.Join(t.TempDir(), "state.json")
	const old, new = "2024-05-01", "2024-05-02T10:00:00Z"
	steps := []struct {
		name  string
		pages map[string]string
		want  string
		holds string
		took  map[string]int
	}{
		{"first", map[string]string{
			"/sitemap.xml": mapIndex("BASE/1.xml", "BASE/2.xml"),
			"/1.xml":       urlset(dated("/a", old), dated("/c", old)), "/2.xml": urlset(dated("/b", old)),
		}, "3 created, 0 updated, 0 deleted, 0 unchanged, 3 listed, 0 unreadable", "/a /b /c", map[string]int{"/sitemap.xml": 1, "/1.xml": 1, "/2.xml": 1}},
		{"quiet", nil, "0 created, 0 updated, 0 deleted, 3 unchanged, 3 listed, 0 unreadable", "/a /b /c", map[string]int{}},
		{"one part", map[string]string{"/2.xml": urlset(dated("/b", new), dated("/d", old))},
			"1 created, 1 updated, 0 deleted, 2 unchanged, 4 listed, 0 unreadable", "/a /b /c /d", map[string]int{"/2.xml": 1}},
		{"gone from a part", map[string]string{"/1.xml": urlset(dated("/a", old))},
			"0 created, 0 updated, 1 deleted, 3 unchanged, 3 listed, 0 unreadable", "/a /b /d", map[string]int{"/1.xml": 1}},
		{"moved", map[string]string{"/1.xml": urlset(dated("/b", new)), "/2.xml": urlset(dated("/a", old), dated("/d", old))},
			"0 created, 0 updated, 0 deleted, 3 unchanged, 3 listed, 0 unreadable", "/a /b /d", map[string]int{"/1.xml": 1, "/2.xml": 1}},
		{"listed twice", map[string]string{"/1.xml": urlset(dated("/b", new), dated("/a", old))},
			"0 created, 0 updated, 0 deleted, 3 unchanged, 3 listed, 0 unreadable", "/a /b /d", map[string]int{"/1.xml": 1}},
		{"listed once again", map[string]string{"/1.xml": urlset(dated("/b", new))},
			"0 created, 0 updated, 0 deleted, 3 unchanged, 3 listed, 0 unreadable", "/a /b /d", map[string]int{"/sitemap.xml": 1, "/1.xml": 2, "/2.xml": 1}},
		{"broken", map[string]string{"/1.xml": "<html>Sorry</html>", "/2.xml": urlset(dated("/a", new))},
			"0 created, 1 updated, 0 deleted, 0 unchanged, 1 listed, 1 unreadable", "/a /b /d", map[string]int{"/1.xml": 1, "/2.xml": 1}},
		{"mended", map[string]string{"/1.xml": urlset(dated("/b", new))},
			"0 created, 0 updated, 1 deleted, 2 unchanged, 2 listed, 0 unreadable", "/a /b", map[string]int{"/sitemap.xml": 1, "/1.xml": 1, "/2.xml": 1}},
		{"a part less", map[string]string{"/sitemap.xml": mapIndex("BASE/2.xml")},
			"0 created, 0 updated, 1 deleted, 1 unchanged, 1 listed, 0 unreadable", "/a", map[string]int{"/sitemap.xml": 1}},
	}
	for _, s := range steps {
		w.put(s.pages)
		r, err := newSitemap(t, w, cat, sitemap.Options{State: state}).Scan(t.Context())
		must(t, err)
		if got := counts(r); got != s.want {
			t.Errorf("%s: %s, want %s; %v", s.name, got, s.want, r.Unreadable.First)
		}
		if got := paths(t, w, cat); got != s.holds {
			t.Errorf("%s: the catalog holds %s, want %s", s.name, got, s.holds)
		}
		if diff := cmp.Diff(s.took, w.took()); diff != "" {
			t.Errorf("%s: requests (-want +got)\n%s", s.name, diff)
		}
	}
}

func TestSitemapTrouble(t *testing.T) {
	t.Parallel()
	w := newWebSite(t)
	for _, tt := range []struct {
		name  string
		pages map[string]string
		want  string // error, or first problem
	}{
		{"missing", map[string]string{"/sitemap.xml": ""}, "status 404 Not Found"},
		{"page", map[string]string{"/sitemap.xml": "<!DOCTYPE html><html><body>Log in</body></html>"}, "this is an HTML page"},
		{"change list", map[string]string{"/sitemap.xml": strings.Replace(urlset(dated("/a", "2024")), "sitemap-image/1.1\">", "sitemap-image/1.1\"><rs:md capability=\"changelist\" from=\"2024-01-01T00:00:00Z\"/>", 1)},
			"it is a changelist, not a Sitemap or Resource List"},
		{"loop", map[string]string{"/sitemap.xml": mapIndex("BASE/1"), "/1": mapIndex("BASE/sitemap.xml")}, "the document is listed below itself, or twice"},
		{"deep", map[string]string{"/sitemap.xml": mapIndex("BASE/1"), "/1": mapIndex("BASE/2"), "/2": mapIndex("BASE/3"), "/3": mapIndex("BASE/4")},
			"indexes are nested more than 3 deep"},
		{"file", map[string]string{"/sitemap.xml": mapIndex("file:///etc/passwd")}, "a document from the web must not refer to a file on this machine"},
		{"cut off", map[string]string{"/sitemap.xml": mapIndex("BASE/1"), "/1": urlset(dated("/a", "2024"))[:300]}, "unexpected EOF"},
		{"no loc", map[string]string{"/sitemap.xml": urlset(dated("/a", "2024"), "<url><lastmod>2024</lastmod></url>")}, "1 entries could not be read"},
	} {
		w.put(tt.pages)
		r, err := newSitemap(t, w, catalog.NewMem(nil), sitemap.Options{}).Scan(t.Context())
		text := fmt.Sprint(err)
		if err == nil && len(r.Unreadable.First) > 0 {
			text = r.Unreadable.First[0].String()
		} else if err == nil && len(r.Skipped.First) > 0 {
			text = r.Skipped.First[0].String()
		}
		if !strings.Contains(text, tt.want) || strings.Count(text, w.URL) != 1 && tt.name != "file" {
			t.Errorf("%s: %s, want one %q that names the address once", tt.name, text, tt.want)
		}
	}
}

// TestSitemapContent fetches what is new or has changed, once, and asks again
// after what has no date.
func TestSitemapContent(t *testing.T) {
	t.Parallel()
	w, cat := newWebSite(t), catalog.NewMem(nil)
	text := func(date string) string {
		return urlset(dated("/dated", date), "<url><loc>BASE/undated</loc></url>",
			`<url><loc>BASE/known</loc><rs:md hash="md5:1B2M2Y8AsgTpgAmY7PhCfg==" length="0" type="text/plain"/></url>`)
	}
	w.put(map[string]string{"/sitemap.xml": text("2024-01-01"), "/dated": "one", "/undated": "two", "/known": "not asked"})
	s := newSitemap(t, w, cat, sitemap.Options{Content: true, Algorithms: []resourcesync.Algorithm{resourcesync.SHA256}})
	scan := func(name, want string, took map[string]int) {
		t.Helper()
		r, err := s.Scan(t.Context())
		must(t, err)
		if got := counts(r); got != want {
			t.Errorf("%s: %s, want %s; %v", name, got, want, r.Unreadable.First)
		}
		if diff := cmp.Diff(took, w.took()); diff != "" {
			t.Errorf("%s: requests (-want +got)\n%s", name, diff)
		}
	}
	check := func(path, text string) {
		t.Helper()
		if got := holds(t, cat)[w.URL+path]; got != of([]byte(text)) {
			t.Errorf("%s has not the hash of %q", path, text)
		}
	}
	scan("first", "3 created, 0 updated, 0 deleted, 0 unchanged, 3 listed, 0 unreadable", map[string]int{"/sitemap.xml": 1, "/dated": 1, "/undated": 1})
	check("/dated", "one")
	check("/undated", "two")
	scan("quiet", "0 created, 0 updated, 0 deleted, 3 unchanged, 3 listed, 0 unreadable", map[string]int{})
	w.put(map[string]string{"/undated": "three", "/dated": "changed secretly"})
	scan("undated", "0 created, 1 updated, 0 deleted, 2 unchanged, 3 listed, 0 unreadable", map[string]int{"/undated": 1})
	check("/undated", "three")
	w.put(map[string]string{"/sitemap.xml": text("2024-01-02"), "/dated": "busy"})
	scan("cannot be had", "0 created, 0 updated, 0 deleted, 2 unchanged, 3 listed, 1 unreadable", map[string]int{"/sitemap.xml": 1, "/dated": 1})
	check("/dated", "one")
	w.put(map[string]string{"/dated": "at last"})
	scan("can be had", "0 created, 1 updated, 0 deleted, 2 unchanged, 3 listed, 0 unreadable", map[string]int{"/sitemap.xml": 1, "/dated": 1})
	check("/dated", "at last")
	for r, err := range cat.Resources(t.Context(), set, catalog.Range{}) {
		must(t, err)
		want := "text/x-test"
		if strings.HasSuffix(r.URI, "/known") {
			want = "text/plain"
		}
		if r.Type != want {
			t.Errorf("%s is %s, want %s", r.URI, r.Type, want)
		}
	}
}

// TestSitemapContentMoves does not fetch again what only moved to another part.
func TestSitemapContentMoves(t *testing.T) {
	t.Parallel()
	w, cat := newWebSite(t), catalog.NewMem(nil)
	s := newSitemap(t, w, cat, sitemap.Options{Content: true})
	undated := "<url><loc>BASE/u</loc></url>"
	for i, pages := range []map[string]string{
		{"/sitemap.xml": mapIndex("BASE/1.xml", "BASE/2.xml"), "/1.xml": urlset(dated("/a", "2024"), undated), "/2.xml": urlset(), "/a": "A", "/u": "U"},
		{"/1.xml": urlset(), "/2.xml": urlset(dated("/a", "2024"), undated)},
		{"/1.xml": urlset(dated("/b", "2024")), "/b": "B"},
		{"/sitemap.xml": mapIndex("BASE/2.xml")},
	} {
		w.put(pages)
		r, err := s.Scan(t.Context())
		must(t, err)
		want := []string{"/a /u", "/a /u", "/a /b /u", "/a /u"}[i]
		if got := paths(t, w, cat); got != want || r.Unreadable.Count > 0 || r.Updated > 0 {
			t.Errorf("step %d: %s, want %s; %s", i, got, want, counts(r))
		}
		if got := w.took(); i > 0 && got["/a"]+got["/u"] > 0 {
			t.Errorf("step %d: fetched again: %v", i, got)
		}
	}
}

// TestSitemapGzip reads documents that are gzip files.
func TestSitemapGzip(t *testing.T) {
	t.Parallel()
	w, cat := newWebSite(t), catalog.NewMem(nil)
	var b strings.Builder
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, strings.ReplaceAll(urlset(dated("/a", "2024")), "BASE", w.URL)); err != nil {
		t.Fatal(err)
	}
	must(t, z.Close())
	w.put(map[string]string{"/sitemap.xml": mapIndex("BASE/1.xml.gz"), "/1.xml.gz": b.String()})
	r, err := newSitemap(t, w, cat, sitemap.Options{}).Scan(t.Context())
	must(t, err)
	if got := paths(t, w, cat); got != "/a" {
		t.Errorf("the catalog holds %s, want /a; %v", got, r.Unreadable.First)
	}
}

// TestSitemapFile reads a file that lists what lies elsewhere, and sees it change.
func TestSitemapFile(t *testing.T) {
	t.Parallel()
	w, cat := newWebSite(t), catalog.NewMem(nil)
	dir := t.TempDir()
	path := filepath.Join(dir, "sitemap.xml")
	must(t, os.WriteFile(path, []byte(mapIndex("part.xml")), 0o644))
	part := filepath.Join(dir, "part.xml")
	must(t, os.WriteFile(part, []byte(strings.ReplaceAll(urlset(dated("/a", "2024")), "BASE", w.URL)), 0o644))
	s, err := sitemap.New(path, w.client(t), cat, set, sitemap.Options{ScanInterval: 50 * time.Millisecond})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reported := make(chan intake.Report, 1)
	done := make(chan error)
	go func() { done <- s.Watch(ctx, func(r intake.Report) { reported <- r }) }()
	wait := func() intake.Report {
		select {
		case r := <-reported:
			return r
		case <-time.After(time.Minute):
			t.Fatal("nobody told")
		}
		return intake.Report{}
	}
	if r := wait(); r.Created != 1 {
		t.Errorf("first: %s", counts(r))
	}
	must(t, os.WriteFile(part, []byte(strings.ReplaceAll(urlset(dated("/b", "2024"), dated("/c", "2024")), "BASE", w.URL)), 0o644))
	if r := wait(); r.Created != 2 || r.Deleted != 1 {
		t.Errorf("then: %s", counts(r))
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Watch = %v", err)
	}
}

// TestSitemapEmpty does not delete everything because a list is empty.
func TestSitemapEmpty(t *testing.T) {
	t.Parallel()
	w, cat := newWebSite(t), catalog.NewMem(nil)
	var all []string
	for i := range 6 {
		all = append(all, dated(fmt.Sprint("/", i), "2024"))
	}
	w.put(map[string]string{"/sitemap.xml": urlset(all...)})
	s := newSitemap(t, w, cat, sitemap.Options{})
	_, err := s.Scan(t.Context())
	must(t, err)
	w.put(map[string]string{"/sitemap.xml": urlset()})
	for range 2 {
		if _, err = s.Scan(t.Context()); !errors.Is(err, intake.ErrEmpty) {
			t.Fatalf("an empty Sitemap: %v, want ErrEmpty", err)
		}
	}
	r, err := newSitemap(t, w, cat, sitemap.Options{AllowEmpty: true}).Scan(t.Context())
	if err != nil || r.Deleted != 6 {
		t.Errorf("agreed to: %s, %v", counts(r), err)
	}
}

func TestWeb(t *testing.T) {
	t.Parallel()
	w := newWebSite(t)
	w.put(map[string]string{"/a": "content"})
	web := intake.NewWeb(w.client(t))
	r, err := web.Bitstream(t.Context(), &catalog.Record{URI: w.URL + "/a"})
	must(t, err)
	b, err := io.ReadAll(r)
	if err != nil || string(b) != "content" || r.Close() != nil {
		t.Errorf("read %q, %v", b, err)
	}
	if _, err := web.Bitstream(t.Context(), &catalog.Record{URI: w.URL + "/b"}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), w.URL+"/b: status 404") {
		t.Errorf("a missing resource: %v", err)
	}
	if _, err := web.Bitstream(t.Context(), &catalog.Record{URI: "urn:x"}); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a URN: %v", err)
	}
	if _, err := intake.NewWeb(nil).Bitstream(t.Context(), &catalog.Record{URI: "urn:x"}); err == nil {
		t.Error("without a client something was opened")
	}
}
