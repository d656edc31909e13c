package destination

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/stage"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// archivesOf is a reader of a set whose documents are texts, by path. BASE in
// them is where they are. What is warned of goes to warned.
func archivesOf(t *testing.T, docs map[string]string, warned *[]string) *entries.Reader {
	t.Helper()
	var srv *httptest.Server
	srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := docs[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(strings.ReplaceAll(text, "BASE", srv.URL)))
	}))
	t.Cleanup(srv.Close)
	client, err := fetch.New(fetch.Options{AllowPrivate: true, Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	d, err := New(&blob.Mem{}, &journal.Mem{}, client, Options{})
	if err != nil {
		t.Fatal(err)
	}
	set := &setState{Set: saved.Set{URI: srv.URL + "/caps", Archives: map[resourcesync.Capability]string{}}}
	for path, to := range map[string]*string{"/list": &set.Lists, "/dump": &set.Dump, "/changes": &set.Changes, "/changedump": &set.ChangeDump} {
		if docs[path] != "" {
			*to = srv.URL + path
		}
	}
	for path, kind := range map[string]resourcesync.Capability{"/lists": resourcesync.ResourceList, "/dumps": resourcesync.ResourceDump, "/past": resourcesync.ChangeList} {
		if docs[path] != "" {
			set.Archives[kind] = srv.URL + path
		}
	}
	return newSetReader(d, set, nil, "", stage.New(d.journal),
		func(_, text string) { *warned = append(*warned, text) },
		func(uri string, err error) { t.Errorf("%s: %v", uri, err) })
}

// told is a document: the root's rs:md, and its entries.
func toldDoc(root, md string, entries ...string) string {
	return `<?xml version="1.0"?><` + root + ` xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">` +
		`<rs:ln rel="up" href="BASE/caps"/>` + md + strings.Join(entries, "") + `</` + root + `>`
}

func toldEntry(tag, path, more string) string {
	return fmt.Sprintf("<%s><loc>BASE%s</loc>%s</%s>", tag, path, more, tag)
}

func toldMD(attributes string) string { return "<rs:md " + attributes + "/>" }

// TestSnapshots reads archives of lists and dumps, of this version of the
// standard and older ones: RA-GEN-01, RA-GEN-03, RA-DST-01.
func TestSnapshots(t *testing.T) {
	t.Parallel()
	list := func(attributes string) string {
		return toldDoc("urlset", toldMD(`capability="resourcelist" `+attributes))
	}
	old06 := func(modified string) string {
		return strings.ReplaceAll(toldDoc("urlset", toldMD(`capability="resourcelist"`+modified)), `rel="up"`, `rel="resourcesync"`)
	}
	tests := []struct {
		name string
		docs map[string]string
		want string // by path, with at; ~ is approximate, * current
		warn string
	}{
		{name: "RA-RES-03: in any order", want: "/a@1 /b@2 /list@4*", docs: map[string]string{
			"/list":  list(at(4)),
			"/lists": toldDoc("urlset", toldMD(`capability="resourcelist-archive"`), toldEntry("url", "/b", toldMD(at(2))), toldEntry("url", "/a", toldMD(at(1)))),
		}},
		{name: "RA-RES-04: entries without at", want: "/a@1 /list@4*", docs: map[string]string{
			"/list": list(at(4)), "/a": list(at(1)),
			"/lists": toldDoc("urlset", toldMD(`capability="resourcelist-archive"`), toldEntry("url", "/a", ""), toldEntry("url", "/gone", "")),
		}, warn: "/gone: status 404"},
		{name: "RA-RES-05: two of one instant", want: "/b@1 /a@1", warn: "are both of", docs: map[string]string{
			"/lists": toldDoc("urlset", toldMD(`capability="resourcelist-archive"`),
				toldEntry("url", "/a", toldMD(at(1)+` completed="2024-01-01T20:00:00Z"`)), toldEntry("url", "/b", toldMD(at(1)))),
		}},
		{name: "RA-GEN-11: the current one, too", want: "/list@4*", docs: map[string]string{
			"/list": list(at(4)), "/lists": toldDoc("urlset", toldMD(`capability="resourcelist-archive"`), toldEntry("url", "/list", toldMD(at(4)))),
		}},
		{name: "RA-IDX-01, RA-IDX-03, RA-IDX-06: an index with times and a part twice", want: "/a@1 /b@2", docs: map[string]string{
			"/lists": toldDoc("sitemapindex", toldMD(`capability="resourcelist-archive"`),
				toldEntry("sitemap", "/two", toldMD(at(9))), toldEntry("sitemap", "/one", ""), toldEntry("sitemap", "/two", "")),
			"/one": toldDoc("urlset", toldMD(`capability="resourcelist-archive"`), toldEntry("url", "/a", toldMD(at(1)))),
			"/two": toldDoc("urlset", toldMD(`capability="resourcelist-archive"`), toldEntry("url", "/b", toldMD(at(2)))),
		}, warn: "twice"},
		{name: "lists and dumps", want: "/a@1 /d@2 /list@4* /dump@5*", docs: map[string]string{
			"/list": list(at(4)), "/dump": toldDoc("urlset", toldMD(`capability="resourcedump" `+at(5))),
			"/lists": toldDoc("urlset", toldMD(`capability="resourcelist-archive"`), toldEntry("url", "/a", toldMD(at(1)))),
			"/dumps": toldDoc("urlset", toldMD(`capability="resourcedump-archive"`), toldEntry("url", "/d", toldMD(at(2)))),
		}},
		{name: "RA-ADV-03: by the link of the list", want: "/a@1 /list@4*", docs: map[string]string{
			"/list":   strings.Replace(list(at(4)), "<rs:md", `<rs:ln rel="archives" href="BASE/linked"/><rs:md`, 1),
			"/linked": toldDoc("urlset", toldMD(`capability="resourcelist-archive"`), toldEntry("url", "/a", toldMD(at(1)))),
		}},
		{name: "RA-VER-01: 0.9, from is at", want: "/a@1 /list@4*", docs: map[string]string{
			"/list": list(at(4)),
			"/lists": strings.ReplaceAll(toldDoc("urlset", toldMD(`capability="resourcelist-archive" from="2024-01-01T00:00:00Z"`),
				toldEntry("url", "/a", toldMD(`from="2024-01-01T00:00:00Z"`))), `rel="up"`, `rel="resourcesync"`),
		}},
		{name: "RA-VER-01, RA-VER-04: 0.9, with lastmod only", want: "/a@1 /list@4*", docs: map[string]string{
			"/list": list(at(4)), "/a": list(`from="2024-01-01T00:00:00Z"`),
			"/lists": toldDoc("urlset", toldMD(`capability="resourcelist-archive"`), toldEntry("url", "/a", "<lastmod>2024-01-03T00:00:00Z</lastmod>")),
		}},
		{name: "RA-VER-02: 0.6, times from the documents, else about lastmod", want: "/a@1~ /b@3~ /list@4*", docs: map[string]string{
			"/list": list(at(4)), "/a": old06(` modified="2024-01-01T00:00:00Z"`), "/b": old06(""),
			"/lists": strings.ReplaceAll(toldDoc("urlset", toldMD(`capability="resourcelist-archive" modified="2024-01-09T00:00:00Z"`),
				toldEntry("url", "/a", "<lastmod>2024-01-02T00:00:00Z</lastmod>"), toldEntry("url", "/b", "<lastmod>2024-01-03T00:00:00Z</lastmod>")), `rel="up"`, `rel="resourcesync"`),
		}},
		{name: "RA-VER-03: 0.5, an index of dumps of different months", want: "/d1@1~ /d2@2~* /list@4*", docs: map[string]string{
			"/list": list(at(4)),
			"/dump": toldDoc("sitemapindex", toldMD(`capability="resourcedump" modified="2024-01-09T00:00:00Z"`),
				toldEntry("sitemap", "/d2", "<lastmod>2024-01-02T00:00:00Z</lastmod>"), toldEntry("sitemap", "/d1", "<lastmod>2024-01-01T00:00:00Z</lastmod>")),
			"/d1": toldDoc("urlset", toldMD(`capability="resourcedump" modified="2024-01-01T00:00:00Z"`)),
			"/d2": toldDoc("urlset", toldMD(`capability="resourcedump" modified="2024-01-02T00:00:00Z"`)),
		}},
		{name: "RA-DOC-11, RA-GEN-06: nothing archived", want: "/list@4*", docs: map[string]string{
			"/list": list(at(4)), "/lists": toldDoc("urlset", toldMD(`capability="resourcelist-archive"`)),
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var warned []string
			found, err := archivesOf(t, tt.docs, &warned).Snapshots(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, a := range found {
				text := a.Uri[strings.LastIndex(a.Uri, "/"):] + "@" + fmt.Sprint(a.At.Time().Day())
				if a.Approx {
					text += "~"
				}
				if a.Current {
					text += "*"
				}
				got = append(got, text)
			}
			if text := strings.Join(got, " "); text != tt.want {
				t.Errorf("snapshots %s, want %s\n%q", text, tt.want, warned)
			}
			if all := strings.Join(warned, "\n"); !strings.Contains(all, tt.warn) {
				t.Errorf("warned of %q, want %q", all, tt.warn)
			}
		})
	}
}

// at is the attribute of the n-th day.
func at(day int) string { return fmt.Sprintf(`at="2024-01-%02dT00:00:00Z"`, day) }

// TestConfirm asks documents of which time they are: RA-DOC-10.
func TestConfirm(t *testing.T) {
	t.Parallel()
	var warned []string
	r := archivesOf(t, map[string]string{
		"/list":  toldDoc("urlset", toldMD(`capability="resourcelist" `+at(3))),
		"/lists": toldDoc("urlset", toldMD(`capability="resourcelist-archive"`), toldEntry("url", "/other", toldMD(at(1))), toldEntry("url", "/gone", toldMD(at(2)))),
		"/other": toldDoc("urlset", toldMD(`capability="resourcelist" `+at(2))),
	}, &warned)
	found, err := r.Snapshots(t.Context())
	if err != nil || len(found) != 3 {
		t.Fatal(found, err)
	}
	if err := r.Confirm(t.Context(), &found[0]); err != nil || found[0].At.Time().Day() != 2 || !strings.Contains(strings.Join(warned, "\n"), "the document is right") {
		t.Errorf("confirmed %v, %v, warned %q", found[0].At, err, warned)
	}
	if err := r.Confirm(t.Context(), &found[1]); err == nil || !entries.IsGone(err) {
		t.Errorf("confirmed what is gone: %v", err)
	}
}

// TestHistory reads archives of changes: what has no times says them itself,
// parts of an index count for themselves, and what only lastmod dates comes by
// that, flagged (RA-CHG-03, RA-CHG-06, RA-VER-02).
func TestHistory(t *testing.T) {
	t.Parallel()
	day := func(n int) string { return fmt.Sprintf("2024-01-%02dT00:00:00Z", n) }
	span := func(from, until int) string {
		if until == 0 {
			return fmt.Sprintf(`from="%s"`, day(from))
		}
		return fmt.Sprintf(`from="%s" until="%s"`, day(from), day(until))
	}
	var warned []string
	r := archivesOf(t, map[string]string{
		"/changes": toldDoc("sitemapindex", toldMD(`capability="changelist" `+span(4, 0)), toldEntry("sitemap", "/p4", toldMD(span(4, 5))), toldEntry("sitemap", "/p5", toldMD(span(5, 0)))),
		"/past": toldDoc("urlset", toldMD(`capability="changelist-archive"`), toldEntry("url", "/p4", toldMD(span(4, 5))), toldEntry("url", "/p3", ""),
			toldEntry("url", "/p1", toldMD(span(1, 3))), toldEntry("url", "/old", "<lastmod>"+day(1)+"</lastmod>")),
		"/p3":  toldDoc("urlset", toldMD(`capability="changelist" `+span(3, 4))),
		"/old": toldDoc("urlset", toldMD(`capability="changelist" modified="`+day(1)+`"`)),
	}, &warned)
	found, err := r.History(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range found {
		got = append(got, fmt.Sprintf("%s %d-%d %v %v", a.Uri[strings.LastIndex(a.Uri, "/"):], a.From.Time().Day(), a.Until.Time().Day(), a.Approx, a.Current))
	}
	const want = "/p1 1-3 false false, /old 1-1 true false, /p3 3-4 false false, /p4 4-5 false false, /p5 5-1 false true"
	if text := strings.Join(got, ", "); text != want && text != strings.Replace(want, "/p1 1-3 false false, /old 1-1 true false", "/old 1-1 true false, /p1 1-3 false false", 1) {
		t.Errorf("history\n got %s\nwant %s\n%q", text, want, warned)
	}
}

// TestArchivedBounds has archives without end: what is remembered of them is
// bounded, in number and in bytes, and the set does without them.
func TestArchivedBounds(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 8<<10)
	for name, n := range map[string]int{"/" + long: entries.MaxArchivedBytes / len(long), "/": entries.MaxParts} {
		var b strings.Builder
		for i := range n + 1 {
			b.WriteString(toldEntry("url", fmt.Sprint(name, i), toldMD(`from="2024-01-01T00:00:00Z" until="2024-01-02T00:00:00Z"`)))
		}
		var warned []string
		r := archivesOf(t, map[string]string{"/past": toldDoc("urlset", toldMD(`capability="changelist-archive"`), b.String())}, &warned)
		start := time.Now()
		found, err := r.History(t.Context())
		if err != nil || len(found) > 0 || !strings.Contains(strings.Join(warned, "\n"), "more than") {
			t.Errorf("%.20s: found %d, %v, warned %.300q", name, len(found), err, warned)
		}
		t.Logf("%v", time.Since(start))
	}
}
