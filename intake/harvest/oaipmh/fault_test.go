package oaipmh_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/intake"
	oaiintake "lockstep/intake/harvest/oaipmh"
	"lockstep/oaipmh"
	"lockstep/oaipmh/oaipmhtest"
)

// TestOAIPMHFaults harvests from a repository that fails in many ways, some of
// them in every run, until it is in step.
func TestOAIPMHFaults(t *testing.T) {
	t.Parallel()
	for name, faults := range map[string]oaipmhtest.Faults{
		"network":  {Unavailable: 0.1, Reset: 0.1, Cut: 0.1},
		"tokens":   {Expire: 0.05},
		"counts":   {WrongCounts: true},
		"no count": {NoCounts: true, LastToken: true},
		"empty":    {EmptyMatch: true},
		"status":   {ErrorStatus: http.StatusNotFound, Expire: 0.05},
		"days":     {CoarseOnly: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarvested(t, oaipmhtest.Options{Records: 400, PageSize: 20}, oaiintake.Options{})
			h.repo.SetFaults(faults)
			until(t, h)
			h.repo.SetFaults(oaipmhtest.Faults{})
			h.same()
			h.repo.SetFaults(faults)
			h.repo.Delete("oai:example.org:0000001")
			h.repo.Put(oaipmhtest.Record{Identifier: "oai:example.org:0000002", Title: "new"})
			before := len(h.repo.Requests())
			until(t, h)
			if name == "days" {
				last := h.repo.Requests()[before:]
				if len(last) != 2 || !strings.Contains(last[0], "T") || strings.Contains(last[1], "T") {
					t.Errorf("requests = %q, want one with a time and one without", last)
				}
			}
			if until(t, h); faults.EmptyMatch && len(h.repo.Requests()) == before {
				t.Error("nothing was asked")
			}
			h.repo.SetFaults(oaipmhtest.Faults{})
			h.same()
		})
	}
}

// until scans until that comes to its end.
func until(t *testing.T, h *harvested) {
	t.Helper()
	for range 20 {
		_, err := h.oai.Scan(t.Context())
		if err == nil {
			return
		}
		t.Log(err)
	}
	t.Fatal("not in step after 20 scans")
}

// A tampered repository is one that something is done to before a request.
func tampered(t *testing.T, h *harvested, before func(n int64, w http.ResponseWriter, q *http.Request) bool) {
	t.Helper()
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if !before(n.Add(1), w, q) {
			h.repo.ServeHTTP(w, q)
		}
	}))
	t.Cleanup(server.Close)
	h.url = server.URL + "/oai"
	h.open()
}

// TestOAIPMHExpire has tokens expire repeatedly: the list is restarted, first from its
// beginning, then from the datestamps that were reached.
func TestOAIPMHExpire(t *testing.T) {
	t.Parallel()
	for name, unordered := range map[string]bool{"in order": false, "in disorder": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarvested(t, oaipmhtest.Options{Records: 400, PageSize: 20, Unordered: unordered}, oaiintake.Options{})
			if unordered { // so that identifiers are in another order than datestamps
				h.repo.Put(oaipmhtest.Record{Identifier: "oai:example.org:0000001", Title: "late"})
			}
			tampered(t, h, func(n int64, _ http.ResponseWriter, q *http.Request) bool {
				if n == 8 || n == 20 {
					h.repo.Expire()
				}
				return false
			})
			r := h.scan()
			h.same()
			if windowed := !unordered; (r.Unreadable.Count > 0) != windowed || h.oai.Status().Whole == windowed {
				t.Errorf("report = %+v, status %+v", r, h.oai.Status())
			}
			var begun []string
			for _, q := range h.repo.Requests() {
				if strings.Contains(q, "metadataPrefix") {
					begun = append(begun, q)
				}
			}
			if len(begun) != 3 || strings.Contains(begun[1], "from=") || strings.Contains(begun[2], "from=") == unordered {
				t.Errorf("lists begun by %q", begun)
			}
		})
	}
}

// TestOAIPMHRefused meets a repository that takes none of its own tokens.
func TestOAIPMHRefused(t *testing.T) {
	t.Parallel()
	h := newHarvested(t, oaipmhtest.Options{Records: 100, PageSize: 20, Unordered: true, Faults: oaipmhtest.Faults{Expire: 1}}, oaiintake.Options{})
	h.repo.Put(oaipmhtest.Record{Identifier: "oai:example.org:0000001", Title: "late"}) // datestamps do not rise
	_, err := h.oai.Scan(t.Context())
	if err == nil || !strings.Contains(err.Error(), "refuses its own resumption tokens") || !oaipmh.HasCode(err, oaipmh.CodeBadResumptionToken) {
		t.Errorf("error = %v", err)
	}
	if n := len(h.repo.Requests()); n > 20 {
		t.Errorf("%d requests", n)
	}
}

// TestOAIPMHLoop meets a token that leads to itself.
func TestOAIPMHLoop(t *testing.T) {
	t.Parallel()
	h := newHarvested(t, oaipmhtest.Options{Records: 100, PageSize: 20, Faults: oaipmhtest.Faults{RepeatToken: true}}, oaiintake.Options{})
	r, err := h.oai.Scan(t.Context())
	if err == nil || !strings.Contains(err.Error(), " twice, so") || r.Created != 40 {
		t.Errorf("%+v, error = %v", r, err)
	}
	h.repo.SetFaults(oaipmhtest.Faults{})
	h.scan()
	h.same()
}

// TestOAIPMHErrors says what the matter is.
func TestOAIPMHErrors(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		o      oaiintake.Options
		answer string
		want   string
	}{
		"format":   {o: oaiintake.Options{Prefix: "marcxml"}, want: "cannotDisseminateFormat: no format \"marcxml\"; its metadataPrefixes are oai_dc"},
		"set":      {o: oaiintake.Options{SetSpec: "x"}, want: "noSetHierarchy"},
		"html":     {answer: "<!DOCTYPE html><html><body>x</body></html>", want: "this is an HTML page"},
		"feed":     {answer: "<feed xmlns='http://www.w3.org/2005/Atom'/>", want: "not an OAI-PMH response: the root element is feed"},
		"text":     {answer: "hello", want: "not an OAI-PMH response"},
		"nothing":  {answer: " ", want: "not an OAI-PMH response"},
		"old":      {answer: `<OAI-PMH xmlns="` + oaipmh.Namespace + `"><Identify><protocolVersion>1.1</protocolVersion></Identify></OAI-PMH>`, want: `version "1.1"`},
		"no verb":  {answer: `<OAI-PMH xmlns="` + oaipmh.Namespace + `"/>`, want: "neither what was asked for nor an error"},
		"bad verb": {answer: `<OAI-PMH xmlns="` + oaipmh.Namespace + `"><error code="badVerb">What?</error></OAI-PMH>`, want: "the repository answers badVerb: What?"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarvested(t, oaipmhtest.Options{Records: 10}, tt.o)
			if tt.answer != "" {
				tampered(t, h, func(_ int64, w http.ResponseWriter, _ *http.Request) bool {
					_, _ = w.Write([]byte(tt.answer))
					return true
				})
			}
			_, err := h.oai.Scan(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), h.url) {
				t.Errorf("error = %v, want %s", err, tt.want)
			}
		})
	}
}

// TestOAIPMHAbsent deletes what a full harvest does not list, if that may be.
func TestOAIPMHAbsent(t *testing.T) {
	t.Parallel()
	h := newHarvested(t, oaipmhtest.Options{Records: 400, Deleted: oaipmh.DeletedNo}, oaiintake.Options{FullInterval: time.Nanosecond})
	h.scan()
	h.repo.Delete("oai:example.org:0000007")
	if r := h.scan(); r.Deleted != 1 || r.Unchanged != 399 {
		t.Errorf("report = %+v, want one deleted", r)
	}
	for i := range 300 {
		h.repo.Drop(fmt.Sprintf("oai:example.org:%07d", i))
	}
	h.repo.Put(oaipmhtest.Record{Identifier: "new"})
	r, err := h.oai.Scan(t.Context())
	if e, ok := errors.AsType[*intake.EmptyError](err); !ok || e.Gone != 299 || r.Created != 1 {
		t.Fatalf("%+v, error = %v, want 299 of 400 gone", r, err)
	}
	h.o.FullInterval = -1
	h.open() // the question stays, in harvests that are not full, too
	if _, err := h.oai.Scan(t.Context()); !errors.Is(err, intake.ErrEmpty) {
		t.Errorf("error = %v, want ErrEmpty", err)
	}
	h.o.AllowEmpty = true
	h.open()
	if r := h.scan(); r.Deleted != 299 {
		t.Errorf("%+v, want 299 deleted", r)
	}
	h.same()
}

// TestOAIPMHStretch goes on where it was, in another process, and lists nothing
// twice.
func TestOAIPMHStretch(t *testing.T) {
	t.Parallel()
	h := newHarvested(t, oaipmhtest.Options{Records: 1000, Deleted: oaipmh.DeletedNo}, oaiintake.Options{})
	stretches := 0
	for more := true; more; stretches++ {
		h.open()
		var err error
		if _, more, err = h.oai.Harvest(t.Context(), oaiintake.Stretch{Full: true, Records: 250}); err != nil {
			t.Fatal(err)
		}
		if s := h.oai.Status(); s.Whole == more || s.Complete == more || s.Until.IsZero() != more {
			t.Errorf("status = %+v while more is %v", s, more)
		}
		if stretches == 1 { // what is gone meanwhile is known to be so at the end
			h.repo.Drop("oai:example.org:0000003")
		}
	}
	if stretches != 4 {
		t.Errorf("%d stretches, want 4", stretches)
	}
	h.open()
	if _, _, err := h.oai.Harvest(t.Context(), oaiintake.Stretch{Full: true}); err != nil {
		t.Fatal(err)
	}
	h.same()
	asked := map[string]int{}
	for _, q := range h.repo.Requests()[:14] { // 4 times Identify, and the pages of the first harvest
		asked[q]++
	}
	for q, n := range asked { // what was asked for ahead may be asked for again
		if n > 2 && q != "verb=Identify" {
			t.Errorf("%d times: %s", n, q)
		}
	}
}

// TestOAIPMHLost starts again when catalog or state were lost.
func TestOAIPMHLost(t *testing.T) {
	t.Parallel()
	h := newHarvested(t, oaipmhtest.Options{Records: 200}, oaiintake.Options{})
	h.scan()
	h.cat = catalog.NewMem(nil)
	h.open()
	if r := h.scan(); r.Created != 200 {
		t.Errorf("%+v, want 200 created", r)
	}
	h.repo.Drop("oai:example.org:0000003")
	h.o.State += ".new"
	if err := h.contents.Clear(t.Context(), harvestSet); err != nil {
		t.Fatal(err)
	}
	h.open()
	if r := h.scan(); r.Unchanged != 199 || r.Deleted != 1 {
		t.Errorf("%+v, want 199 unchanged, 1 deleted", r)
	}
	before := len(h.repo.Requests())
	h.same()
	if n := len(h.repo.Requests()) - before; n > 0 {
		t.Errorf("%d requests for contents that came with the list", n)
	}
	if err := h.contents.Clear(t.Context(), harvestSet); err != nil {
		t.Fatal(err)
	}
	h.same() // by GetRecord
}

// TestOAIPMHBroken takes from pages that are not well formed the records that are.
func TestOAIPMHBroken(t *testing.T) {
	t.Parallel()
	h := newHarvested(t, oaipmhtest.Options{Records: 400}, oaiintake.Options{FullInterval: time.Nanosecond})
	h.scan()
	const good = `<r:record xmlns:r="http://www.loc.gov/MARC21/slim"><r:leader>x</r:leader></r:record>`
	h.repo.Put(oaipmhtest.Record{Identifier: "good", Raw: good})
	h.repo.Put(oaipmhtest.Record{Identifier: "entity", Raw: `<a xmlns="urn:x">caf&eacute; &nbsp;</a>`})
	h.repo.Put(oaipmhtest.Record{Identifier: "oai:example.org:0000003", Raw: `<a><b></a>`})
	h.repo.Put(oaipmhtest.Record{Identifier: "bare", Bare: true})
	h.repo.Drop("oai:example.org:0000004")
	r := h.scan()
	if r.Created != 2 || r.Deleted != 0 || r.Unreadable.Count != 1 || r.Unreadable.First[0].Path != "oai:example.org:0000003" {
		t.Errorf("report = %+v", r)
	}
	if s := h.oai.Status(); s.Complete {
		t.Errorf("status = %+v, though a record is not well formed", s)
	}
	if r.Skipped.Count != 2 { // bare, and nothing is deleted
		t.Errorf("skipped = %v", r.Skipped)
	}
	h.repo.Put(oaipmhtest.Record{Identifier: "oai:example.org:0000003", Raw: `<a xmlns="urn:x"><b/></a>`})
	h.repo.Drop("entity")
	if r := h.scan(); r.Updated != 1 || r.Deleted != 2 || r.Unreadable.Count > 0 {
		t.Errorf("report = %+v", r)
	}
	h.same()
}

// TestOAIPMHSets harvests a set, and links each record to its sets.
func TestOAIPMHSets(t *testing.T) {
	t.Parallel()
	h := newHarvested(t, oaipmhtest.Options{Records: 40, Sets: []string{"a", "b"}}, oaiintake.Options{SetSpec: "b", URI: func(id string) string {
		return "https://example.org/records/" + oaiintake.RecordPath(id)
	}})
	h.scan()
	n := 0
	for rec, err := range h.cat.Resources(t.Context(), harvestSet, catalog.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		id := identifierOf(strings.TrimPrefix(rec.URI, "https://example.org/records/"))
		want := map[string]string{
			"collection":      h.url + "?verb=ListRecords&metadataPrefix=oai_dc&set=b",
			"via":             oaipmh.RecordURL(h.url, "oai_dc", id),
			"profile":         oaipmh.DublinCoreNamespace,
			catalog.RelRecord: id,
		}
		for _, l := range rec.Links {
			if want[l.Rel] != l.Href {
				t.Errorf("%s: link %s to %s, want %s", rec.URI, l.Rel, l.Href, want[l.Rel])
			}
			delete(want, l.Rel)
		}
		if len(want) > 0 {
			t.Errorf("%s has no links %v", rec.URI, want)
		}
	}
	if n != 20 {
		t.Errorf("%d records, want 20", n)
	}
}

// TestOAIPMHFullAfterClockAhead: a full harvest that was recorded by a clock ahead by
// years is followed by the next one nevertheless.
func TestOAIPMHFullAfterClockAhead(t *testing.T) {
	t.Parallel()
	h := newHarvested(t, oaipmhtest.Options{Records: 20, Deleted: oaipmh.DeletedNo}, oaiintake.Options{})
	h.scan()
	text, err := os.ReadFile(h.o.State)
	must(t, err)
	ahead := strings.ReplaceAll(string(text), `"full_at":"20`, `"full_at":"21`)
	if ahead == string(text) {
		t.Fatalf("nothing to edit in %s", text)
	}
	must(t, os.WriteFile(h.o.State, []byte(ahead), 0o600))
	h.repo.Delete("oai:example.org:0000007")
	h.open()
	if r := h.scan(); r.Deleted != 1 {
		t.Errorf("report = %+v, want one deleted", r)
	}
	h.same()
}
