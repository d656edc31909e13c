package atompmh_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"lockstep/atompmh"
)

// Data that is not a feed is refused with a description of what it is
// (AP-DOC-11, AP-AMB-15).
func TestNotFeeds(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		doc  string
		want []error
		text string
	}{
		"a page":           {"<!DOCTYPE html><html><body>Login</body></html>", []error{atompmh.ErrNotFeed, atompmh.ErrHTML}, "an HTML page"},
		"a bare page":      {"<html><head><br></html>", []error{atompmh.ErrNotFeed, atompmh.ErrHTML}, "an HTML page"},
		"an entry":         {`<entry xmlns="http://www.w3.org/2005/Atom"><id>urn:r</id></entry>`, []error{atompmh.ErrNotFeed, atompmh.ErrEntryDocument}, "an Atom entry document"},
		"RSS":              {`<rss version="2.0"><channel/></rss>`, []error{atompmh.ErrNotFeed}, "<rss>"},
		"Atom 0.3":         {`<feed xmlns="http://purl.org/atom/ns#"/>`, []error{atompmh.ErrNotFeed}, "namespace"},
		"no namespace":     {`<feed><entry/></feed>`, []error{atompmh.ErrNotFeed}, "namespace"},
		"a Sitemap":        {`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"/>`, []error{atompmh.ErrNotFeed}, "<urlset>"},
		"JSON":             {`{"version":"https://jsonfeed.org/version/1"}`, []error{atompmh.ErrNotFeed}, "begins with"},
		"nothing":          {"", []error{atompmh.ErrNotFeed}, "no element"},
		"declarations":     {`<!DOCTYPE feed [<!ENTITY a "b">]>` + head + tail, nil, "a document type with declarations"}, // AP-DOC-11
		"external entity":  {`<!DOCTYPE feed [<!ENTITY a SYSTEM "file:///etc/passwd">]><feed>&a;</feed>`, nil, "a document type with declarations"},
		"unknown entity":   {head + "<title>&nbsp;</title>" + tail, nil, "&nbsp;"},
		"cut off":          {head + entry + "<entry>", []error{io.ErrUnexpectedEOF}, "cut off"},
		"cut at the end":   {head + entry, []error{io.ErrUnexpectedEOF}, "cut off"},
		"not well formed":  {head + `<link rel="self" href="http://example.org/feed/archived"/2012/10/31"/>` + tail, nil, "line 1"}, // AP-AMB-09
		"quote forgotten":  {head + `<link rel="self" href="http://example.org/feed/complete/><fh:complete/>` + tail, nil, "line 1"},
		"something behind": {head + tail + "<p>Notice: undefined index</p>", nil, "a second root element"},
		"something before": {"Warning: x\n" + head + tail, []error{atompmh.ErrNotFeed}, "begins with"},
		"a prefix unbound": {strings.Replace(head, `xmlns:fh="http://purl.org/syndication/history/1.0"`, "", 1) + "<fh:complete/>" + tail, nil, "not declared"},
		"a control":        {head + "<title>\x02</title>" + tail, nil, "not allowed"},
		"not UTF-8":        {head + "<title>\xe4</title>" + tail, nil, "not UTF-8"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := read(strings.NewReader(tt.doc), atompmh.ReaderOptions{})
			var syn *atompmh.SyntaxError
			if !errors.As(err, &syn) || !strings.Contains(err.Error(), tt.text) {
				t.Fatalf("error %v, want a SyntaxError with %q", err, tt.text)
			}
			for _, want := range tt.want {
				if !errors.Is(err, want) {
					t.Errorf("error %v is no %v", err, want)
				}
			}
		})
	}
}

// A feed may have other encodings, be compressed, or have a bare document type
// declaration.
func TestEncodings(t *testing.T) {
	t.Parallel()
	doc := strings.Replace(head, "Records", "Grüße", 1) + entry + tail
	wide := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(doc)) {
		wide = binary.LittleEndian.AppendUint16(wide, u)
	}
	var zipped bytes.Buffer
	zw := gzip.NewWriter(&zipped)
	if _, err := io.WriteString(zw, doc); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	prefixed := strings.NewReplacer("</", "</a:", "<", "<a:", "xmlns=", "xmlns:a=").Replace(doc)
	for name, in := range map[string]string{
		"UTF-8": doc, "a mark": "\ufeff" + doc, "UTF-16": string(wide), "gzip": zipped.String(), "prefixed": prefixed,
		"Latin-1":       `<?xml version="1.0" encoding="ISO-8859-1"?>` + strings.ReplaceAll(strings.ReplaceAll(doc, "ü", "\xfc"), "ß", "\xdf"),
		"document type": "<!DOCTYPE feed>\n" + doc,
	} {
		got, err := read(strings.NewReader(in), atompmh.ReaderOptions{Strict: true})
		if err != nil || got.feed.Title != "Grüße" || len(got.entries) != 1 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := read(bytes.NewReader(zipped.Bytes()[:zipped.Len()-9]), atompmh.ReaderOptions{}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a gzip file cut off: %v", err)
	}
}

// repeat returns a stream of prefix and then body forever.
func repeat(prefix, body string) io.Reader {
	return io.MultiReader(strings.NewReader(prefix), &repeater{text: body})
}

type repeater struct {
	text string
	at   int
}

func (r *repeater) Read(p []byte) (n int, err error) {
	for n < len(p) {
		c := copy(p[n:], r.text[r.at:])
		n, r.at = n+c, (r.at+c)%len(r.text)
	}
	return n, nil
}

// Endless streams are cut off, in bounded memory (AP-HTTP-08).
func TestEndless(t *testing.T) {
	t.Parallel()
	inEntry := head + "<entry><id>urn:r</id>"
	const whole = "a document of more than"
	tests := map[string]struct {
		in   io.Reader
		want string
	}{
		"elements inside":   {repeat(inEntry, "<a>"), "elements nested more than"},
		"long names":        {repeat(inEntry, "<"+strings.Repeat("a", 500_000)+">"), "names of more than"},
		"links":             {repeat(inEntry, `<link href="urn:`+strings.Repeat("x", 9000)+`"/>`), "an entry with more than"},
		"types":             {repeat(inEntry, `<link href="urn:x" type="`+strings.Repeat("x", 9000)+`"/>`), "an entry with more than"},
		"languages":         {repeat(inEntry, `<link href="urn:x" hreflang="`+strings.Repeat("x", 9000)+`"/>`), "an entry with more than"},
		"relations":         {repeat(inEntry, `<link href="urn:x" rel="`+strings.Repeat("x", 9000)+`"/>`), "an entry with more than"},
		"types of the feed": {repeat(head, `<link href="urn:x" type="`+strings.Repeat("x", 9000)+`"/>`), "a feed that says more than"},
		"links of the feed": {repeat(head, `<link href="urn:`+strings.Repeat("x", 9000)+`"/>`), "a feed that says more than"},
		"short links":       {repeat(inEntry, `<link href="urn:x"/>`), whole},
		"titles":            {repeat(inEntry, "<title>"+strings.Repeat("x", 900)+"</title>"), whole},
		"a title":           {repeat(inEntry+"<title>", "xxxxx<b/>"), whole},
		"a summary":         {repeat(inEntry+"<summary>", "text "), whole},
		"content":           {repeat(inEntry+"<content>", "text<b/>"), whole},
		"authors":           {repeat(head, "<author><name>A</name></author>"), whole},
		"author":            {repeat(root+"<author>", "<name>"+strings.Repeat("x", 900)+"</name>"), whole},
		"entries":           {repeat(head, entry), whole},
		"entries no good":   {repeat(head, "<entry/>"), whole},
		"tombstones":        {repeat(head, "<at:deleted-entry/>"), whole},
		"other things":      {repeat(head, `<x xmlns="urn:x" y="z"/>`), whole},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fr := atompmh.NewReader(tt.in, atompmh.ReaderOptions{MaxBytes: 6 << 20})
			var e atompmh.Entry
			for {
				err := fr.Read(&e)
				if err == nil {
					continue
				}
				if !errors.Is(err, atompmh.ErrLimit) || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error %v, want ErrLimit: %s", err, tt.want)
				}
				return
			}
		})
	}
}

// Of very many links the first thousand are kept; a long, irrelevant content is
// skipped.
func TestGreatEntries(t *testing.T) {
	t.Parallel()
	many := strings.Repeat(`<link rel="via" href="urn:x"/>`, 1200)
	got := readString(t, head+many+"<entry><id>urn:r</id>"+stamp+alternate+many+"<content>"+strings.Repeat("text ", 500_000)+"</content></entry>"+tail)
	if len(got.feed.Links) != 1000 || len(got.entries) != 1 || len(got.entries[0].Links) != 1000 {
		t.Errorf("%d links of the feed, %d entries", len(got.feed.Links), len(got.entries))
	}
	if !slices.Contains(got.rules, "AP-DOC-01") || got.entries[0].Kind != atompmh.Active {
		t.Errorf("warnings %v", got.rules)
	}
}

// Memory does not grow with the number of entries.
func TestFlatMemory(t *testing.T) {
	const n = 30_000
	fr := atompmh.NewReader(io.MultiReader(strings.NewReader(head), io.LimitReader(&repeater{text: entry}, n*int64(len(entry))), strings.NewReader(tail)), atompmh.ReaderOptions{})
	var e atompmh.Entry
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var first uint64
	for i := range n {
		if err := fr.Read(&e); err != nil {
			t.Fatalf("entry %d: %v", i, err)
		}
		if i == 1000 {
			first = heap()
		}
	}
	if last := heap(); last > first+1<<20 {
		t.Errorf("%d bytes in use after 1,000 entries, %d after %d", first, last, n)
	}
	if err := fr.Read(&e); err != io.EOF || fr.Stats().Entries != n {
		t.Errorf("at the end: %v, %+v", err, fr.Stats())
	}
}

// Reading an entry costs two allocations, its text and its links; writing one
// costs none.
func TestAllocations(t *testing.T) {
	const n = 1000
	doc := head + strings.Repeat(entry, n) + tail
	per := testing.AllocsPerRun(5, func() {
		fr := atompmh.NewReader(strings.NewReader(doc), atompmh.ReaderOptions{})
		var e atompmh.Entry
		for {
			if err := fr.Read(&e); err == io.EOF {
				return
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}) / n
	if per > 2.1 {
		t.Errorf("%.2f allocations for an entry read, want 2", per)
	}
	w, err := atompmh.NewWriter(io.Discard, plainFeed)
	if err != nil {
		t.Fatal(err)
	}
	e := atompmh.Entry{ID: "urn:r", Title: "T", Updated: may1, Kind: atompmh.Active, Links: []atompmh.Link{rdfLink}}
	if got := testing.AllocsPerRun(n, func() { _ = w.Write(&e) }); got > 0 { // its errors are tested elsewhere
		t.Errorf("%.2f allocations for an entry written, want none", got)
	}
}
