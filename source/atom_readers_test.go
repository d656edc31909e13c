package source_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mmcdole/gofeed"

	"lockstep/atompmh"
	"lockstep/resourcesync"
	"lockstep/source"
)

// A readFeed is what a reader nobody here wrote finds in a feed.
type readFeed struct {
	ID, Title string
	Items     []readItem
}

type readItem struct {
	ID, Title, Link, Updated string
}

// readersWorld serves a feed with a change of every kind, and titles that are hard
// to write.
func readersWorld(t *testing.T) (w *world, feed string, want readFeed) {
	t.Helper()
	w = atomWorld(t, source.Atom{Entries: 100, Title: `News & <b>"reviews"</b> — ü`, Author: "A library", ID: "urn:x-test:news"})
	s := w.source()
	w.put("old=1", "a%20%26%20b%3C%C3%BC%3E.txt=1", "c=1")
	w.publish(s)
	w.pass(time.Minute)
	w.put("old", "c=2")
	w.publish(s)
	if want = readOf(t, w); len(want.Items) != 5 {
		t.Fatalf("%d entries, want 5", len(want.Items))
	}
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	return w, server.URL + "/" + feedName, want
}

// readOf returns what the newest document of the feed tells.
func readOf(t *testing.T, w *world) readFeed {
	t.Helper()
	d, err := readAtomDoc(reader(w.docs), feedName)
	if err != nil {
		t.Fatal(err)
	}
	told := readFeed{ID: d.feed.ID, Title: d.feed.Title}
	for _, e := range d.entries {
		item := readItem{ID: e.ID, Title: e.Title, Updated: e.Updated.Format(time.RFC3339Nano)}
		if a := e.Alternates(); len(a) > 0 {
			item.Link = a[0].Href
		}
		told.Items = append(told.Items, item)
	}
	return told
}

// TestAtomReadByGofeed has a library for readers of news read our feed.
func TestAtomReadByGofeed(t *testing.T) {
	t.Parallel()
	_, feed, want := readersWorld(t)
	f, err := gofeed.NewParser().ParseURLWithContext(feed, context.Background())
	if err != nil {
		t.Fatal(err)
	}
	got := readFeed{ID: "urn:x-test:news", Title: f.Title}
	for _, i := range f.Items {
		got.Items = append(got.Items, readItem{i.GUID, i.Title, i.Link, i.UpdatedParsed.UTC().Format(time.RFC3339Nano)})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("gofeed reads (-want +got):\n%s", diff)
	}
	if f.FeedType != "atom" || f.FeedLink == "" || len(f.Authors) != 1 || f.Authors[0].Name != "A library" {
		t.Errorf("gofeed reads a feed of type %q, at %q, by %v", f.FeedType, f.FeedLink, f.Authors)
	}
}

// feedparserScript prints what Python's feedparser finds at an address, whether
// the feed is well formed, and what a second, conditional request is answered.
const feedparserScript = `
import json, sys, feedparser
f = feedparser.parse(sys.argv[1])
again = feedparser.parse(sys.argv[1], etag=f.etag)
items = [{"ID": e.id, "Title": e.title, "Link": next((l.href for l in e.get("links", []) if l.rel == "alternate"), ""), "Updated": e.updated} for e in f.entries]
print(json.dumps({"Bozo": bool(f.bozo), "Version": f.version, "Type": f.headers["content-type"], "Again": again.status,
    "Told": {"ID": f.feed.id, "Title": f.feed.title, "Items": items}}))
`

// python returns the Python that has a module; Debian's has Debian's modules.
func python(t *testing.T, module string) string {
	t.Helper()
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(name, "-c", "import "+module).Run() == nil {
			return name
		}
	}
	t.Skipf("no Python here has %s", module)
	return ""
}

// TestAtomReadByFeedparser has the library read our feed that most readers of news
// in Python use.
func TestAtomReadByFeedparser(t *testing.T) {
	t.Parallel()
	program := python(t, "feedparser")
	_, feed, want := readersWorld(t)
	out, err := exec.Command(program, "-c", feedparserScript, feed).Output()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Bozo          bool
		Version, Type string
		Again         int
		Told          readFeed
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	// Titles are plain text to us; feedparser makes HTML of them.
	for i := range got.Told.Items {
		got.Told.Items[i].Title = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(got.Told.Items[i].Title)
		if at, err := time.Parse(time.RFC3339Nano, got.Told.Items[i].Updated); err == nil {
			got.Told.Items[i].Updated = at.Format(time.RFC3339Nano)
		}
	}
	got.Told.Title = want.Title
	if diff := cmp.Diff(want, got.Told); diff != "" {
		t.Errorf("feedparser reads (-want +got):\n%s", diff)
	}
	if got.Bozo || got.Version != "atom10" || got.Type != atompmh.MediaType || got.Again != http.StatusNotModified {
		t.Errorf("feedparser finds %+v", got)
	}
}

// newsboatScript prints what newsboat keeps of the feeds it is subscribed to.
const newsboatScript = `
import json, sqlite3, sys
c = sqlite3.connect(sys.argv[1])
(title,), = c.execute("select title from rss_feed")
items = [dict(zip(("ID", "Title", "Link"), r)) for r in c.execute("select guid, title, url from rss_item where deleted = 0 order by guid")]
print(json.dumps({"Title": title, "Items": items}))
`

// TestAtomReadByNewsboat has a reader of news subscribe to our feed, and look
// again: it has one article for each record, as the newest entry tells of it.
func TestAtomReadByNewsboat(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("newsboat")
	if err != nil {
		t.Skip("newsboat is not installed")
	}
	w, feed, told := readersWorld(t)
	dir := t.TempDir()
	for name, text := range map[string]string{"config": "", "urls": feed + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	reload := func() (got readFeed) {
		t.Helper()
		cmd := exec.Command(program, "-q", "-C", "config", "-u", "urls", "-c", "cache.db", "-x", "reload")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+dir, "LC_ALL=C.UTF-8")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		out, err := exec.Command(python(t, "sqlite3"), "-c", newsboatScript, filepath.Join(dir, "cache.db")).Output()
		if err == nil {
			err = json.Unmarshal(out, &got)
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return got
	}
	newest := func(told readFeed) readFeed {
		byID := make(map[string]readItem)
		for _, i := range told.Items { // the newest first
			if _, later := byID[i.ID]; !later {
				byID[i.ID] = readItem{ID: i.ID, Title: i.Title, Link: i.Link}
			}
		}
		told.ID, told.Items = "", slices.SortedFunc(maps.Values(byID), func(a, b readItem) int { return strings.Compare(a.ID, b.ID) })
		return told
	}
	if diff := cmp.Diff(newest(told), reload()); diff != "" {
		t.Errorf("newsboat reads (-want +got):\n%s", diff)
	}
	w.pass(time.Minute)
	w.put("c", "new=1")
	w.publish(w.source())
	if diff := cmp.Diff(newest(readOf(t, w)), reload()); diff != "" {
		t.Errorf("newsboat reads later (-want +got):\n%s", diff)
	}
}

// TestAtomOverHTTP asks for documents of a feed as harvesters do.
func TestAtomOverHTTP(t *testing.T) {
	t.Parallel()
	w := atomWorld(t, source.Atom{Entries: 2})
	w.put("a=1", "b=1", "c=1")
	s := w.source()
	w.publish(s)
	w.pass(time.Hour)
	handler := s.Handler()
	ask := func(method, name string, header ...string) *http.Response {
		t.Helper()
		r := httptest.NewRequest(method, "https://data.example.org/"+name, nil)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, r)
		return rec.Result()
	}
	archive := w.names("resourcesync/main/feed-")[0]
	for name, caching := range map[string]string{feedName: "no-cache", archive: "public, max-age=31536000, immutable"} {
		got := ask("GET", name)
		body, err := io.ReadAll(got.Body)
		if err != nil {
			t.Fatal(err)
		}
		h := got.Header
		tag, modified := h.Get("ETag"), h.Get("Last-Modified")
		if got.StatusCode != 200 || h.Get("Content-Type") != atompmh.MediaType || tag == "" || strings.HasPrefix(tag, "W/") || modified == "" ||
			h.Get("Cache-Control") != caching { // AP-DOC-11, AP-HTTP-01
			t.Errorf("%s: %d, header %v", name, got.StatusCode, h)
		}
		head := ask("HEAD", name)
		if diff := cmp.Diff(h, head.Header); diff != "" || head.StatusCode != 200 { // AP-HTTP-09
			t.Errorf("HEAD %s: %d, header (-GET +HEAD):\n%s", name, head.StatusCode, diff)
		}
		past := "Thu, 01 Jan 1970 00:00:00 GMT"
		for _, tt := range []struct {
			header []string
			want   int
		}{
			{[]string{"If-None-Match", tag}, 304},
			{[]string{"If-None-Match", "W/" + tag, "If-Modified-Since", past}, 304}, // AP-HTTP-02
			{[]string{"If-None-Match", `"other"`, "If-Modified-Since", modified}, 200},
			{[]string{"If-Modified-Since", modified}, 304}, // AP-HTTP-03
			{[]string{"If-Modified-Since", past}, 200},
			{[]string{"If-Modified-Since", "yesterday"}, 200},
		} {
			for _, method := range []string{"GET", "HEAD"} {
				got := ask(method, name, tt.header...)
				if got.StatusCode != tt.want {
					t.Errorf("%s %s with %v = %d, want %d", method, name, tt.header, got.StatusCode, tt.want)
				}
				if got.StatusCode == 304 && (got.Header.Get("ETag") != tag || got.Header.Get("Cache-Control") != caching || got.Header.Get("Vary") != h.Get("Vary")) {
					t.Errorf("%s %s: 304 with header %v", method, name, got.Header)
				}
			}
		}
		zipped := ask("GET", name, "Accept-Encoding", "gzip")
		zr, err := gzip.NewReader(zipped.Body)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := io.ReadAll(zr)
		if err != nil || !bytes.Equal(plain, body) {
			t.Errorf("%s compressed is another document: %v", name, err)
		}
	}
	w.put("a=2")
	w.publish(s)
	if got := ask("GET", feedName); got.Header.Get("Last-Modified") == w.now().UTC().Format(http.TimeFormat) { // AP-HTTP-04
		t.Error("Last-Modified is of a second that is not over")
	}
}

// TestAtomIsFound has the pages and the Capability List lead to the feed.
func TestAtomIsFound(t *testing.T) {
	t.Parallel()
	w := atomWorld(t, source.Atom{})
	w.put("a=1")
	s := w.source()
	w.publish(s)
	uri, err := source.AtomFeedURI(baseURL, "main")
	if err != nil || uri != baseURL+feedName {
		t.Fatalf("AtomFeedURI = %s, %v", uri, err)
	}
	link := `rel="alternate" type="application/atom+xml" title="main" href="` + uri + `"`
	rec := httptest.NewRecorder()
	s.Handler().ServeHTTP(rec, httptest.NewRequest("GET", baseURL, nil))
	if !strings.Contains(rec.Body.String(), link) || !strings.Contains(rec.Body.String(), `<a href="`+uri+`"`) {
		t.Error("the home page does not lead to the feed")
	}
	if links := rec.Header().Values("Link"); !slices.Contains(links, "<"+uri+`>; rel="alternate"; type="application/atom+xml"`) {
		t.Errorf("Link of the home page = %q", links)
	}
	if hint := w.files()["resourcesync/index.html"]; !strings.Contains(hint, link) {
		t.Error("the page beside the documents does not lead to the feed")
	}
	list, err := reader(w.docs)("resourcesync/main/capabilitylist.xml")
	if err != nil {
		t.Fatal(err)
	}
	h, err := resourcesync.NewReader(bytes.NewReader(list), resourcesync.ReaderOptions{Base: baseURL, Strict: true}).Header()
	if err != nil || h.Link(atompmh.RelFeed) != uri {
		t.Errorf("Capability List leads to feed %q, %v", h.Link(atompmh.RelFeed), err)
	}
}
