package repository_test

import (
	"context"
	"encoding/xml"
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

// A response is a response parsed by encoding/xml, independently of package
// oaipmh.
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

// newWorld returns a world whose set is published and empty.
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

// pass advances the clock.
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

// fail makes opening a resource fail, or work again.
func (w *world) fail(uri string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failing[uri] = err
}

// put stores a resource with a type and content.
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

// ask sends a GET request and returns the response, which must be valid.
func (w *world) ask(query string) *response {
	w.Helper()
	rec := w.do(http.MethodGet, query, nil)
	if rec.Code != http.StatusOK {
		w.Fatalf("%s: status %d: %s", query, rec.Code, rec.Body)
	}
	if got := rec.Header().Get("Content-Type"); got != "text/xml; charset=utf-8" {
		w.Fatalf("%s: content type %q", query, got)
	}
	if got := rec.Header().Get("Content-Security-Policy"); got != "sandbox" { // records may contain scripts of others
		w.Fatalf("%s: Content-Security-Policy %q", query, got)
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

// all requests a list to its end, and returns the responses.
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

// ids returns the identifiers in a list, in order; those of deleted items have a
// minus sign.
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
