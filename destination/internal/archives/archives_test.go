package archives_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lockstep/destination/internal/archives"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/selection"
	"lockstep/destination/internal/stage"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// readerOf returns a reader of a set whose documents have the given texts, by path;
// BASE in them is their host. It appends warnings to warned.
func readerOf(t *testing.T, docs map[string]string, warned *[]string) *entries.Reader {
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
	selects, err := selection.New(selection.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	set := &saved.Set{URI: srv.URL + "/caps", Archives: map[resourcesync.Capability]string{}}
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
	return &entries.Reader{
		Client: client, Jobs: 4, Selects: selects, Set: set, Stage: stage.New(&journal.Mem{}), OnOpen: func(string) {},
		Warn: func(_, text string) { *warned = append(*warned, text) },
		Fail: func(uri string, err error) { t.Errorf("%s: %v", uri, err) },
	}
}

// document returns a document with the rs:md of its root and its entries.
func document(root, md string, entries ...string) string {
	return `<?xml version="1.0"?><` + root + ` xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">` +
		`<rs:ln rel="up" href="BASE/caps"/>` + md + strings.Join(entries, "") + `</` + root + `>`
}

func entry(tag, path, more string) string {
	return fmt.Sprintf("<%s><loc>BASE%s</loc>%s</%s>", tag, path, more, tag)
}

func metadata(attributes string) string { return "<rs:md " + attributes + "/>" }

// TestSnapshots reads archives of lists and dumps, of this version of the
// standard and older ones: RA-GEN-01, RA-GEN-03, RA-DST-01.
func TestSnapshots(t *testing.T) {
	t.Parallel()
	list := func(attributes string) string {
		return document("urlset", metadata(`capability="resourcelist" `+attributes))
	}
	old06 := func(modified string) string {
		return strings.ReplaceAll(document("urlset", metadata(`capability="resourcelist"`+modified)), `rel="up"`, `rel="resourcesync"`)
	}
	tests := []struct {
		name string
		docs map[string]string
		want string // by path, with at; ~ is approximate, * current
		warn string
	}{
		{name: "RA-RES-03: in any order", want: "/a@1 /b@2 /list@4*", docs: map[string]string{
			"/list":  list(at(4)),
			"/lists": document("urlset", metadata(`capability="resourcelist-archive"`), entry("url", "/b", metadata(at(2))), entry("url", "/a", metadata(at(1)))),
		}},
		{name: "RA-RES-04: entries without at", want: "/a@1 /list@4*", docs: map[string]string{
			"/list": list(at(4)), "/a": list(at(1)),
			"/lists": document("urlset", metadata(`capability="resourcelist-archive"`), entry("url", "/a", ""), entry("url", "/gone", "")),
		}, warn: "/gone: status 404"},
		{name: "RA-RES-05: two of one instant", want: "/b@1 /a@1", warn: "are both of", docs: map[string]string{
			"/lists": document("urlset", metadata(`capability="resourcelist-archive"`),
				entry("url", "/a", metadata(at(1)+` completed="2024-01-01T20:00:00Z"`)), entry("url", "/b", metadata(at(1)))),
		}},
		{name: "RA-GEN-11: the current one, too", want: "/list@4*", docs: map[string]string{
			"/list": list(at(4)), "/lists": document("urlset", metadata(`capability="resourcelist-archive"`), entry("url", "/list", metadata(at(4)))),
		}},
		{name: "RA-IDX-01, RA-IDX-03, RA-IDX-06: an index with times and a part twice", want: "/a@1 /b@2", docs: map[string]string{
			"/lists": document("sitemapindex", metadata(`capability="resourcelist-archive"`),
				entry("sitemap", "/two", metadata(at(9))), entry("sitemap", "/one", ""), entry("sitemap", "/two", "")),
			"/one": document("urlset", metadata(`capability="resourcelist-archive"`), entry("url", "/a", metadata(at(1)))),
			"/two": document("urlset", metadata(`capability="resourcelist-archive"`), entry("url", "/b", metadata(at(2)))),
		}, warn: "twice"},
		{name: "lists and dumps", want: "/a@1 /d@2 /list@4* /dump@5*", docs: map[string]string{
			"/list": list(at(4)), "/dump": document("urlset", metadata(`capability="resourcedump" `+at(5))),
			"/lists": document("urlset", metadata(`capability="resourcelist-archive"`), entry("url", "/a", metadata(at(1)))),
			"/dumps": document("urlset", metadata(`capability="resourcedump-archive"`), entry("url", "/d", metadata(at(2)))),
		}},
		{name: "RA-ADV-03: by the link of the list", want: "/a@1 /list@4*", docs: map[string]string{
			"/list":   strings.Replace(list(at(4)), "<rs:md", `<rs:ln rel="archives" href="BASE/linked"/><rs:md`, 1),
			"/linked": document("urlset", metadata(`capability="resourcelist-archive"`), entry("url", "/a", metadata(at(1)))),
		}},
		{name: "RA-VER-01: 0.9, from is at", want: "/a@1 /list@4*", docs: map[string]string{
			"/list": list(at(4)),
			"/lists": strings.ReplaceAll(document("urlset", metadata(`capability="resourcelist-archive" from="2024-01-01T00:00:00Z"`),
				entry("url", "/a", metadata(`from="2024-01-01T00:00:00Z"`))), `rel="up"`, `rel="resourcesync"`),
		}},
		{name: "RA-VER-01, RA-VER-04: 0.9, with lastmod only", want: "/a@1 /list@4*", docs: map[string]string{
			"/list": list(at(4)), "/a": list(`from="2024-01-01T00:00:00Z"`),
			"/lists": document("urlset", metadata(`capability="resourcelist-archive"`), entry("url", "/a", "<lastmod>2024-01-03T00:00:00Z</lastmod>")),
		}},
		{name: "RA-VER-02: 0.6, times from the documents, else about lastmod", want: "/a@1~ /b@3~ /list@4*", docs: map[string]string{
			"/list": list(at(4)), "/a": old06(` modified="2024-01-01T00:00:00Z"`), "/b": old06(""),
			"/lists": strings.ReplaceAll(document("urlset", metadata(`capability="resourcelist-archive" modified="2024-01-09T00:00:00Z"`),
				entry("url", "/a", "<lastmod>2024-01-02T00:00:00Z</lastmod>"), entry("url", "/b", "<lastmod>2024-01-03T00:00:00Z</lastmod>")), `rel="up"`, `rel="resourcesync"`),
		}},
		{name: "RA-VER-03: 0.5, an index of dumps of different months", want: "/d1@1~ /d2@2~* /list@4*", docs: map[string]string{
			"/list": list(at(4)),
			"/dump": document("sitemapindex", metadata(`capability="resourcedump" modified="2024-01-09T00:00:00Z"`),
				entry("sitemap", "/d2", "<lastmod>2024-01-02T00:00:00Z</lastmod>"), entry("sitemap", "/d1", "<lastmod>2024-01-01T00:00:00Z</lastmod>")),
			"/d1": document("urlset", metadata(`capability="resourcedump" modified="2024-01-01T00:00:00Z"`)),
			"/d2": document("urlset", metadata(`capability="resourcedump" modified="2024-01-02T00:00:00Z"`)),
		}},
		{name: "RA-DOC-11, RA-GEN-06: nothing archived", want: "/list@4*", docs: map[string]string{
			"/list": list(at(4)), "/lists": document("urlset", metadata(`capability="resourcelist-archive"`)),
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var warned []string
			found, err := archives.Snapshots(t.Context(), readerOf(t, tt.docs, &warned))
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

// at returns the attribute for a day of January.
func at(day int) string { return fmt.Sprintf(`at="2024-01-%02dT00:00:00Z"`, day) }

// TestConfirm reads the times of documents from the documents: RA-DOC-10.
func TestConfirm(t *testing.T) {
	t.Parallel()
	var warned []string
	r := readerOf(t, map[string]string{
		"/list":  document("urlset", metadata(`capability="resourcelist" `+at(3))),
		"/lists": document("urlset", metadata(`capability="resourcelist-archive"`), entry("url", "/other", metadata(at(1))), entry("url", "/gone", metadata(at(2)))),
		"/other": document("urlset", metadata(`capability="resourcelist" `+at(2))),
	}, &warned)
	found, err := archives.Snapshots(t.Context(), r)
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

// TestHistory reads archives of changes: documents without times in the archive
// state them, the parts of an index are listed, and a document that only has a
// modification time is sorted by that, as approximate (RA-CHG-03, RA-CHG-06,
// RA-VER-02).
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
	r := readerOf(t, map[string]string{
		"/changes": document("sitemapindex", metadata(`capability="changelist" `+span(4, 0)), entry("sitemap", "/p4", metadata(span(4, 5))), entry("sitemap", "/p5", metadata(span(5, 0)))),
		"/past": document("urlset", metadata(`capability="changelist-archive"`), entry("url", "/p4", metadata(span(4, 5))), entry("url", "/p3", ""),
			entry("url", "/p1", metadata(span(1, 3))), entry("url", "/old", "<lastmod>"+day(1)+"</lastmod>")),
		"/p3":  document("urlset", metadata(`capability="changelist" `+span(3, 4))),
		"/old": document("urlset", metadata(`capability="changelist" modified="`+day(1)+`"`)),
	}, &warned)
	found, err := archives.History(t.Context(), r)
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

// TestArchivedBounds reads archives that are too large: the number and the size of
// the addresses stored are limited, and such an archive is left out.
func TestArchivedBounds(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 8<<10)
	for name, n := range map[string]int{"/" + long: archives.MaxBytes / len(long), "/": entries.MaxParts} {
		var b strings.Builder
		for i := range n + 1 {
			b.WriteString(entry("url", fmt.Sprint(name, i), metadata(`from="2024-01-01T00:00:00Z" until="2024-01-02T00:00:00Z"`)))
		}
		var warned []string
		r := readerOf(t, map[string]string{"/past": document("urlset", metadata(`capability="changelist-archive"`), b.String())}, &warned)
		start := time.Now()
		found, err := archives.History(t.Context(), r)
		if err != nil || len(found) > 0 || !strings.Contains(strings.Join(warned, "\n"), "more than") {
			t.Errorf("%.20s: found %d, %v, warned %.300q", name, len(found), err, warned)
		}
		t.Logf("%v", time.Since(start))
	}
}
