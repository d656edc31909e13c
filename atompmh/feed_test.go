package atompmh_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/atompmh"
)

const (
	root  = `<feed xmlns="http://www.w3.org/2005/Atom" xmlns:fh="http://purl.org/syndication/history/1.0">`
	about = `<id>urn:feed</id><title>Records</title><updated>2024-05-02T09:30:12.500Z</updated>`
	named = `<author><name>Example Library</name></author>`
	entry = `<entry><id>urn:r</id>` + stamp + alternate + `</entry>`
)

// The description of a document, wherever its elements are (AP-TS-05, AP-TS-06,
// AP-TS-10, AP-CMP-01, AP-DOC-04, AP-GEN-03).
func TestFeed(t *testing.T) {
	t.Parallel()
	links := `<link rel="self" href="https://lib.example.net/pmh/archive/41"/><link rel="current" href="/pmh/feed"/>` +
		`<link rel="prev-archive" href="40"/><link rel="next-archive" href="42?a=1&amp;b=2"/>` +
		`<link rel="next" href="urn:page"/><link rel="hub" type="text/html" hreflang="en" title="H" length="12" href="urn:hub"/>`
	want := atompmh.Feed{
		ID: "urn:feed", Title: "Records", Author: "Example Library", Updated: feedTime,
		Self: "https://lib.example.net/pmh/archive/41", Current: "https://lib.example.net/pmh/feed",
		PrevArchive: "https://lib.example.net/pmh/archive/40", NextArchive: "https://lib.example.net/pmh/archive/42?a=1&b=2", Archive: true,
		Links: []atompmh.Link{{Rel: "next", Href: "urn:page"}, {Rel: "hub", Type: "text/html", Hreflang: "en", Title: "H", Length: 12, Href: "urn:hub"}},
	}
	o := atompmh.ReaderOptions{Base: "https://lib.example.net/pmh/archive/41", Strict: true}
	for name, doc := range map[string]string{
		"in front": root + about + named + links + "<fh:archive/>" + entry + tail,
		"behind":   root + entry + "<fh:archive/>" + links + named + about + tail,
		"between":  root + about + links + entry + "<generator>g</generator><fh:archive/>" + entry + named + tail,
	} {
		got, err := read(strings.NewReader(doc), o)
		if diff := cmp.Diff(want, got.feed); diff != "" || err != nil || len(got.rules) > 0 {
			t.Errorf("%s: %v, warnings %v\n%s", name, err, got.rules, diff)
		}
	}
	r := atompmh.NewReader(strings.NewReader(root+about+"<fh:complete/>"+entry+named+tail), o)
	f, err := r.Feed()
	if err != nil || !f.Complete || f.Author != "" || f.ID != "urn:feed" {
		t.Errorf("in front of the first entry: %+v, %v", f, err)
	}
}

// Errors in the description of a document are reported, and its meaning is kept
// (AP-DOC-02, AP-CMP-03, AP-AMB-04, AP-AMB-09).
func TestBadFeeds(t *testing.T) {
	t.Parallel()
	self := `<link rel="self" href="https://lib.example.net/pmh/feed"/>`
	prev := `<link rel="prev-archive" href="https://lib.example.net/pmh/1"/>`
	tests := map[string]struct {
		in   string
		rule string
		ok   func(f atompmh.Feed) bool
	}{
		"no id":            {strings.Replace(about, "<id>urn:feed</id>", "", 1) + named, "AP-DOC-02", func(f atompmh.Feed) bool { return f.ID == "" }},
		"no title":         {strings.Replace(about, "<title>Records</title>", "", 1) + named, "AP-DOC-02", nil},
		"no updated":       {`<id>urn:feed</id><title/>` + named, "AP-DOC-02", func(f atompmh.Feed) bool { return f.Updated.IsZero() }},
		"bad updated":      {`<id>urn:feed</id><title/><updated>now</updated>` + named, "AP-DOC-08", func(f atompmh.Feed) bool { return f.Updated.IsZero() }},
		"two ids":          {about + "<id>urn:other</id>" + named, "AP-DOC-02", func(f atompmh.Feed) bool { return f.ID == "urn:feed" }},
		"two updated":      {about + "<updated>2034-01-01T00:00:00Z</updated>" + named, "AP-DOC-02", func(f atompmh.Feed) bool { return f.Updated.Equal(feedTime) }},
		"id no IRI":        {`<id>feed</id><title/><updated>2024-05-02T00:00:00Z</updated>` + named, "AP-DOC-09", func(f atompmh.Feed) bool { return f.ID == "feed" }},
		"no author":        {about, "AP-DOC-02", func(f atompmh.Feed) bool { return f.Author == "" }},
		"two authors":      {about + named + "<author><name>B</name></author>", "", func(f atompmh.Feed) bool { return f.Author == "Example Library" }},
		"empty author":     {about + "<author><email>a@example.org</email></author>", "", func(f atompmh.Feed) bool { return f.Author == "" }},
		"two previous":     {about + named + prev + strings.Replace(prev, "/1", "/2", 1), "AP-DOC-01", func(f atompmh.Feed) bool { return f.PrevArchive == "https://lib.example.net/pmh/1" }},
		"one twice":        {about + named + prev + prev, "", func(f atompmh.Feed) bool { return f.PrevArchive == "https://lib.example.net/pmh/1" }},
		"complete, older":  {about + named + prev + "<fh:complete/>", "AP-CMP-03", func(f atompmh.Feed) bool { return f.Complete && f.PrevArchive != "" }},
		"complete archive": {about + named + "<fh:complete/><fh:archive/>", "", func(f atompmh.Feed) bool { return f.Complete && f.Archive }}, // AP-AMB-07
		"not complete":     {about + named, "", func(f atompmh.Feed) bool { return !f.Complete }},                                             // AP-AMB-06
		"comlete":          {about + named + "<fh:comlete/>", "AP-AMB-04", func(f atompmh.Feed) bool { return !f.Complete }},
		"another complete": {about + named + "<complete/><x:complete xmlns:x='urn:x'/>", "", func(f atompmh.Feed) bool { return !f.Complete }},
		"ref":              {about + named + strings.Replace(self, "rel", "ref", 1), "AP-AMB-04", func(f atompmh.Feed) bool { return f.Self != "" }},
		"broken self":      {about + named + `<link self="https://lib.example.net/pmh/feed"/>`, "AP-DOC-01", func(f atompmh.Feed) bool { return f.Self == "" && len(f.Links) == 0 }},
		"registry":         {about + named + strings.Replace(self, "self", "http://www.iana.org/assignments/relation/self", 1), "AP-DOC-01", func(f atompmh.Feed) bool { return f.Self != "" }},
		"upper case":       {about + named + strings.Replace(prev, "prev-archive", "Prev-Archive", 1), "AP-DOC-01", func(f atompmh.Feed) bool { return f.PrevArchive != "" }},
		"own relation":     {about + named + strings.Replace(self, "self", "http://example.org/Rel", 1), "", func(f atompmh.Feed) bool { return f.Links[0].Rel == "http://example.org/Rel" }},
		"empty relation":   {about + named + strings.Replace(self, "self", " ", 1), "AP-DOC-01", func(f atompmh.Feed) bool { return f.Links[0].Rel == "alternate" }},
		"bad length":       {about + named + `<link href="urn:x" length="1k"/>`, "AP-DOC-01", func(f atompmh.Feed) bool { return f.Links[0].Length == 0 }},
		"great length":     {about + named + `<link href="urn:x" length="99999999999999999999"/>`, "AP-DOC-01", func(f atompmh.Feed) bool { return f.Links[0].Length == 0 }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := readString(t, root+tt.in+entry+tail)
			if tt.rule == "" && len(got.rules) > 0 || tt.rule != "" && !slices.Contains(got.rules, tt.rule) {
				t.Errorf("warnings %v, want %q", got.rules, tt.rule)
			}
			if len(got.entries) != 1 || tt.ok != nil && !tt.ok(got.feed) {
				t.Errorf("read %+v and %d entries", got.feed, len(got.entries))
			}
			if _, err := read(strings.NewReader(root+tt.in+entry+tail), atompmh.ReaderOptions{Strict: true, Base: base}); (err != nil) != (tt.rule != "") {
				t.Errorf("a strict Reader says %v", err)
			}
		})
	}
}

// AP-AMB-05: deletion entries in a document with fh:complete are returned, with
// a warning (AP-CMP-03).
func TestCompleteWithDeletion(t *testing.T) {
	t.Parallel()
	got := readString(t, root+about+named+"<fh:complete/><entry><id>urn:r</id>"+stamp+"<content/></entry>"+tail)
	if len(got.entries) != 1 || got.entries[0].Kind != atompmh.Deletion || !slices.Equal(got.rules, []string{"AP-CMP-03"}) {
		t.Errorf("read %+v, warnings %v", got.entries, got.rules)
	}
}

// A feed needs no author if each entry has one, or was copied with one.
func TestAuthors(t *testing.T) {
	t.Parallel()
	own := strings.Replace(entry, "</entry>", named+"</entry>", 1)
	copied := strings.Replace(entry, "</entry>", "<source><title>t</title>"+named+"</source></entry>", 1)
	for doc, want := range map[string]bool{own: true, own + copied: true, entry: false, own + entry: false, "": false} {
		got := readString(t, root+about+doc+tail)
		if slices.Contains(got.rules, "AP-DOC-02") == want {
			t.Errorf("%q: warnings %v", doc, got.rules)
		}
	}
}

// A feed time that follows the entries is also compared with them (AP-TS-01).
func TestUpdatedBehind(t *testing.T) {
	t.Parallel()
	got := readString(t, root+`<id>urn:feed</id><title/>`+named+entry+`<updated>2024-04-30T00:00:00Z</updated>`+tail)
	if !slices.Equal(got.rules, []string{"AP-TS-01"}) || !got.feed.Updated.Equal(may1.Add(-24*time.Hour)) {
		t.Errorf("warnings %v, feed %+v", got.rules, got.feed)
	}
}

// AP-DOC-12: relative links are resolved against the nearest xml:base,
// otherwise against the address of the document.
func TestBase(t *testing.T) {
	t.Parallel()
	of := func(feed, entry, link, href string) string {
		return strings.Replace(root, ">", feed+">", 1) + about + named + "<entry" + entry + "><id>urn:r</id>" + stamp + `<link type="text/html"` + link + ` href="` + href + `"/></entry>` + tail
	}
	const doc = "https://lib.example.net/pmh/feed"
	tests := map[string]struct{ doc, base, want string }{
		"document":         {of("", "", "", "../rec/7"), doc, "https://lib.example.net/rec/7"},
		"rooted":           {of("", "", "", "/rec/7"), doc, "https://lib.example.net/rec/7"},
		"authority":        {of("", "", "", "//other.example/7"), doc, "https://other.example/7"},
		"query":            {of("", "", "", "?id=7"), doc, "https://lib.example.net/pmh/feed?id=7"},
		"feed":             {of(` xml:base="http://a.example/x/"`, "", "", "7"), doc, "http://a.example/x/7"},
		"feed, relative":   {of(` xml:base="x/"`, "", "", "7"), doc, "https://lib.example.net/pmh/x/7"},
		"entry":            {of(` xml:base="http://a.example/"`, ` xml:base="y/"`, "", "7"), doc, "http://a.example/y/7"},
		"link":             {of(` xml:base="http://a.example/"`, ` xml:base="y/"`, ` xml:base="z/"`, "7"), doc, "http://a.example/y/z/7"},
		"no document":      {of(` xml:base="http://a.example/"`, "", "", "7"), "", "http://a.example/7"},
		"absolute":         {of("", "", "", "HTTP://a.example/7"), "", "HTTP://a.example/7"},
		"an IRI":           {of("", "", "", "http://a.example/grün e"), "", "http://a.example/gr%C3%BCn%20e"},
		"a relative IRI":   {of("", "", "", "grün"), doc, "https://lib.example.net/pmh/gr%C3%BCn"},
		"an IRI as base":   {of(` xml:base="http://a.example/ü/"`, "", "", "7"), doc, "http://a.example/%C3%BC/7"},
		"blanks around":    {of("", "", "", " \n/rec/7 "), doc, "https://lib.example.net/rec/7"},
		"bad base, kept":   {of(` xml:base="http://[::1"`, "", "", "7"), doc, "https://lib.example.net/pmh/7"},
		"nothing to go by": {of("", "", "", "7"), "", ""},
		"relative base":    {of(` xml:base="x/"`, "", "", "7"), "", ""},
		"empty":            {of("", "", "", ""), doc, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := read(strings.NewReader(tt.doc), atompmh.ReaderOptions{Base: tt.base})
			if err != nil {
				t.Fatal(err)
			}
			href := ""
			if len(got.entries) > 0 {
				href = got.entries[0].Links[0].Href
			}
			if href != tt.want || (tt.want == "") != slices.Contains(got.rules, "AP-CLS-04") {
				t.Errorf("href %q, want %q; warnings %v", href, tt.want, got.rules)
			}
		})
	}
}

// Titles are plain text, whatever markup is inside them.
func TestTitles(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"<title> A &amp; B\n</title>":                                                              "A & B",
		"<title type='html'>&lt;b&gt;A&lt;/b></title>":                                             "<b>A</b>",
		"<title type='xhtml'><div xmlns='http://www.w3.org/1999/xhtml'>A <b>b</b> c</div></title>": "A b c",
		"<title><![CDATA[<A>]]> b</title>":                                                         "<A> b",
	} {
		got := readString(t, root+about+named+"<entry>"+in+"<id>urn:r</id><updated>2024-05-01T00:00:00Z</updated>"+alternate+"</entry>"+tail)
		if got.entries[0].Title != want || len(got.rules) > 0 {
			t.Errorf("%s: title %q, want %q; warnings %v", in, got.entries[0].Title, want, got.rules)
		}
	}
}

// Identifiers conform to RFC 9562: version 5, in the namespace of URLs.
func TestRecordID(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"http://www.example.com/":             "urn:uuid:fcde3c85-2270-590f-9e7c-ee003d65e0e2",
		"https://data.example.org/a?b=c#d":    "urn:uuid:70258e58-97e5-5e52-9643-0c672c99c5f7",
		"https://data.example.org/\u00e9":     "urn:uuid:732ead14-ddf3-53ea-ab2b-0e93ca50b423",
		"http://www.example.com/?again=false": atompmh.RecordID("http://www.example.com/?again=false"),
	} {
		if got := atompmh.RecordID(uri); got != want {
			t.Errorf("RecordID(%q) = %s, want %s", uri, got, want)
		}
	}
}

// Alternates are the links to the record (AP-GEN-05).
func TestAlternates(t *testing.T) {
	t.Parallel()
	via := atompmh.Link{Rel: "via", Href: "urn:x"}
	e := atompmh.Entry{Links: []atompmh.Link{via, rdfLink, via, rdfLink}}
	if got := e.Alternates(); len(got) != 2 || got[0] != rdfLink || got[1] != rdfLink {
		t.Errorf("Alternates = %+v", got)
	}
	e.Links = e.Links[1:2]
	if got := e.Alternates(); len(got) != 1 {
		t.Errorf("Alternates = %+v", got)
	}
	if got := (&atompmh.Entry{}).Alternates(); len(got) != 0 {
		t.Errorf("Alternates of none = %+v", got)
	}
	if atompmh.Active.String() != "active" || atompmh.Deletion.String() != "deletion" || atompmh.Kind(0).String() != "undefined" {
		t.Error("the words for kinds changed")
	}
}
