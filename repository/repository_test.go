package repository_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/repository"
	"lockstep/resourcesync"
)

// The six verbs (OAI-PMH 2.0, 4).
func TestVerbs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *repository.Options) { o.Name, o.Admin = "Cats & dogs", "who@example.org" })
	w.put("https://example.org/a%20cat.pdf", "application/pdf", "%PDF", resourcesync.Link{Rel: "via", Href: "https://other.example/1"})
	w.pass(time.Minute)
	w.put("https://example.org/b.xml", "application/xml", `<?xml version="1.0"?><m:mods xmlns:m="http://www.loc.gov/mods/v3"><t>x</t></m:mods>`)
	w.pass(time.Minute)

	r := w.ask("verb=Identify")
	if i := r.Identify; i.Name != "Cats & dogs" || i.BaseURL != baseURL || i.Version != "2.0" || i.Admin != "who@example.org" ||
		i.Earliest != "2026-03-01T12:00:00Z" || i.Deleted != "persistent" || i.Gran != "YYYY-MM-DDThh:mm:ssZ" {
		t.Errorf("Identify: %+v", i)
	}
	if r.ResponseDate != "2026-03-01T12:02:00Z" || r.Request.URL != baseURL {
		t.Errorf("date %s, request %s", r.ResponseDate, r.Request.URL)
	}
	if r = w.ask("verb=ListSets"); len(r.Sets) != 1 || r.Sets[0].Spec != "main" || r.Sets[0].Name != "main" {
		t.Errorf("ListSets: %+v", r.Sets)
	}
	if r = w.ask("verb=ListMetadataFormats"); len(r.Formats) != 2 || r.Formats[0].Prefix != "oai_dc" || r.Formats[1].Prefix != "mods" ||
		r.Formats[1].Namespace != "http://www.loc.gov/mods/v3" {
		t.Errorf("ListMetadataFormats: %+v", r.Formats)
	}
	if r = w.ask("verb=ListMetadataFormats&identifier=https://example.org/a%2520cat.pdf"); len(r.Formats) != 1 {
		t.Errorf("formats of a PDF: %+v", r.Formats)
	}
	wantIDs(t, w.all("verb=ListIdentifiers&metadataPrefix=oai_dc"), "https://example.org/a%20cat.pdf", "https://example.org/b.xml")
	wantIDs(t, w.all("verb=ListRecords&metadataPrefix=mods"), "https://example.org/b.xml")
	r = w.ask("verb=GetRecord&metadataPrefix=oai_dc&identifier=https://example.org/a%2520cat.pdf")
	wantIDs(t, []*response{r}, "https://example.org/a%20cat.pdf")
	got := r.Got[0]
	if got.Header.Datestamp != "2026-03-01T12:00:00Z" || strings.Join(got.Header.Sets, " ") != "main" {
		t.Errorf("header %+v", got.Header)
	}
	for _, want := range []string{
		"<dc:title>a cat.pdf</dc:title>", "<dc:identifier>https://example.org/a%20cat.pdf</dc:identifier>", "<dc:format>application/pdf</dc:format>",
		"<dc:date>2026-03-01T12:00:00Z</dc:date>", "<dc:type>Text</dc:type>", "<dc:source>https://other.example/1</dc:source>",
	} {
		if !strings.Contains(got.Metadata.Inner, want) {
			t.Errorf("%s is not in %s", want, got.Metadata.Inner)
		}
	}
}

// The error codes (OAI-PMH 2.0, 3.6), and the repeated request (3.2).
func TestErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.put("https://example.org/a", "text/plain", "a")
	w.put("https://example.org/gone", "text/plain", "g")
	w.ask("verb=Identify") // a resource deleted before the first request never existed
	w.pass(time.Second)
	w.remove("https://example.org/gone")
	for _, tt := range []struct{ query, code string }{
		{"", "badVerb"},
		{"verb=", "badVerb"},
		{"verb=identify", "badVerb"},
		{"verb=Identify&verb=Identify", "badVerb"},
		{"verb=Identify&x=y", "badArgument"},
		{"verb=Identify&identifier=x", "badArgument"},
		{"verb=Identify&=x", "badArgument"},
		{"verb=ListSets&resumptionToken=x", "badResumptionToken"},
		{"verb=ListSets&set=x", "badArgument"},
		{"verb=ListMetadataFormats&identifier=https://example.org/none", "idDoesNotExist"},
		{"verb=ListMetadataFormats&identifier=https://example.org/gone", "noMetadataFormats"},
		{"verb=GetRecord", "badArgument"},
		{"verb=GetRecord&identifier=https://example.org/a", "badArgument"},
		{"verb=GetRecord&metadataPrefix=oai_dc", "badArgument"},
		{"verb=GetRecord&identifier=&metadataPrefix=oai_dc", "badArgument"},
		{"verb=GetRecord&identifier=%00&metadataPrefix=oai_dc", "badArgument"},
		{"verb=GetRecord&identifier=%ff&metadataPrefix=oai_dc", "badArgument"},
		{"verb=GetRecord&identifier=%01&metadataPrefix=oai_dc", "badArgument"},
		{"verb=GetRecord&identifier=%25zz&metadataPrefix=oai_dc", "badArgument"},
		{"verb=GetRecord&identifier=http://%5Bx&metadataPrefix=oai_dc", "badArgument"},
		{"verb=GetRecord&identifier=a%22%3C%26%27b&metadataPrefix=oai_dc", "idDoesNotExist"},
		{"verb=ListMetadataFormats&identifier=a%20b", "badArgument"},
		{"verb=ListSets&resumptionToken=%01%3C", "badResumptionToken"},
		{"verb=GetRecord&identifier=none&metadataPrefix=oai_dc", "idDoesNotExist"},
		{"verb=GetRecord&identifier=https://example.org/a&metadataPrefix=mods", "cannotDisseminateFormat"},
		{"verb=GetRecord&identifier=https://example.org/a&metadataPrefix=a+b", "badArgument"},
		{"verb=ListRecords", "badArgument"},
		{"verb=ListRecords&metadataPrefix=oai_dc&metadataPrefix=oai_dc", "badArgument"},
		{"verb=ListRecords&metadataPrefix=mods", "cannotDisseminateFormat"},
		{"verb=ListRecords&metadataPrefix=oai_dc&set=other", "noRecordsMatch"},
		{"verb=ListRecords&metadataPrefix=oai_dc&set=main:sub", "noRecordsMatch"},
		{"verb=ListRecords&metadataPrefix=oai_dc&set=a%20b", "badArgument"},
		{"verb=ListRecords&metadataPrefix=oai_dc&set=main:", "badArgument"},
		{"verb=ListRecords&metadataPrefix=oai_dc&from=2026", "badArgument"},
		{"verb=ListRecords&metadataPrefix=oai_dc&from=2026-02-30", "badArgument"},
		{"verb=ListRecords&metadataPrefix=oai_dc&from=0000-01-01", "badArgument"},
		{"verb=ListRecords&metadataPrefix=oai_dc&from=2026-01-01T24:00:00Z", "badArgument"},
		{"verb=ListRecords&metadataPrefix=oai_dc&from=2026-01-01T00:00:00%2B00:00", "badArgument"},
		{"verb=ListRecords&metadataPrefix=oai_dc&from=2026-01-01T00:00:00", "badArgument"},
		{"verb=ListRecords&metadataPrefix=oai_dc&from=2026-01-01T00:00:00.0Z", "badArgument"},
		{"verb=ListRecords&metadataPrefix=oai_dc&until=today", "badArgument"},
		{"verb=ListRecords&metadataPrefix=oai_dc&from=2026-01-01&until=2026-01-02T00:00:00Z", "badArgument"},
		{"verb=ListRecords&metadataPrefix=oai_dc&from=2026-01-02&until=2026-01-01", "badArgument"},
		{"verb=ListRecords&metadataPrefix=oai_dc&until=2001-01-01", "noRecordsMatch"},
		{"verb=ListRecords&metadataPrefix=oai_dc&until=0001-01-01", "noRecordsMatch"},
		{"verb=ListRecords&metadataPrefix=oai_dc&from=9999-12-31", "noRecordsMatch"},
		{"verb=ListIdentifiers&metadataPrefix=oai_dc&from=2026-03-02", "noRecordsMatch"},
		{"verb=ListIdentifiers&resumptionToken=x&metadataPrefix=oai_dc", "badArgument"},
		{"verb=ListIdentifiers&resumptionToken=x", "badResumptionToken"},
		{"verb=ListIdentifiers&resumptionToken=%", "badArgument"},
		{"verb=ListIdentifiers;x", "badArgument"},
	} {
		r := w.ask(tt.query)
		if r.Error.Code != tt.code || r.Error.Text == "" {
			t.Errorf("%s: %s (%s), want %s", tt.query, r.Error.Code, r.Error.Text, tt.code)
		}
		if bare := tt.code == "badVerb" || tt.code == "badArgument"; bare != (len(r.Request.Attrs) == 0) {
			t.Errorf("%s: the request is echoed with %v", tt.query, r.Request.Attrs)
		}
	}
}

// A list in parts (OAI-PMH 2.0, 3.5): each record once, however the list is
// divided, also after a restart; the last part says that it is the last.
func TestParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *repository.Options) { o.Records, o.Headers = 3, 4 })
	var want []string
	for i := range 10 {
		uri := fmt.Sprintf("https://example.org/%d", 9-i)
		w.put(uri, "text/plain", uri)
		want = append(want, uri)
	}
	rs := w.all("verb=ListRecords&metadataPrefix=oai_dc")
	wantIDs(t, rs, want...)
	if len(rs) != 4 {
		t.Fatalf("%d parts, want 4", len(rs))
	}
	for i, r := range rs {
		if r.Token == nil || r.Token.Size != "10" || r.Token.Cursor != fmt.Sprint(3*i) || (r.Token.Value == "") != (i == 3) || (r.Token.Expire == "") != (i == 3) {
			t.Errorf("part %d: token %+v", i, r.Token)
		}
	}
	rs = w.all("verb=ListIdentifiers&metadataPrefix=oai_dc")
	wantIDs(t, rs, want...)
	if len(rs) != 3 {
		t.Errorf("%d parts, want 3", len(rs))
	}

	token := url.QueryEscape(rs[0].Next.Value)
	w.restart()
	for range 2 { // it can be used again
		r := w.ask("verb=ListIdentifiers&resumptionToken=" + token)
		wantIDs(t, []*response{r}, want[4:8]...)
	}
	if r := w.ask("verb=ListRecords&resumptionToken=" + token); r.Error.Code != "badResumptionToken" {
		t.Errorf("a token of another verb: %+v", r.Error)
	}
	for i := range token {
		other := token[:i] + "A" + token[i+1:]
		if token[i] == 'A' {
			continue
		}
		if r := w.ask("verb=ListIdentifiers&resumptionToken=" + other); r.Error.Code != "badResumptionToken" {
			t.Fatalf("a token that was tampered with at %d: %+v", i, r)
		}
	}
	w.pass(8 * 24 * time.Hour)
	if r := w.ask("verb=ListIdentifiers&resumptionToken=" + token); r.Error.Code != "badResumptionToken" {
		t.Errorf("a token that has expired: %+v", r.Error)
	}
}

// from and until are inclusive, at either granularity (OAI-PMH 2.0, 2.7.1).
func TestWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.put("https://example.org/1", "", "1") // 12:00:00
	w.pass(1500 * time.Millisecond)
	w.put("https://example.org/2", "", "2") // 12:00:01.5
	w.pass(12 * time.Hour)
	w.put("https://example.org/3", "", "3") // the next day
	w.pass(time.Hour)
	for _, tt := range []struct {
		window string
		want   []string
	}{
		{"from=2026-03-01T12:00:01Z", []string{"2", "3"}},
		{"from=2026-03-01T12:00:02Z", []string{"3"}},
		{"until=2026-03-01T12:00:00Z", []string{"1"}},
		{"until=2026-03-01T12:00:01Z", []string{"1", "2"}},
		{"from=2026-03-01&until=2026-03-01", []string{"1", "2"}},
		{"from=2026-03-02", []string{"3"}},
		{"from=1960-01-01", []string{"1", "2", "3"}},
		{"until=9999-12-31", []string{"1", "2", "3"}},
		{"from=2026-03-01T12:00:01Z&until=2026-03-01T12:00:01Z&set=main", []string{"2"}},
	} {
		for i := range tt.want {
			tt.want[i] = "https://example.org/" + strings.TrimPrefix(tt.want[i], "https://example.org/")
		}
		wantIDs(t, w.all("verb=ListIdentifiers&metadataPrefix=oai_dc&"+tt.window), tt.want...)
	}
}

// Deletions are reported permanently (OAI-PMH 2.0, 2.5.1): also when the catalog
// has forgotten them, even before the index saw them.
func TestDeletions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for _, n := range []string{"a", "b", "c"} {
		w.put("https://example.org/"+n, "text/plain", n)
	}
	wantIDs(t, w.all("verb=ListIdentifiers&metadataPrefix=oai_dc"), "https://example.org/a", "https://example.org/b", "https://example.org/c")
	w.pass(time.Minute)
	w.remove("https://example.org/b")
	w.pass(time.Minute)
	want := []string{"https://example.org/a", "https://example.org/c", "-https://example.org/b"}
	wantIDs(t, w.all("verb=ListRecords&metadataPrefix=oai_dc"), want...)
	forget := func() {
		if err := w.catalog.Forget(w.Context(), listURI, w.mark(listURI)); err != nil {
			t.Fatal(err)
		}
	}
	forget()
	w.restart()
	wantIDs(t, w.all("verb=ListRecords&metadataPrefix=oai_dc"), want...)
	if r := w.ask("verb=GetRecord&metadataPrefix=oai_dc&identifier=https://example.org/b"); len(r.Got) != 1 || r.Got[0].Header.Status != "deleted" ||
		r.Got[0].Header.Datestamp != "2026-03-01T12:01:00Z" {
		t.Errorf("GetRecord of a deleted one: %+v", r)
	}
	w.pass(time.Minute)
	w.remove("https://example.org/a")
	w.remove("https://example.org/c")
	w.put("https://example.org/d", "text/plain", "d")
	w.put("https://example.org/b", "text/plain", "again")
	w.pass(time.Minute)
	forget()
	w.pass(time.Minute)
	rs := w.all("verb=ListRecords&metadataPrefix=oai_dc")
	wantIDs(t, rs, "https://example.org/d", "https://example.org/b", "-https://example.org/a", "-https://example.org/c")
	if got := rs[0].Records[2].Header.Datestamp; got != "2026-03-01T12:05:00Z" {
		t.Errorf("a deletion that was found out at 12:05 has the datestamp %s", got)
	}
}

// The id of a record identifies its item, unless it is an alternate
// representation, or as long as another item has the id already. Characters that XML cannot
// represent are escaped.
func TestIdentifiers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	id := func(s string) resourcesync.Link { return resourcesync.Link{Rel: catalog.RelRecord, Href: s} }
	w.put("https://example.org/1", "", "1", id("oai:other.example:1"))
	w.put("https://example.org/2", "", "2", id("oai:other.example:1"))
	w.put("https://example.org/3", "", "3", id("oai:other.example:3"), resourcesync.Link{Rel: "canonical", Href: "https://example.org/1"})
	w.put("https://example.org/4\x01\xff<é>", "", "4")
	w.put("https://example.org/5", "", "5", id("https://example.org/1"))
	w.put("https://example.org/6 %zz%4a", "", "6")
	want := []string{"oai:other.example:1", "https://example.org/2", "https://example.org/3", "https://example.org/4%01%FF<é>", "https://example.org/5", "https://example.org/6%20%25zz%4a"}
	wantIDs(t, w.all("verb=ListRecords&metadataPrefix=oai_dc"), want...)
	for _, id := range want {
		wantIDs(t, []*response{w.ask("verb=GetRecord&metadataPrefix=oai_dc&identifier=" + url.QueryEscape(id))}, id)
	}
	for _, id := range []string{"https://example.org/1", "oai:other.example:3"} {
		if r := w.ask("verb=GetRecord&metadataPrefix=oai_dc&identifier=" + id); r.Error.Code != "idDoesNotExist" {
			t.Errorf("%s: %+v", id, r)
		}
	}
	w.pass(time.Minute)
	w.put("https://example.org/1", "", "1", id("oai:other.example:one"))
	wantIDs(t, []*response{w.ask("verb=GetRecord&metadataPrefix=oai_dc&identifier=oai:other.example:one")}, "oai:other.example:one")
	r := w.ask("verb=GetRecord&metadataPrefix=oai_dc&identifier=oai:other.example:1")
	if wantIDs(t, []*response{r}, "oai:other.example:1"); !strings.Contains(r.Got[0].Metadata.Inner, "https://example.org/2<") {
		t.Errorf("an identifier that was given up is that of %s", r.Got[0].Metadata.Inner)
	}
	wantIDs(t, []*response{w.ask("verb=GetRecord&metadataPrefix=oai_dc&identifier=https://example.org/2")}, "-https://example.org/2")
}
