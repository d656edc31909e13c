package pages_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/html"

	"lockstep/cmd/lockstep/internal/explorer/gate"
	"lockstep/cmd/lockstep/internal/explorer/pages"
	"lockstep/cmd/lockstep/internal/explorer/place"
	"lockstep/discover"
	"lockstep/internal/fetch"
)

// A world is a server with documents and resources, which notes what is requested.
type world struct {
	*httptest.Server
	mu        sync.Mutex // guards what follows
	content   map[string][]byte
	types     map[string]string
	requested []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{content: map[string][]byte{}, types: map[string]string{}}
	w.Server = httptest.NewServer(w)
	t.Cleanup(w.Close)
	return w
}

// ServeHTTP implements http.Handler.
func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.requested = append(w.requested, r.URL.RequestURI())
	body, ok := w.content[r.URL.RequestURI()]
	mediaType := w.types[r.URL.RequestURI()]
	w.mu.Unlock()
	if !ok {
		http.NotFound(rw, r)
		return
	}
	rw.Header().Set("Content-Type", mediaType)
	http.ServeContent(rw, r, "", time.Time{}, bytes.NewReader(body))
}

// put adds what is at a path.
func (w *world) put(path, mediaType, content string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.content[path], w.types[path] = []byte(content), mediaType
}

// document adds a document of ResourceSync. BASE in it is replaced by the address of the
// server.
func (w *world) document(path, root, body string) {
	w.put(path, "application/xml", `<?xml version="1.0" encoding="UTF-8"?>
<`+root+` xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
`+strings.ReplaceAll(body, "BASE", w.URL)+`
</`+root+">\n")
}

// requests returns the paths that were requested since the last call.
func (w *world) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.requested
	w.requested = nil
	return all
}

// entry returns an entry about a resource, which it adds.
func (w *world) entry(path, mediaType, content, more string) string {
	w.put(path, mediaType, content)
	return w.stated(path, mediaType, content, more)
}

// stated returns an entry about a resource.
func (w *world) stated(path, mediaType, content, more string) string {
	sum := md5.Sum([]byte(content))
	return fmt.Sprintf(`<url><loc>%s%s</loc><lastmod>2026-03-04T05:06:07Z</lastmod><rs:md hash="md5:%s" length="%d" type="%s"/>%s</url>`+"\n",
		w.URL, path, hex.EncodeToString(sum[:]), len(content), mediaType, strings.ReplaceAll(more, "BASE", w.URL))
}

// newSource returns a Source with a Resource List in two parts, a Change List with a
// patch, a Resource Dump and versions.
func newSource(t *testing.T) *world {
	w := newWorld(t)
	w.document("/.well-known/resourcesync", "urlset", `<rs:md capability="description"/><url><loc>BASE/capabilitylist.xml</loc><rs:md capability="capabilitylist"/></url>`)
	w.document("/capabilitylist.xml", "urlset", `<rs:ln rel="up" href="BASE/.well-known/resourcesync"/><rs:md capability="capabilitylist"/>
<url><loc>BASE/resourcelist.xml</loc><rs:md capability="resourcelist"/></url>
<url><loc>BASE/resourcedump.xml</loc><rs:md capability="resourcedump"/></url>
<url><loc>BASE/changelist.xml</loc><rs:md capability="changelist"/></url>`)
	w.document("/resourcelist.xml", "sitemapindex", `<rs:ln rel="up" href="BASE/capabilitylist.xml"/><rs:md capability="resourcelist" at="2026-03-05T00:00:00Z"/>
<sitemap><loc>BASE/part1.xml</loc></sitemap><sitemap><loc>BASE/part2.xml</loc></sitemap>`)
	head := `<rs:ln rel="up" href="BASE/capabilitylist.xml"/><rs:ln rel="index" href="BASE/resourcelist.xml"/><rs:md capability="resourcelist" at="2026-03-05T00:00:00Z"/>` + "\n"
	part := head
	part += w.entry("/data.json", "application/json", `{"a":[1,{"b":"<script>alert(1)</script>"}]}`, `<rs:ln rel="timemap" href="BASE/timemap" type="application/link-format"/><rs:ln rel="describedby" href="BASE/about"/>`)
	part += w.entry("/page.html", "text/html", `<!doctype html><script>alert(1)</script>`, "")
	part += w.entry("/picture.svg", "image/svg+xml", `<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(2)</script></svg>`, "")
	w.put("/changed.txt", "text/plain", "other content")
	part += w.stated("/changed.txt", "text/plain", "content", "")
	for n := range 70 {
		part += w.entry(fmt.Sprintf("/texts/%03d", n), "text/plain", fmt.Sprint("text ", n), "")
	}
	w.document("/part1.xml", "urlset", part)
	part = head
	for n := range 60 {
		part += w.entry(fmt.Sprintf("/more/%03d", n), "application/pdf", fmt.Sprint("more ", n), "")
	}
	w.document("/part2.xml", "urlset", part)
	w.document("/changelist.xml", "urlset", `<rs:ln rel="up" href="BASE/capabilitylist.xml"/><rs:md capability="changelist" from="2026-03-01T00:00:00Z"/>
<url><loc>BASE/data.json</loc><rs:md change="created" datetime="2026-03-02T10:00:00Z"/></url>
<url><loc>BASE/texts/gone</loc><rs:md change="deleted" datetime="2026-03-03T10:00:00Z"/></url>
<url><loc>BASE/data.json</loc><rs:md change="updated" datetime="2026-03-04T05:06:07Z" hash="md5:00000000000000000000000000000000"/><rs:ln rel="http://www.openarchives.org/rs/terms/patch" href="BASE/data.patch" type="application/json-patch+json" length="20"/></url>`)
	w.document("/resourcedump.xml", "urlset", `<rs:ln rel="up" href="BASE/capabilitylist.xml"/><rs:md capability="resourcedump" at="2026-03-05T00:00:00Z"/>
<url><loc>BASE/dump.zip</loc><rs:md type="application/zip"/></url>`)
	w.put("/dump.zip", "application/zip", w.dump(t))
	w.put("/timemap", "application/link-format", strings.ReplaceAll(`<BASE/data.json>;rel="original",
<BASE/timegate>;rel="timegate",
<BASE/versions/1>;rel="first memento";datetime="Mon, 02 Mar 2026 10:00:00 GMT",
<BASE/versions/2>;rel="last memento";datetime="Wed, 04 Mar 2026 05:06:07 GMT"`, "BASE", w.URL))
	w.put("/versions/1", "application/json", `{"first":1}`)
	return w
}

// dump returns a package with two members and a large one.
func (w *world) dump(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	add := func(name, content string) {
		f, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err == nil {
			_, err = io.WriteString(f, content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	add("resources/one.txt", "the first member")
	add("large.bin", strings.Repeat("x", 4<<20))
	add("stray.txt", "not in the manifest")
	add("manifest.xml", strings.ReplaceAll(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="resourcedump-manifest" at="2026-03-05T00:00:00Z"/>
<url><loc>BASE/one.txt</loc><rs:md hash="md5:`+md5Of("the first member")+`" length="16" type="text/plain" path="/resources/one.txt"/></url>
<url><loc>BASE/large.bin</loc><rs:md path="/large.bin"/></url></urlset>`, "BASE", w.URL))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func md5Of(text string) string {
	sum := md5.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// A visitor is a browser at the pages about an address.
type visitor struct {
	t      *testing.T
	client *http.Client
	base   string
	place  *place.Place
}

// visit opens an address and returns a visitor of the pages about it.
func visit(t *testing.T, address string, edit func(*pages.Options)) *visitor {
	t.Helper()
	return visitMirror(t, address, nil, edit)
}

// visitMirror is visit, with a function that opens the state of mirrors.
func visitMirror(t *testing.T, address string, mirror func(context.Context, string) (*place.MirrorState, bool, error), edit func(*pages.Options)) *visitor {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	dir := t.TempDir()
	open := func(octx context.Context, address string) (*place.Place, error) {
		client, err := fetch.New(fetch.Options{Home: discover.Home(address), Retries: -1, AllowPrivate: true})
		if err != nil {
			return nil, err
		}
		return place.Open(octx, place.Options{Address: address, Client: client, Dir: dir, Mirror: mirror, Start: func(task func(context.Context)) {
			running.Go(func() { task(ctx) })
		}})
	}
	p, err := open(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	o := pages.Options{Open: open, Place: p, Now: func() time.Time { return time.Date(2026, 3, 6, 0, 0, 0, 0, time.UTC) }}
	if edit != nil {
		edit(&o)
	}
	server := pages.New(o)
	front := httptest.NewUnstartedServer(nil)
	g := gate.New(front.Listener.Addr().String())
	front.Config.Handler = g.Handler(server.Handler(), server.Refuse)
	front.Start()
	t.Cleanup(func() { front.Close(); cancel(); running.Wait(); server.Close() })
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	v := &visitor{t: t, client: &http.Client{Jar: jar}, base: front.URL, place: p}
	v.get("/" + g.Query())
	return v
}

// A shown is a page.
type shown struct {
	t      *testing.T
	path   string
	header http.Header
	status int
	body   string
	*html.Node
}

// get returns the page at a path, after redirects.
func (v *visitor) get(path string) *shown {
	v.t.Helper()
	resp, err := v.client.Get(v.base + path)
	return v.shown(resp, err)
}

// post sends a form, given as names and values in turn.
func (v *visitor) post(path string, fields ...string) *shown {
	v.t.Helper()
	form := url.Values{}
	for i := 0; i+1 < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	resp, err := v.client.PostForm(v.base+path, form)
	return v.shown(resp, err)
}

func (v *visitor) shown(resp *http.Response, err error) *shown {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	doc, err := html.Parse(bytes.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	return &shown{v.t, resp.Request.URL.RequestURI(), resp.Header, resp.StatusCode, string(body), doc}
}

// until repeats a page until its text contains what is wanted.
func (v *visitor) until(path, wanted string) *shown {
	v.t.Helper()
	for end := time.Now().Add(3 * time.Minute); ; { // under the race detector a large list takes a while
		p := v.get(path)
		if strings.Contains(p.text("main"), wanted) {
			return p
		}
		if time.Now().After(end) {
			v.t.Fatalf("%s does not show %q: %s", path, wanted, p.text("main"))
		}
		time.Sleep(5 * time.Millisecond) // between two looks at a condition
	}
}

// all returns the elements with a name and, behind a dot, a class.
func (p *shown) all(selector string) []*html.Node {
	name, class, _ := strings.Cut(selector, ".")
	var found []*html.Node
	for n := range p.Descendants() {
		if n.Type == html.ElementNode && (name == "" || n.Data == name) && (class == "" || slices.Contains(strings.Fields(attribute(n, "class")), class)) {
			found = append(found, n)
		}
	}
	return found
}

// text returns the text of the elements that a selector finds, with single blanks.
func (p *shown) text(selector string) string {
	var b strings.Builder
	for _, n := range p.all(selector) {
		b.WriteString(textOf(n))
		b.WriteByte(' ')
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// link returns the address of the first link with exactly this text.
func (p *shown) link(text string) string {
	p.t.Helper()
	for _, a := range p.all("a") {
		if strings.TrimSpace(textOf(a)) == text {
			return attribute(a, "href")
		}
	}
	p.t.Fatalf("%s has no link %q: %s", p.path, text, p.text("main"))
	return ""
}

// has fails the test unless the main part has all the texts.
func (p *shown) has(texts ...string) {
	p.t.Helper()
	main := p.text("main")
	for _, text := range texts {
		if !strings.Contains(main, text) {
			p.t.Errorf("%s (status %d) does not show %q: %s", p.path, p.status, text, main)
		}
	}
}

// rows returns the texts of the rows of the table with a caption, each with its cells.
func (p *shown) rows(caption string) [][]string {
	var rows [][]string
	for _, table := range p.all("table") {
		if c := first(table, "caption"); c == nil || textOf(c) != caption {
			continue
		}
		for tr := range table.Descendants() {
			if tr.Data != "tr" || tr.Parent.Data != "tbody" {
				continue
			}
			var cells []string
			for td := range tr.ChildNodes() {
				if td.Data == "td" || td.Data == "th" {
					cells = append(cells, strings.TrimSpace(textOf(td)))
				}
			}
			rows = append(rows, cells)
		}
	}
	return rows
}

func first(n *html.Node, name string) *html.Node {
	for d := range n.Descendants() {
		if d.Data == name {
			return d
		}
	}
	return nil
}

func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
			b.WriteByte(' ')
		}
	}
	return strings.TrimSpace(strings.ReplaceAll(b.String(), "  ", " "))
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}
