package oaipmh_test

import (
	"bytes"
	"io"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/harvest/oaipmh"
	"lockstep/internal/fetch"
	"lockstep/oaipmh/oaipmhtest"
)

// A harvested is a repository and what is harvested from it.
type harvested struct {
	t        *testing.T
	repo     *oaipmhtest.Repository
	url      string
	cat      catalog.Catalog
	contents *intake.MemContents
	o        oaipmh.Options
	oai      *oaipmh.Harvester
}

const harvestSet = "https://example.org/set"

func newHarvested(t *testing.T, ro oaipmhtest.Options, o oaipmh.Options) *harvested {
	t.Helper()
	h := &harvested{t: t, repo: oaipmhtest.New(ro), cat: catalog.NewMem(nil), contents: new(intake.MemContents), o: o}
	server := httptest.NewServer(h.repo)
	t.Cleanup(server.Close)
	h.url = server.URL + "/oai"
	if h.o.State == "" {
		h.o.State = filepath.Join(t.TempDir(), "state.json")
	}
	h.o.Contents = h.contents
	h.open()
	return h
}

// open replaces the Harvester by one that has only the stored state.
func (h *harvested) open() {
	h.t.Helper()
	home, _ := url.Parse(h.url)
	c, err := fetch.New(fetch.Options{Home: home, Timeout: 5 * time.Second})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(c.Close)
	if h.oai, err = oaipmh.New(h.url, c, h.cat, harvestSet, h.o); err != nil {
		h.t.Fatal(err)
	}
}

func (h *harvested) scan() intake.Report {
	h.t.Helper()
	r, err := h.oai.Scan(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

// same reports what is not as the repository has it.
func (h *harvested) same() {
	h.t.Helper()
	want := h.repo.All()
	n := 0
	for rec, err := range h.cat.Resources(h.t.Context(), harvestSet, catalog.Range{}) {
		if err != nil {
			h.t.Fatal(err)
		}
		n++
		_, id, _ := strings.Cut(rec.URI, "&identifier=")
		id, _ = url.QueryUnescape(id)
		doc, ok := want[id]
		if !ok {
			h.t.Errorf("%s is in the catalog, not in the repository", rec.URI)
			continue
		}
		r, err := h.oai.Bitstream(h.t.Context(), &rec)
		if err != nil {
			h.t.Error(err)
			continue
		}
		b, _ := io.ReadAll(r)
		if !bytes.Equal(b, doc) || int64(len(b)) != rec.Length || rec.Lastmod.IsZero() || rec.Type != "application/xml" {
			h.t.Errorf("%s (%+v) = %s, want %s", rec.URI, rec, b, doc)
		}
	}
	if n != len(want) {
		h.t.Errorf("%d resources in the catalog, %d in the repository", n, len(want))
	}
}

func TestOAIPMH(t *testing.T) {
	t.Parallel()
	h := newHarvested(t, oaipmhtest.Options{Records: 1234, Sets: []string{"a", "b:c"}, Dirty: true}, oaipmh.Options{})
	if r := h.scan(); r.Created != 1234 || r.Files != 1234 || r.Unreadable.Count+r.Skipped.Count > 0 {
		t.Errorf("first report: %+v", r)
	}
	h.same()
	h.repo.Put(oaipmhtest.Record{Identifier: "oai:example.org:0000003", Title: "Changed"})
	h.repo.Put(oaipmhtest.Record{Identifier: "urn:x:new", Title: "Löwe & <Tiger>"})
	h.repo.Delete("oai:example.org:0000005")
	h.open()
	before := len(h.repo.Requests())
	if r := h.scan(); r.Created != 1 || r.Updated != 1 || r.Deleted != 1 || r.Unchanged != 0 {
		t.Errorf("second report: %+v", r)
	}
	if n := len(h.repo.Requests()) - before; n != 2 {
		t.Errorf("%d requests for three changes: %q", n, h.repo.Requests()[before:])
	}
	h.same()
	if r := h.scan(); r.Changed() {
		t.Errorf("third report: %+v", r)
	}
}

// User name and password in the base URL are no part of what identifies the repository, and
// are in the addresses of no records.
func TestBaseURLWithPassword(t *testing.T) {
	t.Parallel()
	h := newHarvested(t, oaipmhtest.Options{Records: 3}, oaipmh.Options{})
	plain := h.url
	for i, user := range []string{"user:s3cret1@", "user:s3cret2@"} {
		h.url = strings.Replace(plain, "http://", "http://"+user, 1)
		h.open()
		if r := h.scan(); i > 0 && r.Changed() {
			t.Errorf("with another password everything was harvested again: %+v", r)
		}
		for rec, err := range h.cat.Resources(t.Context(), harvestSet, catalog.Range{}) {
			if err != nil || !strings.HasPrefix(rec.URI, plain) {
				t.Errorf("%s is in the catalog: %v", rec.URI, err)
			}
		}
	}
}
