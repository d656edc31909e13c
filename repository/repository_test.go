package repository_test

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/repository"
	"lockstep/resourcesync"
)

// A response is what encoding/xml makes of a response: a reader that is not ours.
type response struct {
	XMLName      xml.Name `xml:"http://www.openarchives.org/OAI/2.0/ OAI-PMH"`
	ResponseDate string   `xml:"http://www.openarchives.org/OAI/2.0/ responseDate"`
	Request      struct {
		URL   string     `xml:",chardata"`
		Attrs []xml.Attr `xml:",any,attr"`
	} `xml:"http://www.openarchives.org/OAI/2.0/ request"`
	Error struct {
		Code string `xml:"code,attr"`
		Text string `xml:",chardata"`
	} `xml:"http://www.openarchives.org/OAI/2.0/ error"`
	Identify struct {
		Name     string `xml:"repositoryName"`
		BaseURL  string `xml:"baseURL"`
		Version  string `xml:"protocolVersion"`
		Admin    string `xml:"adminEmail"`
		Earliest string `xml:"earliestDatestamp"`
		Deleted  string `xml:"deletedRecord"`
		Gran     string `xml:"granularity"`
	}
	Formats []struct {
		Prefix    string `xml:"metadataPrefix"`
		Schema    string `xml:"schema"`
		Namespace string `xml:"metadataNamespace"`
	} `xml:"ListMetadataFormats>metadataFormat"`
	Sets []struct {
		Spec string `xml:"setSpec"`
		Name string `xml:"setName"`
	} `xml:"ListSets>set"`
	Got     []record   `xml:"GetRecord>record"`
	Records []record   `xml:"ListRecords>record"`
	Headers []header   `xml:"ListIdentifiers>header"`
	Token   *listToken `xml:"ListRecords>resumptionToken"`
	Next    *listToken `xml:"ListIdentifiers>resumptionToken"`
}

type header struct {
	Status     string   `xml:"status,attr"`
	Identifier string   `xml:"identifier"`
	Datestamp  string   `xml:"datestamp"`
	Sets       []string `xml:"setSpec"`
}

type record struct {
	Header   header `xml:"header"`
	Metadata struct {
		Inner string `xml:",innerxml"`
	} `xml:"metadata"`
}

type listToken struct {
	Value  string `xml:",chardata"`
	Size   string `xml:"completeListSize,attr"`
	Cursor string `xml:"cursor,attr"`
	Expire string `xml:"expirationDate,attr"`
}

const (
	listURI = "https://example.org/resourcesync/main/capabilitylist.xml"
	baseURL = "https://example.org/oai"
)

// A world is a catalog with a repository that answers for it, and a clock.
type world struct {
	*testing.T
	catalog  catalog.Catalog
	opts     repository.Options
	repo     *repository.Repository
	mu       sync.Mutex // guards what follows
	now      time.Time
	contents map[string]string
	failing  map[string]error
}

// newWorld returns one whose set has published nothing but that it is empty.
func newWorld(t *testing.T, change func(*repository.Options)) *world {
	t.Helper()
	w := &world{T: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), contents: make(map[string]string), failing: make(map[string]error)}
	w.catalog = catalog.NewMem(w.clock)
	w.opts = repository.Options{
		BaseURL: baseURL, Now: w.clock,
		Sets: []repository.Set{{Name: "main", Catalog: listURI, Open: w.open}},
	}
	if change != nil {
		change(&w.opts)
	}
	for _, s := range w.opts.Sets {
		w.mark(s.Catalog)
	}
	w.restart()
	return w
}

func (w *world) restart() {
	w.Helper()
	var err error
	if w.repo, err = repository.New(w.catalog, w.opts); err != nil {
		w.Fatal(err)
	}
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// pass lets time go by.
func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *world) open(_ context.Context, r *catalog.Record) (io.ReadCloser, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.failing[r.URI]; err != nil {
		return nil, err
	}
	text, ok := w.contents[r.URI]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

func (w *world) mark(set string) catalog.Mark {
	w.Helper()
	m, err := w.catalog.Mark(w.Context(), set)
	if err != nil {
		w.Fatal(err)
	}
	return m
}

// fail has opening a resource fail, or no more.
func (w *world) fail(uri string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failing[uri] = err
}

// put puts a resource of the type and content.
func (w *world) put(uri, mediaType, content string, links ...resourcesync.Link) {
	w.Helper()
	w.putIn(listURI, uri, mediaType, content, links...)
}

func (w *world) putIn(set, uri, mediaType, content string, links ...resourcesync.Link) {
	w.Helper()
	w.mu.Lock()
	w.contents[uri] = content
	w.mu.Unlock()
	w.apply(set, catalog.Update{Record: catalog.Record{
		URI: uri, Type: mediaType, Length: int64(len(content)), Lastmod: w.clock(), Links: links,
	}})
}

func (w *world) remove(uri string) {
	w.Helper()
	w.apply(listURI, catalog.Update{Record: catalog.Record{URI: uri}, Deleted: true})
}

func (w *world) apply(set string, updates ...catalog.Update) {
	w.Helper()
	if _, err := w.catalog.Apply(w.Context(), set, updates); err != nil {
		w.Fatal(err)
	}
}

// do sends a request.
func (w *world) do(method, query string, header http.Header) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, baseURL+"?"+query, http.NoBody)
	for k, v := range header {
		r.Header[k] = v
	}
	rec := httptest.NewRecorder()
	w.repo.ServeHTTP(rec, r)
	return rec
}

// ask asks by GET and returns the answer, which must be one.
func (w *world) ask(query string) *response {
	w.Helper()
	rec := w.do(http.MethodGet, query, nil)
	if rec.Code != http.StatusOK {
		w.Fatalf("%s: status %d: %s", query, rec.Code, rec.Body)
	}
	if got := rec.Header().Get("Content-Type"); got != "text/xml; charset=utf-8" {
		w.Fatalf("%s: content type %q", query, got)
	}
	return w.parse(rec.Body.String())
}

func (w *world) parse(body string) *response {
	w.Helper()
	r := new(response)
	if err := xml.Unmarshal([]byte(body), r); err != nil {
		w.Fatalf("%v in:\n%s", err, body)
	}
	if err := checkSchema(body); err != nil {
		w.Errorf("against the schema: %v in:\n%.4000s", err, body)
	}
	return r
}

// all asks for a list to its end, and returns the responses.
func (w *world) all(query string) []*response {
	w.Helper()
	all := []*response{w.ask(query)}
	verb := "ListRecords"
	if strings.Contains(query, "ListIdentifiers") {
		verb = "ListIdentifiers"
	}
	for {
		t := all[len(all)-1].Token
		if t == nil {
			t = all[len(all)-1].Next
		}
		if t == nil || t.Value == "" {
			return all
		}
		all = append(all, w.ask("verb="+verb+"&resumptionToken="+url.QueryEscape(t.Value)))
	}
}

// ids returns the identifiers a list has, in order, those of deleted ones with a
// minus.
func ids(rs []*response) (all []string) {
	for _, r := range rs {
		for _, h := range r.headers() {
			id := h.Identifier
			if h.Status == "deleted" {
				id = "-" + id
			}
			all = append(all, id)
		}
	}
	return all
}

func (r *response) headers() []header {
	all := slices.Clone(r.Headers)
	for _, rec := range slices.Concat(r.Records, r.Got) {
		all = append(all, rec.Header)
	}
	return all
}

func wantIDs(t *testing.T, rs []*response, want ...string) {
	t.Helper()
	if got := ids(rs); !slices.Equal(got, want) {
		t.Errorf("identifiers %q, want %q", got, want)
	}
}

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

// The errors by the letter (OAI-PMH 2.0, 3.6), and what of the request is echoed
// with them (3.2).
func TestErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.put("https://example.org/a", "text/plain", "a")
	w.put("https://example.org/gone", "text/plain", "g")
	w.ask("verb=Identify") // what goes before anybody asks was never there
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

// A list in parts (OAI-PMH 2.0, 3.5): each record once, in whatever way it is
// cut, also after a restart; the last part says that it is.
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

// Deletions are told of for good (OAI-PMH 2.0, 2.5.1): also when the catalog has
// forgotten them, and when it has forgotten so before they were noticed.
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

// Contents in XML are to be had as they are, in the format of their root; a
// resource that leaves it is deleted from its lists.
func TestFormats(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	const own = `<r:r xmlns:r="urn:example:r" a="1 > 2"><b>x</b><c xmlns="urn:c"/></r:r>`
	w.put("https://example.org/1", "application/xml; charset=utf-8", "\ufeff<?xml version='1.0'?>\n<!DOCTYPE r:r>\n<!-- <x> -->"+own+"<!-- end -->\n")
	w.put("https://example.org/2", "application/rdf+xml", "<x")
	w.put("https://example.org/3", "text/xml", "<noNamespace/>")
	w.put("https://example.org/4", "text/plain", own)
	w.put("https://example.org/5", "text/xml", `<!DOCTYPE r [<!ENTITY e "x">]><r xmlns="urn:example:r">&e;</r>`)
	w.put("https://example.org/6", "text/xml", `<r xmlns="urn:example:r" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="urn:example:r https://example.org/r.xsd"/>`)
	const dc = `<oai_dc:dc xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/" xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Own</dc:title></oai_dc:dc>`
	w.put("https://example.org/7", "text/xml", dc)
	located := strings.Replace(dc, "<oai_dc:dc", `<oai_dc:dc xmlns:xsi="`+xsiSpace+`" xsi:schemaLocation="`+dcSpace+" "+dcSpace[:len(dcSpace)-1]+`.xsd"`, 1)
	w.put("https://example.org/8", "text/xml", `<OAI-PMH xmlns="`+oaiSpace+`"/>`)
	w.put("https://example.org/9", "text/xml", `<r xmlns="not %zz"/>`)
	w.put("https://example.org/A", "text/xml", `<r xmlns="urn:`+strings.Repeat("x", 1<<16)+`"/>`)
	r := w.ask("verb=ListMetadataFormats")
	if len(r.Formats) != 2 || r.Formats[1].Namespace != "urn:example:r" {
		t.Fatalf("formats %+v", r.Formats)
	}
	prefix := r.Formats[1].Prefix
	list := "verb=ListRecords&metadataPrefix=" + prefix
	rs := w.all(list)
	wantIDs(t, rs, "https://example.org/1", "https://example.org/6")
	if got, want := strings.TrimSpace(rs[0].Records[0].Metadata.Inner), strings.Replace(own, "<r:r", `<r:r xmlns=""`, 1); got != want {
		t.Errorf("metadata\n%s\nwant\n%s", got, want)
	}
	if rs := w.all("verb=ListRecords&metadataPrefix=oai_dc"); len(ids(rs)) != 10 || strings.TrimSpace(rs[0].Records[6].Metadata.Inner) != located {
		t.Errorf("as oai_dc: %v, the last %s", ids(rs), rs[0].Records[6].Metadata.Inner)
	}
	w.pass(time.Minute)
	w.put("https://example.org/1", "application/xml", `<other xmlns="urn:example:o"/>`)
	wantIDs(t, w.all(list), "https://example.org/6", "-https://example.org/1")
	if r := w.ask("verb=GetRecord&identifier=https://example.org/1&metadataPrefix=" + prefix); len(r.Got) != 1 || r.Got[0].Header.Status != "deleted" {
		t.Errorf("what left the format: %+v", r)
	}
	w.pass(time.Minute)
	w.remove("https://example.org/6")
	wantIDs(t, w.all(list), "-https://example.org/1", "-https://example.org/6")
	w.put("https://example.org/1", "application/xml", own)
	wantIDs(t, w.all(list), "-https://example.org/6", "https://example.org/1")
}

// What cannot be read when it is asked for is left out, and found by a later
// harvest once it can be; the others are not held up.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for _, n := range []string{"1", "2", "3"} {
		w.put("https://example.org/"+n, "text/xml", `<r xmlns="urn:example:r">`+n+`</r>`)
	}
	prefix := w.ask("verb=ListMetadataFormats").Formats[1].Prefix
	list := "verb=ListRecords&metadataPrefix=" + prefix
	w.fail("https://example.org/2", errors.New("the disk is gone"))
	w.pass(time.Minute)
	rs := w.all(list)
	wantIDs(t, rs, "https://example.org/1", "https://example.org/3")
	if got := w.do(http.MethodGet, "verb=GetRecord&identifier=https://example.org/2&metadataPrefix="+prefix, nil); got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") == "" {
		t.Errorf("GetRecord of it: status %d, %v", got.Code, got.Header())
	}
	wantIDs(t, w.all("verb=ListRecords&metadataPrefix=oai_dc"), "https://example.org/1", "https://example.org/2", "https://example.org/3")
	w.pass(time.Minute)
	w.fail("https://example.org/2", nil)
	w.restart()
	wantIDs(t, w.all(list+"&from="+rs[0].ResponseDate), "https://example.org/2")
	wantIDs(t, w.all(list), "https://example.org/1", "https://example.org/3", "https://example.org/2")
}

// The id a record came with identifies it, but for one more representation of it,
// and where another has it already. What XML cannot say is escaped.
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
	if r := w.ask("verb=GetRecord&metadataPrefix=oai_dc&identifier=oai:other.example:1"); r.Error.Code != "idDoesNotExist" {
		t.Errorf("an identifier that was given up: %+v", r)
	}
}

// Several sets are one after the other; one that is asked for is alone.
func TestSets(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *repository.Options) {
		o.Records = 2
		o.Sets = append(o.Sets, repository.Set{Name: "empty", Catalog: "x:empty"}, repository.Set{Name: "second", Title: "The second", Catalog: "x:second"})
	})
	for i := range 3 {
		uri := fmt.Sprint("https://example.org/", i)
		w.put(uri, "", uri)
		w.apply("x:second", catalog.Update{Record: catalog.Record{URI: fmt.Sprint("x:", i), Length: -1}})
	}
	wantIDs(t, w.all("verb=ListRecords&metadataPrefix=oai_dc"),
		"https://example.org/0", "https://example.org/1", "https://example.org/2", "x:0", "x:1", "x:2")
	wantIDs(t, w.all("verb=ListRecords&metadataPrefix=oai_dc&set=second"), "x:0", "x:1", "x:2")
	if r := w.ask("verb=ListRecords&metadataPrefix=oai_dc&set=empty"); r.Error.Code != "noRecordsMatch" {
		t.Errorf("an empty set: %+v", r)
	}
	if r := w.ask("verb=ListSets"); len(r.Sets) != 3 || r.Sets[2].Name != "The second" {
		t.Errorf("sets %+v", r.Sets)
	}
	wantIDs(t, []*response{w.ask("verb=GetRecord&metadataPrefix=oai_dc&identifier=x:1")}, "x:1")
}

// An item of several sets is one record that names them all; it is deleted when
// it has left the last (OAI-PMH 2.0, 2.6).
func TestShared(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *repository.Options) {
		o.Records = 2
		o.Sets = append(o.Sets, repository.Set{Name: "second", Catalog: "x:second", Open: o.Sets[0].Open})
	})
	const r = `<r xmlns="urn:example:r"/>`
	id := resourcesync.Link{Rel: catalog.RelRecord, Href: "oai:example.org:1"}
	w.putIn(listURI, "https://example.org/1", "text/xml", r, id)
	w.putIn(listURI, "https://example.org/2", "text/xml", r)
	w.putIn("x:second", "https://example.org/other", "text/xml", r, id)
	w.putIn("x:second", "https://example.org/2", "text/xml", r)
	w.putIn("x:second", "https://example.org/3", "text/xml", r)
	prefix := w.ask("verb=ListMetadataFormats").Formats[1].Prefix
	lists := []string{"verb=ListRecords&metadataPrefix=oai_dc", "verb=ListRecords&metadataPrefix=" + prefix, "verb=ListIdentifiers&metadataPrefix=oai_dc"}
	want := func(specs map[string]string, ids ...string) {
		t.Helper()
		for _, list := range lists {
			rs := w.all(list)
			wantIDs(t, rs, ids...)
			for _, r := range rs {
				for _, h := range r.headers() {
					if got := strings.Join(h.Sets, " "); got != specs[h.Identifier] {
						t.Errorf("%s: %s is in %q, want %q", list, h.Identifier, got, specs[h.Identifier])
					}
					one := w.ask("verb=GetRecord&metadataPrefix=oai_dc&identifier=" + h.Identifier)
					if len(one.Got) != 1 || !slices.Equal(one.Got[0].Header.Sets, h.Sets) || one.Got[0].Header.Status != h.Status || one.Got[0].Header.Datestamp != h.Datestamp {
						t.Errorf("GetRecord of %s: %+v, in the list %+v", h.Identifier, one.Got, h)
					}
				}
			}
		}
	}
	want(map[string]string{"oai:example.org:1": "main second", "https://example.org/2": "main second", "https://example.org/3": "second"},
		"oai:example.org:1", "https://example.org/2", "https://example.org/3")
	wantIDs(t, w.all(lists[0]+"&set=second"), "oai:example.org:1", "https://example.org/2", "https://example.org/3")
	w.pass(time.Minute)
	since := w.ask(lists[0]).ResponseDate
	w.remove("https://example.org/1")
	w.apply("x:second", catalog.Update{Record: catalog.Record{URI: "https://example.org/2"}, Deleted: true})
	w.pass(time.Minute)
	want(map[string]string{"oai:example.org:1": "second", "https://example.org/2": "main", "https://example.org/3": "second"},
		"https://example.org/2", "oai:example.org:1", "https://example.org/3")
	wantIDs(t, w.all(lists[0]+"&from="+since), "oai:example.org:1", "https://example.org/2")
	wantIDs(t, w.all(lists[0]+"&set=main&from="+since), "-oai:example.org:1")
	wantIDs(t, w.all(lists[0]+"&set=second&from="+since), "-https://example.org/2")
	w.remove("https://example.org/2")
	w.pass(time.Minute)
	wantIDs(t, w.all(lists[1]+"&from="+since), "oai:example.org:1", "-https://example.org/2")
}

// A set that is in another wholly makes no parts with nothing in them.
func TestSharedWholly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *repository.Options) {
		o.Records = 2
		o.Sets = append(o.Sets, repository.Set{Name: "second", Catalog: "x:second"})
	})
	var updates []catalog.Update
	var want []string
	for i := range 301 {
		want = append(want, fmt.Sprintf("x:%03d", i))
		updates = append(updates, catalog.Update{Record: catalog.Record{URI: want[i], Length: -1}})
	}
	w.apply(listURI, updates...)
	w.apply("x:second", updates[:300]...)
	rs := w.all("verb=ListRecords&metadataPrefix=oai_dc")
	wantIDs(t, rs, want...)
	if len(rs) != 151 {
		t.Errorf("%d parts", len(rs))
	}
}
