package validate_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/validate"
	"lockstep/validate/finding"
	"lockstep/validate/opener"
)

// feedOf writes a feed document: elements of its head, and its entries as "id
// updated rest".
func feedOf(updated, head string, entries ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<feed xmlns="http://www.w3.org/2005/Atom" xmlns:fh="http://purl.org/syndication/history/1.0"><id>urn:x:f</id><title>t</title>
<author><name>a</name></author><updated>%s</updated><link rel="self" href=""/>%s`, updated, head)
	for _, e := range entries {
		id, rest, _ := strings.Cut(e, " ")
		at, rest, _ := strings.Cut(rest, " ")
		fmt.Fprintf(&b, `<entry><id>%s</id><title/><updated>%s</updated>%s</entry>`, id, at, rest)
	}
	b.WriteString("</feed>")
	return b.String()
}

const (
	toRecord = `<link type="text/plain" href="/r.txt"/>`
	gone     = `<content/>`
)

// serving is an Opener for documents by their path; a document that begins with
// "error" is an error.
func serving(docs func(path string) string) opener.Func {
	return func(_ context.Context, r opener.Request) (*opener.Answer, error) {
		text := docs(strings.TrimPrefix(r.URI, base))
		switch {
		case text == "unseen":
			return nil, opener.ErrUnseen
		case strings.HasPrefix(text, "error"):
			return nil, errors.New(text)
		}
		return &opener.Answer{Size: int64(len(text)), Body: io.NopCloser(strings.NewReader(text))}, nil
	}
}

func findings(t *testing.T, open opener.Func, start string, o validate.Options) (*finding.Report, []string) {
	t.Helper()
	o.TempDir, o.Settle = t.TempDir(), 1
	r, err := validate.Source(t.Context(), open, base+start, o)
	if err != nil {
		t.Fatal(err)
	}
	inTable(t, r)
	var rules []string
	for _, f := range r.Findings {
		rules = append(rules, f.Rule)
	}
	return r, rules
}

// TestFeedFindings: the injected faults are reported, and nothing else.
func TestFeedFindings(t *testing.T) {
	t.Parallel()
	const day1, day2, day3 = "2024-05-01T00:00:00Z", "2024-05-02T00:00:00Z", "2024-05-03T00:00:00Z"
	archive := `<fh:archive/><link rel="current" href="f"/>`
	older := map[string]string{"a1": feedOf(day1, archive, "urn:x:1 "+day1+" "+toRecord)}
	tests := []struct {
		name  string
		feed  string
		docs  map[string]string
		start string
		want  string // rules
		text  string // in the findings
	}{
		{name: "one entry", feed: feedOf(day1, "", "urn:x:1 "+day1+" "+toRecord)},
		{name: "offsets and fractions", feed: feedOf("2024-05-01T02:00:00.5+02:00", "", "urn:x:1 2024-05-01T00:00:00.500000000Z "+toRecord)},
		{name: "leap second", feed: feedOf("2016-12-31T23:59:60Z", "", "urn:x:1 2016-12-31T23:59:60Z "+toRecord)},
		{name: "empty", feed: feedOf(day1, "")},
		{name: "empty with archive", feed: feedOf(day1, `<link rel="prev-archive" href="a1"/>`), docs: older},
		{name: "revisions in disorder", feed: feedOf(day2, "", "urn:x:1 "+day2+" "+toRecord, "urn:x:1 "+day1+" "+toRecord)},
		{name: "created again", feed: feedOf(day3, "", "urn:x:1 "+day3+" "+toRecord, "urn:x:1 "+day2+" "+gone, "urn:x:1 "+day1+" "+toRecord)},
		{name: "relations by IRI", feed: feedOf(day1, "", "urn:x:1 "+day1+` <link rel="http://www.iana.org/assignments/relation/alternate" type="a/b" href="/r.txt"/>`)},
		{name: "base", feed: feedOf(day1, "", "urn:x:1 "+day1+` <link xml:base="/x/" type="a/b" href="../r.txt"/>`)},
		{name: "(I1)", feed: feedOf(day1, "", "urn:x:1 "+day2+" "+toRecord), want: "AP-TS-01", text: "(I1)"},
		{name: "(I2) itself", feed: feedOf(day1, `<link rel="prev-archive" href="f"/>`), want: "AP-TS-02", text: "(I2)"},
		{name: "(I2) a page", feed: feedOf(day1, `<link rel="prev-archive" href="a1"/>`), docs: map[string]string{"a1": "<html></html>"}, want: "AP-DOC-01 AP-TS-02", text: "(I2)"},
		{name: "(I2) breaks off", feed: feedOf(day1, `<link rel="prev-archive" href="a1"/>`), docs: map[string]string{"a1": "error: status 403"}, want: "AP-TS-02", text: "403"},
		{name: "out of sight", feed: feedOf(day1, `<link rel="prev-archive" href="a1"/>`), docs: map[string]string{"a1": "unseen"}},
		{name: "(I3)", feed: feedOf(day3, `<link rel="prev-archive" href="a1"/>`, "urn:x:2 "+day1+" "+toRecord, "urn:x:3 "+day3+" "+gone),
			docs: map[string]string{"a1": feedOf(day2, archive, "urn:x:1 "+day2+" "+toRecord)}, want: "AP-TS-03", text: "(I3)"},
		{name: "archive of another feed", feed: feedOf(day3, "", "urn:x:2 "+day3+" "+gone), docs: older, start: "a1", want: "AP-TS-05"},
		{name: "current is gone", start: "a1", docs: map[string]string{"f": "error: none", "a1": older["a1"]}, want: "AP-TS-06"},
		{name: "complete", feed: feedOf(day1, "<fh:complete/>", "urn:x:1 "+day1+" "+toRecord)},
		{name: "active and deleted at once", feed: feedOf(day1, "", "urn:x:1 "+day1+" "+toRecord, "urn:x:1 "+day1+" "+gone), want: "AP-DEL-04"},
		{name: "deleted twice at once", feed: feedOf(day1, "", "urn:x:1 "+day1+" "+gone, "urn:x:1 "+day1+" "+gone), want: "AP-DOC-06"},
		{name: "cut off", feed: feedOf(day1, "", "urn:x:1 "+day1+" "+toRecord)[:300], want: "AP-DOC-01"},
		{name: "far times", feed: feedOf("9999-12-31T23:59:59Z", "", "urn:x:1 0001-01-02T00:00:00Z "+toRecord, "urn:x:1 9999-12-31T23:59:59Z "+toRecord), want: "AP-TS-11"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			open := serving(func(path string) string {
				if doc, ok := tt.docs[path]; ok {
					return doc
				}
				if path == "f" {
					return tt.feed
				}
				return "text"
			})
			start := tt.start
			if start == "" {
				start = "f"
			}
			r, rules := findings(t, open, start, validate.Options{Advice: true, Sample: validate.SampleAll})
			if got := strings.Join(rules, " "); got != tt.want || !strings.Contains(fmt.Sprint(r.Findings), tt.text) {
				t.Errorf("%v, want %s", r.Findings, tt.want)
			}
		})
	}
}

// TestFeedCutAnew: a feed that is redistributed over its documents between two
// requests has no findings.
func TestFeedCutAnew(t *testing.T) {
	t.Parallel()
	const day1, day2, day3 = "2024-05-01T00:00:00Z", "2024-05-02T00:00:00Z", "2024-05-03T00:00:00Z"
	archive := `<fh:archive/><link rel="current" href="f"/>`
	var asked atomic.Int64
	open := serving(func(path string) string {
		switch {
		case path == "f" && asked.Add(1) <= 3: // the first two determine its kind
			return feedOf(day2, `<link rel="prev-archive" href="a1"/>`, "urn:x:2 "+day2+" "+gone)
		case path == "f":
			return feedOf(day3, `<link rel="prev-archive" href="a1"/>`, "urn:x:3 "+day3+" "+gone)
		case path == "a1":
			return feedOf(day2, archive, "urn:x:2 "+day2+" "+gone, "urn:x:1 "+day1+" "+gone)
		}
		return ""
	})
	r, _ := findings(t, open, "f", validate.Options{Advice: true})
	if len(r.Findings) > 0 || r.Entries != 3 {
		t.Errorf("%+v", *r)
	}
}

// TestFeedChangedMeanwhile: a missing alternate is not a finding if the feed
// has been updated by now.
func TestFeedChangedMeanwhile(t *testing.T) {
	t.Parallel()
	const day1, day2 = "2024-05-01T00:00:00Z", "2024-05-02T00:00:00Z"
	var asked atomic.Int64
	open := serving(func(path string) string {
		switch {
		case path == "f" && asked.Add(1) <= 3: // the first two determine its kind
			return feedOf(day1, "", "urn:x:1 "+day1+" "+toRecord)
		case path == "f":
			return feedOf(day2, "", "urn:x:1 "+day2+" "+gone)
		}
		return "error: none"
	})
	if r, _ := findings(t, open, "f", validate.Options{Advice: true, Sample: 5}); len(r.Findings) > 0 || r.Links != 1 {
		t.Errorf("%+v", *r)
	}
}

// TestEndlessFeed: an endless chain of documents is cut off.
func TestEndlessFeed(t *testing.T) {
	t.Parallel()
	n := 0
	open := serving(func(path string) string {
		n++
		return feedOf("2024-05-01T00:00:00Z", fmt.Sprintf(`<fh:archive/><link rel="prev-archive" href="a%d"/>`, n))
	})
	_, err := validate.Source(t.Context(), open, base+"f", validate.Options{Advice: true, Documents: 500, TempDir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "50 documents of one feed are enough") {
		t.Errorf("%v", err)
	}
}

// TestFeedXMLTypes: XML has two media types (AP-ACT-05).
func TestFeedXMLTypes(t *testing.T) {
	t.Parallel()
	for served, want := range map[string]string{"text/xml; charset=utf-8": "", "Application/XML": "", "text/plain": "AP-ACT-05"} {
		open := func(_ context.Context, r opener.Request) (*opener.Answer, error) {
			a := &opener.Answer{Body: io.NopCloser(strings.NewReader(feedOf("2024-05-01T00:00:00Z", "", `urn:x:1 2024-05-01T00:00:00Z <link type="application/xml" href="/r"/>`)))}
			if r.Resource {
				a.Header = http.Header{"Content-Type": {served}, "Etag": {"x"}, "Last-Modified": {"x"}}
			}
			return a, nil
		}
		if r, rules := findings(t, open, "f", validate.Options{Advice: true, Sample: 1}); strings.Join(rules, " ") != want || r.Links != 1 {
			t.Errorf("served as %s: %v, want %q", served, r.Findings, want)
		}
	}
}

// TestFeedFile: the root determines whether a document belongs to a feed or to a
// repository, also if it is compressed.
func TestFeedFile(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write([]byte(feedOf("2024-05-01T00:00:00Z", "", "x 2024-05-01T00:00:00Z "+toRecord)))
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		packed.String(): "AP-DOC-09",
		`<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"><id>`: "AP-DOC-01",
		`<OAI-PMH><responseDate/></OAI-PMH>`:                                  "OAI-XML-01",
		`<feed><title>of nowhere</title></feed>`:                              "AP-DOC-01",
		`<rss version="2.0"><channel/></rss>`:                                 "AP-DOC-01",
	} {
		r, err := validate.Document(t.Context(), strings.NewReader(text), "feed.xml", validate.Options{Advice: true})
		if err != nil || len(r.Findings) == 0 || r.Findings[0].Rule != want || r.Documents != 1 {
			t.Errorf("%.60q: %v, %v, want %s", text, r.Findings, err, want)
		}
	}
}

// TestLargeFeed: the data for the comparison does not stay in memory. Not in
// parallel: it measures the memory of the process.
func TestLargeFeed(t *testing.T) {
	documents, entries := 8, 20_000
	if underRace {
		entries = 3_000
	}
	begin := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	open := func(_ context.Context, r opener.Request) (*opener.Answer, error) {
		n := documents
		if _, err := fmt.Sscanf(strings.TrimPrefix(r.URI, base), "a%d", &n); err != nil && !strings.HasSuffix(r.URI, "/f") {
			return &opener.Answer{Header: http.Header{}, Body: io.NopCloser(strings.NewReader(""))}, nil
		}
		return &opener.Answer{Body: generated(func(w io.Writer) {
			last := begin.Add(time.Duration(n*entries-1) * time.Second)
			fmt.Fprintf(w, `<feed xmlns="http://www.w3.org/2005/Atom" xmlns:fh="http://purl.org/syndication/history/1.0"><id>urn:x:f</id><title/><author><name/></author>`)
			fmt.Fprintf(w, `<link rel="self" href="%s"/><updated>%s</updated>`, r.URI, last.Format(time.RFC3339))
			if n > 1 {
				fmt.Fprintf(w, `<link rel="prev-archive" href="a%d"/>`, n-1)
			}
			if n < documents {
				fmt.Fprint(w, `<fh:archive/><link rel="current" href="f"/>`)
			}
			for i := range entries {
				at := begin.Add(time.Duration((n-1)*entries+i) * time.Second)
				fmt.Fprintf(w, "<entry><id>urn:x:%d</id><title/><updated>%s</updated><link type='a/b' href='/%d'/></entry>", i+n*7, at.Format(time.RFC3339), i)
			}
			fmt.Fprint(w, "</feed>")
		})}, nil
	}
	var peak atomic.Uint64
	o := validate.Options{Advice: true, TempDir: t.TempDir(), Sample: 10, Seed: 1, OnDocument: func(string) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		peak.Store(max(peak.Load(), m.HeapInuse))
	}}
	start := time.Now()
	r, err := validate.Source(t.Context(), open, base+"f", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d entries in %v, heap %d MB", r.Entries, time.Since(start), peak.Load()>>20)
	if peak.Load() > 96<<20 || r.Entries != int64(documents*entries) || r.Links != 10 || r.Errors > 0 {
		t.Errorf("heap of %d MB, %d entries, %d links, %v", peak.Load()>>20, r.Entries, r.Links, r.Findings)
	}
}

// TestIndexOfIndexes reads an index of thousands of indexes without an entry.
func TestIndexOfIndexes(t *testing.T) {
	t.Parallel()
	open := serving(func(path string) string {
		parts := ""
		if path == "index" {
			for i := range 3000 {
				parts += fmt.Sprintf("<sitemap><loc>%si%d</loc></sitemap>", base, i)
			}
		}
		return `<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="resourcelist" at="2024-01-01T00:00:00Z"/>` + parts + `</sitemapindex>`
	})
	r, found := findings(t, open, "index", validate.Options{})
	if r.Documents > 1100 || !strings.Contains(strings.Join(found, "\n"), "RS-IDX-04") {
		t.Errorf("%d documents, %.2000s", r.Documents, strings.Join(found, "\n"))
	}
}

// TestFeedWithoutEnd follows endless chains of archive documents that have no
// entries, or the same ones: they are cut off after a thousand documents.
func TestFeedWithoutEnd(t *testing.T) {
	t.Parallel()
	for name, entries := range map[string][]string{"empty": nil, "all the same": {"urn:x:e 2020-01-01T00:00:00Z " + toRecord}} {
		open := serving(func(path string) string {
			n := 0
			_, _ = fmt.Sscanf(path, "f%d", &n)
			return feedOf("2024-01-01T00:00:00Z", fmt.Sprintf(`<link rel="prev-archive" href="%sf%d"/><link rel="current" href="%sf0"/>`, base, n+1, base), entries...)
		})
		r, found := findings(t, open, "f0", validate.Options{})
		if r.Documents > 1100 || !strings.Contains(strings.Join(found, "\n"), "AP-TS-02") {
			t.Errorf("%s: %d documents, %.2000s", name, r.Documents, strings.Join(found, "\n"))
		}
	}
}

// A flood is a document that repeats a part, and measures the memory in use before each MiB.
type flood struct {
	head    string
	part    func(n int) string
	limited bool // a finding is expected
	n, left int
	next    []byte
	peak    uint64
}

func (f *flood) Read(p []byte) (int, error) {
	if f.n == 0 {
		f.next = []byte(f.head)
	}
	for len(f.next) == 0 {
		if f.left <= 0 {
			return 0, io.EOF
		}
		for len(f.next) < 1<<20 {
			f.next = append(f.next, f.part(f.n)...)
			f.n++
		}
		f.left -= len(f.next)
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		f.peak = max(f.peak, m.HeapAlloc)
	}
	f.n++
	n := copy(p, f.next)
	f.next = f.next[n:]
	return n, nil
}

// TestLargeResponse: a repository cannot fill the memory with the texts of one response, and a
// finding says that there are too many. Not in parallel: it measures the memory of the process.
func TestLargeResponse(t *testing.T) {
	const head = `<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><responseDate>2024-05-01T00:00:00Z</responseDate>`
	const request = `<request verb="ListRecords">https://lib.example.net/oai</request>`
	long := strings.Repeat("x", 10_000)
	same := func(text string) func(int) string { return func(int) string { return text } }
	for name, f := range map[string]*flood{
		"identifiers": {limited: true, head: head + request + "<ListIdentifiers>", part: func(n int) string {
			return fmt.Sprintf("<header><identifier>urn:%d%s</identifier><datestamp>2024-05-01</datestamp></header>", n, long)
		}},
		"names of sets":   {limited: true, head: head + request + "<ListSets>", part: same("<set><setSpec>" + long + "</setSpec></set>")},
		"tokens":          {head: head + request + "<ListSets>", part: same("<resumptionToken>" + long + "</resumptionToken>")},
		"other elements":  {head: head + request + "<Identify>", part: func(n int) string { return fmt.Sprintf("<a%d/>", n) }},
		"errors":          {head: head + request, part: same(`<error code="badVerb"/>`)},
		"codes of errors": {limited: true, head: head + request, part: func(n int) string { return fmt.Sprintf(`<error code="%d%s"/>`, n, long) }},
		"requests":        {head: head, part: func(n int) string { return fmt.Sprintf(`<request a%d=""/>`, n) }},
	} {
		t.Run(name, func(t *testing.T) {
			f.left = 40 << 20
			r, err := validate.Document(t.Context(), f, "response.xml", validate.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("memory %d MB, left %d MB, %v", f.peak>>20, f.left>>20, r.Findings)
			if f.peak > 24<<20 {
				t.Errorf("%d MB of memory in use", f.peak>>20)
			}
			found := func(f finding.Finding) bool {
				return f.Rule == "OAI-XML-01" && strings.Contains(f.Message, "more than")
			}
			if f.limited && !slices.ContainsFunc(r.Findings, found) {
				t.Errorf("findings %v, want that the response has too many texts", r.Findings)
			}
		})
	}
}
