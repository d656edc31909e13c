package browser_test

import (
	"encoding/base64"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/tools/browser"
)

// picture is a PNG image of one pixel.
const picture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// serve runs a Source with every capability over some files, and returns its address and
// the directory of the files.
func serve(t *testing.T) (address, dir string) {
	t.Helper()
	dir = t.TempDir()
	files := filepath.Join(dir, "files")
	for name, text := range map[string]string{
		"articles/data.json": `{"title":"A record","tags":["a","b"],"markup":"<script>alert(1)</script>"}`, "articles/record.xml": `<?xml version="1.0"?><record><title>A record</title><part n="1">text</part></record>`,
		"articles/page.html":   `<!doctype html><title>x</title><script>alert(1)</script><h1>A page</h1>`,
		"articles/drawing.svg": `<svg xmlns="http://www.w3.org/2000/svg" width="300" height="150" onload="alert(1)"><script>fetch("http://127.0.0.1:9/svg")</script><image href="http://127.0.0.1:9/image.png" width="9" height="9"/><circle cx="75" cy="75" r="60" fill="#2f7fb0"/><rect x="150" y="30" width="120" height="90" fill="#17663a"/></svg>`,
	} {
		write(t, filepath.Join(files, name), text)
	}
	png, _ := base64.StdEncoding.DecodeString(picture) // it is a constant
	write(t, filepath.Join(files, "articles", "picture.png"), string(png))
	for n := range 140 {
		name := filepath.Join(files, "reports", fmt.Sprintf("report-%03d.txt", n))
		write(t, name, strings.Repeat("text\n", n*n))
		at := time.Now().AddDate(0, 0, -n%50)
		if err := os.Chtimes(name, at, at); err != nil {
			t.Fatal(err)
		}
	}
	config := filepath.Join(dir, "lockstep.yaml")
	write(t, config, `listen: 127.0.0.1:0
state: `+filepath.Join(dir, "state")+`
admin: off
hub: embedded
sets:
  - name: articles
    from: dir:`+files+`
    resource_dump: {every: 24h}
    archive: {resource_lists: {keep: all, every: 1s}, change_lists: all}
    versions: keep
    patches: true
    atom_pmh: true
`)
	return browser.Run(t, dir, `^ready: (http\S+)`, "serve", "--config", config), files
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// explore opens the pages about an address, in a directory.
func explore(t *testing.T, dir string, args ...string) *browser.Tab {
	t.Helper()
	browser.Find(t)
	address := browser.Run(t, dir, `^open (http\S+)`, append([]string{"explore"}, args...)...)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	tab := browser.Open(t, u.Host)
	tab.Size(1280, 900, false)
	tab.Go(address)
	return tab
}

const main = `document.querySelector("main").textContent`

// shows is an expression that is true when the page shows a text.
func shows(text string) string { return fmt.Sprintf(`%s.includes(%q)`, main, text) }

// looksRight checks the page in all sizes, and for people who cannot see it.
func looksRight(tab *browser.Tab, shot string) {
	tab.Accessible()
	tab.Shot(shot)
	if testing.Short() {
		return
	}
	for _, width := range []int64{360, 768, 3840} {
		tab.Size(width, 900, width != 768)
		tab.Fits()
		tab.Accessible()
		if shot != "" {
			tab.Shot(fmt.Sprintf("%s-%d", shot, width))
		}
	}
	tab.Size(1280, 900, false)
}

// TestExplore goes through the pages about a Source with every capability.
func TestExplore(t *testing.T) {
	browser.Find(t)
	source, files := serve(t)
	dir := t.TempDir()
	browser.Run(t, dir, `(in step|complete|synced|created)`, "sync", source, "mirror")
	write(t, filepath.Join(files, "reports", "report-100.txt"), strings.Repeat("text\n", 100*100)+"one more line\n")
	write(t, filepath.Join(files, "reports", "new.txt"), "new")
	if err := os.Remove(filepath.Join(files, "reports", "report-003.txt")); err != nil {
		t.Fatal(err)
	}
	published(t, source)
	tab := explore(t, dir, source, "--mirror", "mirror")

	tab.Wait(shows("Last modified per day"))
	tab.Wait(shows("145 entries"))
	tab.Size(1280, 1600, false)
	looksRight(tab, "explore-overview")
	tab.Size(1280, 900, false)
	tab.Click("The same as a table")
	tab.Click("Copy")
	tab.Wait(`[...document.querySelectorAll("[data-copy]")].some(b => ["Copied", "Selected"].includes(b.textContent))`)

	tab.Click("Change List")
	tab.Wait(shows("3 entries"))
	looksRight(tab, "explore-list")
	tab.Click(source + "reports/report-100.txt")
	tab.Wait(shows("Patches"))
	looksRight(tab, "explore-resource")
	tab.Click("Verify the hash")
	tab.Wait(shows("The hash is right"))
	looksRight(tab, "")
	tab.Click("Find versions")
	tab.Wait(shows("TimeGate"))
	tab.Wait(`document.querySelectorAll("tbody tr").length >= 2`)
	looksRight(tab, "")

	tab.Click("Overview")
	tab.Click("Resource List")
	tab.Wait(shows("Entries 1 to 50"))
	tab.Click("Next")
	tab.Wait(shows("Entries 51 to 100"))
	tab.Click("Previous")
	tab.Wait(shows("Entries 1 to 50"))
	tab.Enter("#q", "REPORT-01")
	tab.Press("\r")
	tab.Wait(shows("10 entries of the 145"))
	looksRight(tab, "")
	for _, name := range []string{"data.json", "record.xml", "page.html", "drawing.svg", "picture.png"} {
		tab.Click("Overview")
		tab.Wait(`document.querySelector("h1").textContent.startsWith("http")`)
		tab.Click("Resource List")
		tab.Wait(shows("Entries 1 to 50"))
		tab.Click(source + "articles/" + name)
		tab.Wait(shows("media type"))
		tab.Click("Preview")
		if strings.HasSuffix(name, "g") {
			tab.Wait(`document.querySelector("img")?.complete && document.querySelector("img").naturalWidth > 0`)
		} else {
			tab.Wait(`document.querySelector("iframe")`)
		}
		looksRight(tab, "explore-preview-"+name)
	}

	tab.Click("Overview")
	tab.Wait(`document.querySelector("h1").textContent.startsWith("http")`)
	tab.Click("Resource Dump")
	tab.Wait(shows("application/zip"))
	tab.Evaluate(`document.querySelector("td a").click()`, new(any))
	tab.Wait(shows("ZIP package") + "||" + `document.querySelector("h1").textContent.startsWith("ZIP package")`)
	tab.Wait(shows("Entries 1 to 50"))
	looksRight(tab, "explore-package")

	tab.Click("Compare")
	tab.Wait(shows("Two instants"))
	tab.Click("Compare with the mirror")
	tab.Wait(shows("3 differences")) // it is renewed without a click
	looksRight(tab, "explore-compare")
	tab.Click("missing (1)")
	tab.Wait(shows("Differences 1 to 1") + `|| document.querySelectorAll("tbody tr").length === 1`)

	tab.Click("Another address")
	tab.Wait(`document.querySelector("#address")`)
	looksRight(tab, "")
	tab.Enter("#address", filepath.Join(files, "articles", "record.xml"))
	tab.Press("\r")
	tab.Wait(`document.querySelector("h1").textContent !== "Explore"`)
	looksRight(tab, "")
	tab.Check()
}

// published waits until the Source has published the changes to its files.
func published(t *testing.T, source string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		resp, err := http.Get(source + "resourcesync/articles/changelist.xml")
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body) // a part is looked at again
		_ = resp.Body.Close()
		if strings.Count(string(text), "<url>") == 3 {
			return
		}
	}
	t.Fatal("the changes are not published")
}

// strange is a Source in which everything that it can choose is hostile.
func strange(t *testing.T) *httptest.Server {
	t.Helper()
	script := `"><script>alert(1)</script><img src=x onerror=alert(2)><svg onload=alert(3)>`
	text := html.EscapeString(script)
	documents := map[string]string{
		"/.well-known/resourcesync": `<rs:md capability="description"/><url><loc>BASE/capabilitylist.xml</loc><rs:md capability="capabilitylist"/></url>`,
		"/capabilitylist.xml":       `<rs:ln rel="describedby" href="javascript:alert(4)"/><rs:md capability="capabilitylist"/><url><loc>BASE/resourcelist.xml</loc><rs:md capability="resourcelist"/></url><url><loc>BASE/changelist.xml</loc><rs:md capability="changelist"/></url>`,
		"/resourcelist.xml": `<rs:md capability="resourcelist" at="2026-01-01T00:00:00Z"/><url><loc>BASE/evil.svg</loc><rs:md type="image/svg+xml"/></url><url><loc>BASE/evil.html</loc><rs:md type="image/png"/></url><url><loc>BASE/evil.js</loc><rs:md type="text/html"/></url>
<url><loc>javascript:alert(5)</loc></url><url><loc>BASE/` + text + `</loc><rs:md type="text/` + text + `"/><rs:ln rel="` + text + `" href="javascript:alert(6)"/></url>`,
		"/changelist.xml": `<rs:md capability="changelist" from="2026-01-01T00:00:00Z"/><url><loc>BASE/` + text + `</loc><rs:md change="` + text + `" datetime="` + text + `"/></url>`,
	}
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := documents[r.URL.Path]
		switch {
		case r.URL.Path == "/fetched":
			t.Errorf("the browser has fetched %s, which only the content of a resource names", r.URL)
		case ok:
			w.Header().Set("Content-Type", "application/xml")
			_, _ = fmt.Fprintf(w, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">%s</urlset>`, strings.ReplaceAll(body, "BASE", server.URL))
		case r.URL.Path == "/evil.svg":
			w.Header().Set("Content-Type", "image/svg+xml")
			_, _ = fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="9" height="9" onload="alert(7)"><script>alert(8);fetch("%[1]s/fetched")</script><image xlink:href="%[1]s/fetched"/><style>@import "%[1]s/fetched";</style><foreignObject><iframe xmlns="http://www.w3.org/1999/xhtml" src="%[1]s/fetched"/></foreignObject></svg>`, server.URL)
		default:
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprintf(w, `<!doctype html><script>alert(9);fetch("%[1]s/fetched")</script><img src="%[1]s/fetched"><meta http-equiv="refresh" content="0;url=%[1]s/fetched">`, server.URL)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// TestHostile looks at everything that a hostile Source has: nothing is executed, and
// nothing is fetched from elsewhere by the browser.
func TestHostile(t *testing.T) {
	browser.Find(t)
	tab := explore(t, t.TempDir(), strange(t).URL)
	tab.Wait(shows("5 entries"))
	tab.Accessible()
	base := tab.Location()
	base = base[:strings.LastIndex(base, "/")]
	visit := func(path string) {
		tab.Go(base + path)
		tab.Wait(`document.readyState === "complete"`)
	}
	for list := 1; list <= 2; list++ {
		visit(fmt.Sprintf("/list?list=%d", list))
		visit(fmt.Sprintf("/xml?list=%d", list))
		tab.Wait(shows("XML"))
		tab.Accessible()
	}
	for row := range 5 {
		visit(fmt.Sprintf("/resource?list=1&part=0&row=%d", row))
		visit(fmt.Sprintf("/resource?list=1&part=0&row=%d&show=preview", row))
		visit(fmt.Sprintf("/content?list=1&part=0&row=%d", row)) // as a page of its own
	}
	visit("/resource?list=1&part=0&row=4&link=1")
	tab.Check()
}

// TestLive renews the pages while a list is being read, and is operated with the keyboard.
func TestLive(t *testing.T) {
	browser.Find(t)
	release := make(chan struct{})
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const names = `xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"`
		switch r.URL.Path {
		case "/sitemap.xml":
			_, _ = fmt.Fprintf(w, `<sitemapindex %s><sitemap><loc>%[2]s/1.xml</loc></sitemap><sitemap><loc>%[2]s/2.xml</loc></sitemap></sitemapindex>`, names, server.URL)
		case "/2.xml":
			<-release
			fallthrough
		case "/1.xml":
			_, _ = fmt.Fprintf(w, `<urlset %s><url><loc>%s%s/resource</loc></url></urlset>`, names, server.URL, r.URL.Path)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	tab := explore(t, t.TempDir(), server.URL+"/sitemap.xml")
	tab.Wait(shows("1 of 2 parts read: 1 entry"))
	tab.Press("\t")
	tab.Wait(`document.activeElement.textContent === "Skip to the content"`)
	tab.Press("\r")
	tab.Wait(`location.hash === "#main" && document.activeElement.id === "main"`)
	tab.Click("Read all")
	tab.Wait(shows("All of it is being read"))
	close(release)
	tab.Wait(shows("2 of 2 parts read: 2 entries"))
	tab.Check()
}

// TestSlow shows everything once it was read, without another visit to the page.
func TestSlow(t *testing.T) {
	browser.Find(t)
	release := make(chan struct{})
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const names = `xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"`
		switch r.URL.Path {
		case "/sitemap.xml":
			_, _ = fmt.Fprintf(w, `<sitemapindex %s><sitemap><loc>%s/1.xml</loc></sitemap></sitemapindex>`, names, server.URL)
		case "/1.xml":
			<-release
			_, _ = fmt.Fprintf(w, `<urlset %s>`, names)
			for n := range 120 {
				_, _ = fmt.Fprintf(w, `<url><loc>%s/%d.txt</loc><lastmod>2026-01-02</lastmod></url>`, server.URL, n)
			}
			_, _ = io.WriteString(w, `</urlset>`)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	tab, other := explore(t, dir, server.URL+"/sitemap.xml"), explore(t, dir, server.URL+"/sitemap.xml")
	for _, tab := range []*browser.Tab{tab, other} {
		tab.Wait(shows("More is being read"))
	}
	other.Click("Sitemap Index")
	other.Wait(shows("No entries."))
	close(release)
	tab.Wait(shows("Media types") + "&&" + shows("Last modified per day"))
	other.Wait(shows("Entries 1 to 50") + ` && document.querySelector("a[rel=next]") !== null`)
	tab.Check()
	other.Check()
}

// TestFindings shows a broken document with what the validator finds.
func TestFindings(t *testing.T) {
	browser.Find(t)
	const root = `<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
`
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := map[string]string{"/capabilitylist.xml": `<rs:md capability="capabilitylist"/><url><loc>BASE/changelist.xml</loc><rs:md capability="changelist"/></url>`, "/changelist.xml": `<rs:ln rel="up" href="BASE/capabilitylist.xml"/>
<rs:md capability="changelist" from="2026-01-01T00:00:00Z"/>
<url><loc>BASE/a</loc><lastmod>yesterday</lastmod><rs:md change="created" datetime="2026-01-03T00:00:00Z" hash="md5:123" length="12"/></url>
<url><loc>BASE/b</loc><rs:md change="moved" datetime="2026-01-02T00:00:00Z"/></url>
<url><loc>BASE/c</loc><rs:md change="updated" datetime="2026-01-04T00:00:00Z" type="text/plain"/></url>
`}[r.URL.Path]
		if body == "" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, root+strings.ReplaceAll(body, "BASE", server.URL)+"</urlset>\n")
	}))
	t.Cleanup(server.Close)
	tab := explore(t, t.TempDir(), server.URL+"/changelist.xml")
	tab.Wait(shows("3 entries"))
	tab.Click("Change List")
	tab.Wait(shows("Entries 1 to 3"))
	tab.Click("XML with findings")
	tab.Wait(shows("Errors:") + ` && document.querySelectorAll("p.finding").length >= 3`)
	looksRight(tab, "explore-xml")
	tab.Click("Only lines with findings")
	tab.Wait(`document.querySelectorAll("tbody tr").length < 8`)
	tab.Check()
}

// TestWithoutScript goes through pages with a browser that executes no scripts.
func TestWithoutScript(t *testing.T) {
	browser.Find(t)
	source, _ := serve(t)
	tab := explore(t, t.TempDir(), source)
	tab.WithoutScripts()
	tab.Go(tab.Location())
	tab.Wait(shows("145 entries"))
	tab.Wait(`[...document.querySelectorAll("[data-copy]")].every(b => b.hidden)`)
	tab.Click("Resource List")
	tab.Wait(shows("Entries 1 to 50"))
	tab.Click("Next")
	tab.Wait(shows("Entries 51 to 100"))
	tab.Check()
}
