package oaipmhtest_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"lockstep/oaipmh"
	"lockstep/oaipmh/oaipmhtest"
)

func get(t *testing.T, url string) *bytes.Buffer {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.NewBuffer(b)
}

// TestWalk pages through a list and obtains every record, including dirty ones.
func TestWalk(t *testing.T) {
	t.Parallel()
	repo := oaipmhtest.New(oaipmhtest.Options{Records: 250, Sets: []string{"a", "b:c"}, Dirty: true})
	repo.Put(oaipmhtest.Record{Identifier: "oai:example.org:x", Title: "Änne & <Otto>"})
	repo.Delete("oai:example.org:0000007")
	server := httptest.NewServer(repo)
	defer server.Close()
	got := map[string][]byte{}
	deleted, pages := 0, 0
	for url := oaipmh.URL(server.URL, oaipmh.VerbListRecords, "metadataPrefix", "oai_dc"); url != ""; pages++ {
		r := oaipmh.NewReader(oaipmh.Clean(get(t, url)), oaipmh.ReaderOptions{})
		for rec, err := range r.Records() {
			if err != nil {
				t.Fatal(err)
			}
			if rec.Deleted {
				deleted++
				continue
			}
			if rec.Namespace != oaipmh.DublinCoreNamespace {
				t.Fatalf("namespace = %q", rec.Namespace)
			}
			got[rec.Identifier] = rec.Metadata
		}
		token, _ := r.Token()
		if url = ""; token.Value != "" {
			url = oaipmh.URL(server.URL, oaipmh.VerbListRecords, "resumptionToken", token.Value)
		}
	}
	want := repo.All()
	if deleted != 1 || pages != 3 || len(got) != len(want) {
		t.Errorf("%d records, %d deleted, on %d pages; want %d, 1, 3", len(got), deleted, pages, len(want))
	}
	for id, doc := range want {
		if !bytes.Equal(got[id], doc) {
			t.Fatalf("%s = %s, want %s", id, got[id], doc)
		}
	}
}

// TestSelect requests parts of a list.
func TestSelect(t *testing.T) {
	t.Parallel()
	now := time.Date(2024, 5, 17, 9, 30, 0, 0, time.UTC)
	repo := oaipmhtest.New(oaipmhtest.Options{Records: 10, Sets: []string{"a", "b"}, Clock: func() time.Time { return now }})
	repo.Put(oaipmhtest.Record{Identifier: "new", Sets: []string{"a:sub"}})
	server := httptest.NewServer(repo)
	defer server.Close()
	for args, want := range map[string]int{
		"":                            11,
		"&set=a":                      6,
		"&set=b":                      5,
		"&from=2024-05-17T09:30:00Z":  1,
		"&until=2024-05-16T09:29:51Z": 2,
		"&from=2024-05-16T09:29:51Z&until=2024-05-16": 9,
	} {
		r := oaipmh.NewReader(get(t, server.URL+"?verb=ListIdentifiers&metadataPrefix=oai_dc"+args), oaipmh.ReaderOptions{})
		n := 0
		for _, err := range r.Records() {
			if err != nil {
				t.Fatal(args, err)
			}
			n++
		}
		if n != want {
			t.Errorf("%s: %d records, want %d", args, n, want)
		}
	}
	r := oaipmh.NewReader(get(t, server.URL+"?verb=ListRecords&metadataPrefix=oai_dc&from=2024-05-18"), oaipmh.ReaderOptions{})
	if err := r.Read(new(oaipmh.Record)); !oaipmh.HasCode(err, oaipmh.CodeNoRecordsMatch) {
		t.Errorf("error = %v, want noRecordsMatch", err)
	}
	id, err := oaipmh.NewReader(get(t, server.URL+"?verb=Identify"), oaipmh.ReaderOptions{}).Identify()
	if err != nil || id.Granularity != oaipmh.Second || id.DeletedRecord != oaipmh.DeletedPersistent || id.EarliestDatestamp.IsZero() {
		t.Errorf("Identify = %+v, %v", id, err)
	}
	sets, err := oaipmh.NewReader(get(t, server.URL+"?verb=ListSets"), oaipmh.ReaderOptions{}).Sets()
	if err != nil || len(sets) != 2 || sets[1].Spec != "b" {
		t.Errorf("Sets = %v, %v", sets, err)
	}
	formats, err := oaipmh.NewReader(get(t, server.URL+"?verb=ListMetadataFormats"), oaipmh.ReaderOptions{}).Formats()
	if err != nil || len(formats) != 1 || formats[0].Prefix != "oai_dc" {
		t.Errorf("Formats = %v, %v", formats, err)
	}
}
