package atompmh_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lockstep/atompmh"
)

var plainFeed = atompmh.Feed{ID: "urn:feed", Title: "Records", Author: "Example Library", Updated: feedTime, Self: base}

// write returns the document of f and entries.
func write(t testing.TB, f atompmh.Feed, entries ...atompmh.Entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := atompmh.NewWriter(&b, f)
	if err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		if err := w.Write(&entries[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if w.Bytes() != int64(b.Len()) || w.Entries() != len(entries) {
		t.Errorf("Bytes %d of %d, Entries %d of %d", w.Bytes(), b.Len(), w.Entries(), len(entries))
	}
	return b.Bytes()
}

// A document conforms to Atom: in UTF-8, without duplicates, in UTC with
// milliseconds (AP-DOC-02, AP-DOC-03, AP-DOC-05, AP-DOC-08, AP-DEL-06).
func TestDocument(t *testing.T) {
	t.Parallel()
	f := plainFeed
	f.Updated = feedTime.In(time.FixedZone("", 10*3600))
	f.PrevArchive, f.Current, f.NextArchive, f.Archive = "https://lib.example.net/1?a=1&b=2", "https://lib.example.net/c", "https://lib.example.net/3", true
	got := string(write(t, f,
		atompmh.Entry{ID: "urn:r", Title: "A & B", Updated: may1, Kind: atompmh.Active, Links: []atompmh.Link{rdfLink}},
		atompmh.Entry{ID: "urn:s", Updated: may1.Add(1), Kind: atompmh.Deletion, Summary: "gone"}))
	want := `<?xml version="1.0" encoding="UTF-8"?>
<feed xmlns="http://www.w3.org/2005/Atom" xmlns:fh="http://purl.org/syndication/history/1.0">
<id>urn:feed</id><title>Records</title><author><name>Example Library</name></author><updated>2024-05-02T09:30:12.500Z</updated>` +
		`<link rel="self" type="application/atom+xml" href="https://lib.example.net/pmh/feed"/>` +
		`<link rel="current" type="application/atom+xml" href="https://lib.example.net/c"/>` +
		`<link rel="prev-archive" type="application/atom+xml" href="https://lib.example.net/1?a=1&amp;b=2"/>` +
		`<link rel="next-archive" type="application/atom+xml" href="https://lib.example.net/3"/><fh:archive/>
<entry><id>urn:r</id><title>A &amp; B</title><updated>2024-05-01T00:00:00.000Z</updated>` +
		`<link rel="alternate" type="application/rdf+xml" href="https://lib.example.net/rec/7.rdf"/></entry>
<entry><id>urn:s</id><title></title><updated>2024-05-01T00:00:00.000000001Z</updated><summary>gone</summary><content/></entry>
</feed>
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	f = plainFeed
	f.Complete = true // AP-CMP-01
	if got := string(write(t, f)); !strings.Contains(got, "<fh:complete/>\n</feed>") {
		t.Error(got)
	}
}

// Written documents are read back equal.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		f, entries := random(rnd)
		doc := write(t, f, entries...)
		got, err := read(bytes.NewReader(doc), atompmh.ReaderOptions{Strict: true})
		if diff := cmp.Diff(f, got.feed, cmpopts.EquateEmpty()) + cmp.Diff(entries, got.entries, cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Fatalf("%v\n%s\n%s", err, diff, doc)
		}
		var any struct{}
		if err := xml.Unmarshal(doc, &any); err != nil {
			t.Fatalf("encoding/xml: %v\n%s", err, doc)
		}
	}
}

// random returns a valid feed.
func random(rnd *rand.Rand) (atompmh.Feed, []atompmh.Entry) {
	letters := []rune(`abc <>&"'/?=#%[]` + "ü世𝄞")
	text := func() string {
		r := make([]rune, rnd.IntN(40))
		for i := range r {
			r[i] = letters[rnd.IntN(len(letters))]
		}
		return strings.Trim(string(r), " ")
	}
	uri := func() string {
		const bytes = "ab0-._~:/?#[]@!$&'()*+,;=%"
		b := []byte("urn:x")
		for range rnd.IntN(40) {
			b = append(b, bytes[rnd.IntN(len(bytes))])
		}
		return string(b)
	}
	link := func(rel string, i int) atompmh.Link {
		return atompmh.Link{Rel: rel, Href: uri(), Type: "text/x" + strings.Repeat("y", i), Hreflang: []string{"", "de"}[rnd.IntN(2)], Title: text(), Length: rnd.Int64N(3) * 1e12}
	}
	f := atompmh.Feed{ID: uri(), Title: "T" + text(), Author: "A" + text(), Updated: feedTime, Self: uri(), Archive: rnd.IntN(2) > 0}
	if rnd.IntN(2) > 0 {
		f.PrevArchive = uri()
	}
	if rnd.IntN(2) > 0 {
		f.Links = append(f.Links, link("hub", 0), link("http://example.org/Rel", 0))
	}
	entries := make([]atompmh.Entry, rnd.IntN(5))
	for i := range entries {
		e := atompmh.Entry{ID: uri(), Title: text(), Summary: text(), Updated: feedTime.Add(-time.Duration(rnd.Int64N(1e18))), Kind: atompmh.Kind(1 + rnd.IntN(2))}
		if e.Kind == atompmh.Active {
			for j := range 1 + rnd.IntN(3) {
				e.Links = append(e.Links, link("alternate", j))
			}
		}
		if rnd.IntN(2) > 0 {
			e.Links = append(e.Links, link("via", 0))
		}
		entries[i] = e
	}
	return f, entries
}

// What the protocol does not allow is refused, and nothing of it is written.
func TestRefusals(t *testing.T) {
	t.Parallel()
	link := func(change func(*atompmh.Link)) func(*atompmh.Entry) {
		return func(e *atompmh.Entry) { e.Links = []atompmh.Link{rdfLink}; change(&e.Links[0]) }
	}
	tests := map[string]struct {
		rule   string
		change func(*atompmh.Entry)
	}{
		"no id":              {"AP-DOC-09", func(e *atompmh.Entry) { e.ID = "" }},
		"relative id":        {"AP-DOC-09", func(e *atompmh.Entry) { e.ID = "records/7" }},
		"blank in the id":    {"AP-DOC-09", func(e *atompmh.Entry) { e.ID = "urn:a b" }},
		"id not UTF-8":       {"AP-DOC-01", func(e *atompmh.Entry) { e.ID = "urn:\xff" }},
		"no time":            {"AP-DOC-08", func(e *atompmh.Entry) { e.Updated = time.Time{} }},
		"year 10000":         {"AP-DOC-08", func(e *atompmh.Entry) { e.Updated = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }},
		"later":              {"AP-TS-01", func(e *atompmh.Entry) { e.Updated = feedTime.Add(1) }},
		"title":              {"AP-DOC-01", func(e *atompmh.Entry) { e.Title = "\x00" }},
		"summary":            {"AP-DOC-01", func(e *atompmh.Entry) { e.Summary = "\x1b" }},
		"no kind":            {"AP-CLS-04", func(e *atompmh.Entry) { e.Kind = 0 }},
		"unknown kind":       {"AP-CLS-04", func(e *atompmh.Entry) { e.Kind = 3 }},
		"no alternate":       {"AP-ACT-05", func(e *atompmh.Entry) { e.Links = nil }},
		"via alone":          {"AP-ACT-05", link(func(l *atompmh.Link) { l.Rel = "via" })},
		"no type":            {"AP-ACT-05", link(func(l *atompmh.Link) { l.Type = "" })},
		"bad type":           {"AP-DOC-01", link(func(l *atompmh.Link) { l.Type = "text" })},
		"two of one type":    {"AP-DOC-07", func(e *atompmh.Entry) { e.Links = []atompmh.Link{rdfLink, rdfLink} }},
		"deleted, alternate": {"AP-DEL-05", func(e *atompmh.Entry) { e.Kind = atompmh.Deletion }},
		"no relation":        {"AP-DOC-01", link(func(l *atompmh.Link) { l.Rel = "" })},
		"two relations":      {"AP-DOC-01", link(func(l *atompmh.Link) { l.Rel = "alternate self" })},
		"upper case":         {"AP-DOC-01", link(func(l *atompmh.Link) { l.Rel = "Alternate" })},
		"no address":         {"AP-DOC-01", link(func(l *atompmh.Link) { l.Href = "" })},
		"relative address":   {"AP-DOC-01", link(func(l *atompmh.Link) { l.Href = "/rec/7" })},
		"IRI":                {"AP-DOC-01", link(func(l *atompmh.Link) { l.Href = "http://a.example/ü" })},
		"language":           {"AP-DOC-01", link(func(l *atompmh.Link) { l.Hreflang = "d e" })},
		"length":             {"AP-DOC-01", link(func(l *atompmh.Link) { l.Length = -1 })},
		"title of a link":    {"AP-DOC-01", link(func(l *atompmh.Link) { l.Title = "\xff" })},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			w, err := atompmh.NewWriter(&b, plainFeed)
			if err != nil {
				t.Fatal(err)
			}
			e := atompmh.Entry{ID: "urn:r", Title: "T", Updated: feedTime, Kind: atompmh.Active, Links: []atompmh.Link{rdfLink}}
			bad := e
			tt.change(&bad)
			checkRule(t, w.Write(&bad), tt.rule)
			if err := w.Write(&e); err != nil {
				t.Error(err)
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			if !bytes.Equal(b.Bytes(), write(t, plainFeed, e)) || w.Entries() != 1 {
				t.Errorf("something of it was written: %s", b.Bytes())
			}
		})
	}
}

func checkRule(t *testing.T, err error, rule string) {
	t.Helper()
	var broken *atompmh.RuleError
	if !errors.As(err, &broken) || broken.Rule != rule {
		t.Errorf("error %v, want rule %s", err, rule)
	}
}

func TestFeedRefusals(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		rule   string
		change func(*atompmh.Feed)
	}{
		"no id":          {"AP-DOC-09", func(f *atompmh.Feed) { f.ID = "" }},
		"no title":       {"AP-DOC-02", func(f *atompmh.Feed) { f.Title = "" }},
		"no author":      {"AP-DOC-02", func(f *atompmh.Feed) { f.Author = "" }},
		"blanks":         {"AP-DOC-02", func(f *atompmh.Feed) { f.Author = " A" }},
		"author":         {"AP-DOC-01", func(f *atompmh.Feed) { f.Author = "\x00" }},
		"title":          {"AP-DOC-01", func(f *atompmh.Feed) { f.Title = "\x00" }},
		"no time":        {"AP-DOC-08", func(f *atompmh.Feed) { f.Updated = time.Time{} }},
		"no self":        {"AP-DOC-03", func(f *atompmh.Feed) { f.Self = "" }},
		"relative self":  {"AP-DOC-01", func(f *atompmh.Feed) { f.Self = "feed" }},
		"bad archive":    {"AP-DOC-01", func(f *atompmh.Feed) { f.PrevArchive = "http://a.example/a b" }},
		"complete":       {"AP-CMP-03", func(f *atompmh.Feed) { f.Complete, f.PrevArchive = true, "urn:x" }},
		"a second self":  {"AP-DOC-01", func(f *atompmh.Feed) { f.Links = []atompmh.Link{{Rel: "self", Href: "urn:x"}} }},
		"a page":         {"AP-TS-10", func(f *atompmh.Feed) { f.Links = []atompmh.Link{{Rel: "next", Href: "urn:x"}} }},
		"a bad link":     {"AP-DOC-01", func(f *atompmh.Feed) { f.Links = []atompmh.Link{{Rel: "hub", Href: "x"}} }},
		"a bad relation": {"AP-DOC-01", func(f *atompmh.Feed) { f.Links = []atompmh.Link{{Href: "urn:x"}} }},
	}
	for name, tt := range tests {
		f := plainFeed
		tt.change(&f)
		w, err := atompmh.NewWriter(io.Discard, f)
		if w != nil {
			t.Errorf("%s: a Writer", name)
		}
		checkRule(t, err, tt.rule)
	}
	f := plainFeed
	f.Complete = true
	w, err := atompmh.NewWriter(io.Discard, f)
	if err != nil {
		t.Fatal(err)
	}
	checkRule(t, w.Write(&atompmh.Entry{ID: "urn:r", Updated: may1, Kind: atompmh.Deletion}), "AP-CMP-03")
}

// An error of the underlying writer is sticky.
func TestWriteError(t *testing.T) {
	t.Parallel()
	full := errors.New("no space left")
	w, err := atompmh.NewWriter(writerFunc(func([]byte) (int, error) { return 0, full }), plainFeed)
	if err != nil {
		t.Fatal(err)
	}
	e := atompmh.Entry{ID: "urn:r", Title: strings.Repeat("x", 70_000), Updated: may1, Kind: atompmh.Deletion}
	for range 2 {
		if err := w.Write(&e); !errors.Is(err, full) {
			t.Errorf("Write: %v", err)
		}
	}
	if err := w.Close(); !errors.Is(err, full) {
		t.Errorf("Close: %v", err)
	}
	w, err = atompmh.NewWriter(writerFunc(func(p []byte) (int, error) { return len(p) - 1, nil }), plainFeed)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("Close: %v", err)
	}
	w, err = atompmh.NewWriter(io.Discard, plainFeed)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if err := w.Write(&e); err == nil {
		t.Error("a closed feed took an entry")
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
