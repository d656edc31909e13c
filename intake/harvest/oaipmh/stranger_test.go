package oaipmh_test

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/intake"
	oaiintake "lockstep/intake/harvest/oaipmh"
	"lockstep/oaipmh"
)

// A stranger is a repository that answers as a test says.
type stranger struct {
	*harvested
	mu    sync.Mutex // held while it answers
	asked []url.Values

	identify func(q url.Values) string // what is in the answer; by default what is usual
	list     func(q url.Values) string // what is in the response to ListRecords
	get      func(id string) string    // to GetRecord
	sets     func(q url.Values) string // to ListSets
	whole    func(w http.ResponseWriter, q *http.Request, text string)
}

func newStranger(t *testing.T, o oaiintake.Options) *stranger {
	t.Helper()
	s := &stranger{harvested: &harvested{t: t, cat: catalog.NewMem(nil), contents: new(intake.MemContents), o: o}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL + "/oai"
	s.o.State, s.o.Contents = filepath.Join(t.TempDir(), "state.json"), s.contents
	s.open()
	return s
}

// ServeHTTP answers one request at a time, as a harvest asks.
func (s *stranger) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	args := q.URL.Query()
	s.asked = append(s.asked, args)
	body := ""
	switch verb := args.Get("verb"); {
	case verb == "Identify":
		body = "<Identify><granularity>YYYY-MM-DDThh:mm:ssZ</granularity></Identify>"
		if s.identify != nil {
			body = s.identify(args)
		}
	case verb == "ListRecords":
		body = s.list(args)
	case verb == "GetRecord" && s.get != nil:
		body = s.get(args.Get("identifier"))
	case verb == "ListSets" && s.sets != nil:
		body = s.sets(args)
	default:
		body = oaiError(oaipmh.CodeIDDoesNotExist)
	}
	text := `<?xml version="1.0" encoding="UTF-8"?><OAI-PMH xmlns="` + oaipmh.Namespace + `"><responseDate>` +
		time.Now().UTC().Format("2006-01-02T15:04:05Z") + `</responseDate>` + body + `</OAI-PMH>`
	if s.whole != nil {
		s.whole(w, q, text)
		return
	}
	_, _ = io.WriteString(w, text)
}

func oaiError(code string) string { return `<error code="` + code + `">` + code + ` it is</error>` }

// oaiRecord is a record whose title is it.
func oaiRecord(id, title string) string {
	return `<record><header><identifier>` + id + `</identifier><datestamp>2024-05-01T10:00:00Z</datestamp></header><metadata><t xmlns="urn:t">` +
		title + `</t></metadata></record>`
}

// oaiRecords are n records in the first place of a list, with names of their own.
func oaiRecords(name string, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(oaiRecord(fmt.Sprint(name, i), "x"))
	}
	return b.String()
}

// oaiList is a list, and the token that leads on.
func oaiList(records, token string) string {
	return "<ListRecords>" + records + "<resumptionToken>" + token + "</resumptionToken></ListRecords>"
}

// held returns what is in the catalog: the titles by identifier, read through
// Bitstream.
func (s *stranger) held() map[string]string {
	s.t.Helper()
	held := map[string]string{}
	for rec, err := range s.cat.Resources(s.t.Context(), harvestSet, catalog.Range{}) {
		if err != nil {
			s.t.Fatal(err)
		}
		_, _, id, _ := oaipmh.ParseRecordURL(rec.URI)
		r, err := s.oai.Bitstream(s.t.Context(), &rec)
		if err != nil {
			s.t.Error(err)
			continue
		}
		b, _ := io.ReadAll(r)
		_, title, _ := strings.Cut(string(b), ">\n<")
		_, title, _ = strings.Cut(title, ">")
		title, _, _ = strings.Cut(title, "</")
		if held[id] = title; int64(len(b)) != rec.Length {
			s.t.Errorf("%s has %d bytes, not the %d of %s", id, rec.Length, len(b), b)
		}
	}
	return held
}

// expect scans and reports an error that is not as wanted: with the address in it.
func (s *stranger) expect(want string) intake.Report {
	s.t.Helper()
	s.settle()
	r, err := s.oai.Scan(s.t.Context())
	s.settle()
	switch {
	case want == "" && err != nil:
		s.t.Errorf("error = %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), s.url)):
		s.t.Errorf("error = %v, want %s, with the address", err, want)
	}
	return r
}

// settle waits until nothing is answered, so that both sides see what the other did.
func (s *stranger) settle() { s.while(func() {}) }

// while runs f while nothing is answered: harvests may end before what they asked
// ahead is.
func (s *stranger) while(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// textOf formats a map in one line.
func textOf(m map[string]string) string {
	var all []string
	for k, v := range m {
		all = append(all, k+"="+v)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// summary formats the stored records like want.txt. They are read by a different XML
// reader.
func (s *stranger) summary() string {
	s.t.Helper()
	var all []string
	for rec, err := range s.cat.Resources(s.t.Context(), harvestSet, catalog.Range{}) {
		if err != nil {
			s.t.Fatal(err)
		}
		_, _, id, _ := oaipmh.ParseRecordURL(rec.URI)
		r, err := s.oai.Bitstream(s.t.Context(), &rec)
		if err != nil {
			s.t.Fatal(err)
		}
		var doc struct {
			XMLName xml.Name
			Title   []string `xml:"http://purl.org/dc/elements/1.1/ title"`
		}
		b, _ := io.ReadAll(r)
		if err := xml.Unmarshal(b, &doc); err != nil || len(doc.Title) == 0 {
			s.t.Errorf("%s: %v in %s", id, err, b)
		}
		sets := []string{}
		for _, l := range rec.Links {
			if _, spec, found := strings.Cut(l.Href, "&set="); found && l.Rel == "collection" {
				sets = append(sets, strings.ReplaceAll(spec, "%3A", ":"))
			}
		}
		all = append(all, fmt.Sprintf("%s %s %s %v %q\n", id, oaipmh.FormatDatestamp(rec.Lastmod, oaipmh.Second), doc.XMLName.Space, sets, doc.Title[0]))
	}
	slices.Sort(all)
	return strings.Join(all, "")
}
