package pages_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/cmd/lockstep/internal/explorer/pages"
	"lockstep/cmd/lockstep/internal/explorer/place"
	"lockstep/cmd/lockstep/internal/explorer/reading"
	"lockstep/cmd/lockstep/internal/explorer/spool"
	"lockstep/destination"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// TestOverview shows what a Source offers, after it has read one part of its list.
func TestOverview(t *testing.T) {
	t.Parallel()
	v := visit(t, newSource(t).URL, nil)
	p := v.until("/", "1 of 2 parts read: 74 entries")
	p.has("A ResourceSync Source", "Resource List Index", "Change List", "Resource Dump", "Media types", "text/plain", "Sizes", "Changes per day", "Last modified per day", "lockstep sync "+v.place.Address)
	if rows := p.rows("Documents"); len(rows) != 5 || rows[3][0] != "Capability List" || rows[4][0] != "Source Description" || rows[4][1] != "not yet" || rows[0][1] != "1 of 2 parts" || rows[0][2] != "74" || rows[0][3] != "at 2026-03-05 00:00:00Z" {
		t.Errorf("the table of documents is %q", rows)
	}
	if n := len(p.all("figure")); n != 2 {
		t.Errorf("%d charts, want 2", n)
	}
	for _, b := range p.all("button") {
		if textOf(b) == "Read all" {
			v.post("/read", "list", "1", "all", "1", "back", "/")
		}
	}
	v.until("/", "2 of 2 parts read: 134 entries")
}

// TestPaging goes through a list in both directions, over the border between parts.
func TestPaging(t *testing.T) {
	t.Parallel()
	v := visit(t, newSource(t).URL, nil)
	p := v.until(v.until("/", "74").link("Resource List Index"), "Entries 1 to 50")
	var forth []string
	for labels := 0; ; labels++ {
		for _, row := range p.rows("Entries") {
			forth = append(forth, row[0])
		}
		if !strings.Contains(p.text("nav.pager"), "Next") || labels > 10 {
			break
		}
		p = v.until(p.link("Next"), "Entries ")
	}
	if len(forth) != 134 || !slices.IsSortedFunc(forth[4:74], strings.Compare) || !strings.HasSuffix(forth[133], "/more/059") {
		t.Fatalf("%d entries: %q", len(forth), forth)
	}
	var back []string
	for n := 0; n < 10; n++ {
		var page []string
		for _, row := range p.rows("Entries") {
			page = append(page, row[0])
		}
		back = append(page, back...)
		if !strings.Contains(p.text("nav.pager"), "Previous") {
			break
		}
		p = v.get(p.link("Previous"))
	}
	if !slices.Equal(forth, back) {
		t.Errorf("backwards: %q", back)
	}
	v.until("/list?list=1&part=1&row=10", "Entries 11 to 60 of part 2, of 2")
	p = v.get("/parts?list=1")
	if rows := p.rows("Parts"); len(rows) != 2 || rows[0][1] != "yes" || rows[1][2] != "60" {
		t.Errorf("the parts are %q", rows)
	}
}

// TestSearch selects entries by URI, type, date and change.
func TestSearch(t *testing.T) {
	t.Parallel()
	v := visit(t, newSource(t).URL, nil)
	v.until("/", "74")
	v.post("/read", "list", "1", "all", "1")
	v.until("/list?list=1", "2 of 2 parts read")
	for query, n := range map[string]int{"q=TEXTS": 70, "q=/more/05": 10, "type=application/pdf": 60, "type=image/": 1, "q=nothing": 0, "from=2026-03-04&to=2026-03-04": 134, "from=2026-03-05": 0} {
		p := v.get("/list?list=1&" + query)
		if p.has(fmt.Sprintf("%d entr", n)); len(p.rows("Entries")) != min(n, 50) {
			t.Errorf("%s: %d rows, want %d", query, len(p.rows("Entries")), min(n, 50))
		}
	}
	p := v.get("/list?list=1&q=TEXTS")
	if next := v.get(p.link("Next")); len(next.rows("Entries")) != 20 {
		t.Errorf("the second page of a search has %d rows", len(next.rows("Entries")))
	} else if first := v.get(next.link("Previous")); len(first.rows("Entries")) != 50 {
		t.Errorf("back on the first page there are %d rows", len(first.rows("Entries")))
	}
	if rows := v.until("/list?list=3&kind=deleted", "1 entry of the 3").rows("Entries"); len(rows) != 1 || rows[0][0] != "deleted" {
		t.Errorf("the deletions are %q", rows)
	}
}

// TestResource shows a resource with its links and history, and reads it only when that
// is asked for.
func TestResource(t *testing.T) {
	t.Parallel()
	w := newSource(t)
	v := visit(t, w.URL, nil)
	v.until("/", "74")
	v.until("/list?list=3", "3 entries")
	w.requests()
	const data = "/resource?list=1&part=0&row=0"
	p := v.get(data)
	p.has(w.URL+"/data.json", "application/json", "hash md5", "timemap", "describedby", w.URL+"/about", "History", "created", "updated", "Patches", w.URL+"/data.patch")
	v.get(data+"&link=2").has("describedby", w.URL+"/about")
	if asked := w.requests(); len(asked) > 0 {
		t.Errorf("the pages requested %q", asked)
	}
	v.get(data+"&show=hash").has("The hash is right: all 43 bytes", "sha-256, computed")
	v.get("/resource?list=1&part=0&row=3&show=hash").has("Not as stated: its md5 hash is not the stated one; it has 13 bytes, 7 are stated")
	if asked := w.requests(); !slices.Equal(asked, []string{"/data.json", "/changed.txt"}) {
		t.Errorf("to verify two resources, %q were requested", asked)
	}
	versions := v.get(data + "&show=versions")
	versions.has("Versions", "2026-03-02 10:00:00Z", w.URL+"/versions/2", "TimeGate")
	first := v.get(versions.link(w.URL + "/versions/1"))
	content := v.get(attribute(v.get(first.link("Preview")).all("iframe")[0], "src"))
	if !strings.Contains(content.body, `"first": 1`) {
		t.Errorf("the first version is %q", content.body)
	}
	v.get("/resource?list=1&part=0&row=4&show=versions").has("Neither the documents nor the resource itself name a TimeGate or TimeMap")
}

// TestPreview checks that what strangers wrote is shown as text or as an image, and that
// the browser is forbidden to execute or load anything.
func TestPreview(t *testing.T) {
	t.Parallel()
	v := visit(t, newSource(t).URL, nil)
	v.until("/", "74")
	v.until("/list?list=1", "Entries 1 to 50")
	for row, want := range []struct{ mediaType, text string }{
		{"text/plain; charset=utf-8", "\"b\": \"<script>alert(1)</script>\""}, {"text/plain; charset=utf-8", "<!doctype html><script>"}, {"image/svg+xml", "<svg"}, {"text/plain; charset=utf-8", "other content"},
	} {
		p := v.get(fmt.Sprintf("/content?list=1&part=0&row=%d", row))
		if got := p.header.Get("Content-Type"); got != want.mediaType || !strings.Contains(p.body, want.text) {
			t.Errorf("row %d is %s: %s", row, got, p.body)
		}
		policy := p.header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "sandbox; default-src 'none'") || p.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("row %d: the policy is %q", row, policy)
		}
	}
	page := v.get("/resource?list=1&part=0&row=1&show=preview")
	if frames := page.all("iframe"); len(frames) != 1 || !strings.Contains(page.body, "<iframe sandbox src=") {
		t.Errorf("the preview is not in a frame with a sandbox: %s", page.body)
	}
	if d := v.get("/download?list=1&part=0&row=1"); d.header.Get("Content-Type") != "application/octet-stream" || d.header.Get("Content-Disposition") != `attachment; filename="page.html"` {
		t.Errorf("the download is %v", d.header)
	}
}

// TestPackage looks into a package without fetching all of it.
func TestPackage(t *testing.T) {
	t.Parallel()
	w := newSource(t)
	v := visit(t, w.URL, nil)
	v.until("/", "74")
	dump := v.until("/list?list=2", w.URL+"/dump.zip")
	members := v.until(dump.link(w.URL+"/dump.zip"), "3 entries")
	members.has(w.URL+"/one.txt", w.URL+"/large.bin", "4.2 MB", "not in the manifest", "stray.txt")
	one := v.get(members.link(w.URL + "/one.txt"))
	one.has("resources/one.txt", "text/plain")
	v.get(one.link("Verify the hash")).has("The hash is right: all 16 bytes")
	if d := v.get(one.link("Download")); d.body != "the first member" || d.header.Get("Content-Disposition") != `attachment; filename="one.txt"` {
		t.Errorf("the member is %q, %v", d.body, d.header)
	}
	if v.place.Client.Bytes() > 1<<20 {
		t.Errorf("%d bytes were fetched, although the large member was not looked at", v.place.Client.Bytes())
	}
}

// TestMirror shows the files of a mirror, and nothing outside of it.
func TestMirror(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "a.txt"), []byte("in the mirror"), 0o644), os.Symlink("/etc/passwd", filepath.Join(dir, "b.txt"))); err != nil {
		t.Fatal(err)
	}
	hashes, _ := resourcesync.ParseHashes("md5:" + md5Of("in the mirror"))
	var j journal.Mem
	if err := j.Record(t.Context(), journal.Batch{Put: []journal.Held{
		{URI: "http://source.invalid/a.txt", Path: "a.txt", Length: 13, Type: "text/plain", Hashes: hashes}, {URI: "http://source.invalid/b.txt", Path: "b.txt"}, {URI: "http://source.invalid/c.txt", Path: "../../etc/passwd"},
	}}); err != nil {
		t.Fatal(err)
	}
	v := visitMirror(t, dir, func(context.Context, string) (*place.MirrorState, bool, error) {
		return &place.MirrorState{MirrorState: destination.MirrorState{Source: "http://source.invalid/"}, Journal: &j, Close: func() error { return nil }}, true, nil
	}, nil)
	v.until("/", "3 entries").has("A mirror", "http://source.invalid/")
	v.get("/resource?list=1&part=0&row=0&show=hash").has("The hash is right: all 13 bytes")
	if p := v.get("/content?list=1&part=0&row=0"); p.body != "in the mirror" {
		t.Errorf("the file is %q", p.body)
	}
	for row := 1; row <= 2; row++ {
		if p := v.get(fmt.Sprintf("/download?list=1&part=0&row=%d", row)); p.status != http.StatusBadGateway || strings.Contains(p.body, "root:") {
			t.Errorf("row %d: status %d, %s", row, p.status, p.body)
		}
	}
}

// TestXML shows a document with what the validator finds beside its lines.
func TestXML(t *testing.T) {
	t.Parallel()
	w := newSource(t)
	w.document("/changelist.xml", "urlset", `<rs:ln rel="up" href="BASE/capabilitylist.xml"/><rs:md capability="changelist" from="2026-03-01T00:00:00Z"/>
<url><loc>BASE/a</loc><rs:md change="moved" datetime="2026-03-02T10:00:00Z"/></url>
<url><loc>BASE/b</loc><rs:md change="created" datetime="2026-03-03T10:00:00Z"/></url>`)
	v := visit(t, w.URL, nil)
	v.until("/", "74")
	v.until("/list?list=3", "entries")
	p := v.until("/xml?list=3", "Errors: ")
	var beside []string
	for _, tr := range p.all("tr.error") {
		beside = append(beside, textOf(tr))
	}
	if len(beside) == 0 || !strings.Contains(beside[0], "4:") || !strings.Contains(strings.Join(beside, " "), "moved") {
		t.Errorf("beside lines: %q", beside)
	}
	only := v.get(p.link("Only lines with findings"))
	if n := len(only.all("tr")); n < 2 || n > 6 {
		t.Errorf("%d lines have findings: %s", n, only.text("main"))
	}
	v.get("/xml?list=3&q=CREATED").has("created", "Lines ")
	v.until(v.get("/parts?list=1").link("with findings"), w.URL+"/data.json")
	if clean := v.until("/xml?list=1", "nothing wrong"); len(clean.all("p.finding")) > 0 {
		t.Errorf("findings on a page without: %s", clean.text("main"))
	}
}

// TestCompare shows the differences of a comparison, with since when they exist.
func TestCompare(t *testing.T) {
	t.Parallel()
	w := newSource(t)
	v := visit(t, w.URL, func(o *pages.Options) {
		o.Mirror = "mirror"
		o.Compare = func(_ context.Context, source, mirror string, add func(*spool.Row) error) (reading.Result, error) {
			row := spool.Row{URI: w.URL + "/data.json", Kind: "stale", Length: -1, Detail: spool.Detail{Facts: []spool.Fact{{Name: "cause", Value: "another hash"}}}}
			other := spool.Row{URI: w.URL + "/extra", Kind: "extra", Length: -1, Time: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)}
			return reading.Result{Title: source + " and " + mirror, Of: reading.Differences}, errors.Join(add(&row), add(&other))
		}
		o.Diff = func(_ context.Context, _ string, from, to time.Time, add func(*spool.Row) error) (reading.Result, error) {
			if !to.IsZero() {
				return reading.Result{}, errors.New("the state then is unknown")
			}
			row := spool.Row{URI: w.URL + "/new", Kind: "created", Length: -1}
			return reading.Result{Of: reading.Differences, Facts: []spool.Fact{{Name: "from", Value: from.String()}}}, add(&row)
		}
	})
	v.until("/", "74")
	v.until("/list?list=3", "3 entries")
	p := v.until(v.post("/compare", "what", "mirror").path, "2 differences")
	p.has(w.URL+" and mirror", "another hash")
	rows := p.rows("Differences")
	if len(rows) != 2 || rows[0][3] != "2026-03-04 05:06:07Z" || rows[0][4] != "updated" || rows[1][3] != "2026-01-02 00:00:00Z" {
		t.Errorf("the differences are %q", rows)
	}
	if only := v.get(p.link("extra (1)")); len(only.rows("Differences")) != 1 {
		t.Errorf("filtered by kind: %q", only.rows("Differences"))
	}
	v.until(v.post("/compare", "what", "instants", "from", "2026-01-01").path, "1 difference.")
	v.until(v.post("/compare", "what", "instants", "from", "2026-01-01", "to", "2026-02-01").path, "The state then is unknown")
	for text, fields := range map[string][]string{"Enter the first instant": {"from", ""}, "later than the second": {"from", "2026-02-01", "to", "2026-01-01"}, "Enter instants as dates": {"from", "yesterday"}} {
		if bad := v.post("/compare", append(fields, "what", "instants")...); bad.status != http.StatusUnprocessableEntity || !strings.Contains(bad.text("main"), text) {
			t.Errorf("%q: status %d, %s", fields, bad.status, bad.text("main"))
		}
	}
}

// TestAnotherAddress opens another address from the pages, or says why that is impossible.
func TestAnotherAddress(t *testing.T) {
	t.Parallel()
	v := visit(t, newSource(t).URL, nil)
	sitemap := newWorld(t)
	sitemap.document("/sitemap.xml", "urlset", `<url><loc>BASE/a</loc></url>`)
	v.post("/open", "address", sitemap.URL+"/sitemap.xml").has("A Sitemap")
	if p := v.post("/open", "address", sitemap.URL+"/nothing.txt"); p.status != http.StatusBadGateway {
		t.Errorf("status %d: %s", p.status, p.text("main"))
	}
	v.post("/open", "address", " ").has("Enter an address")
	v.get("/").has("A Sitemap")
	if p := v.get("/list?list=99"); p.status != http.StatusNotFound {
		t.Errorf("a list that does not exist: status %d", p.status)
	}
}
