package oaipmh_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"testing"

	"lockstep/catalog"
	oaiintake "lockstep/intake/harvest/oaipmh"
	"lockstep/oaipmh/oaipmhtest"
)

// TestOAIPMHNoRecordsMatchInTheMiddle: a repository that states in the middle of a list that no
// records match is asked for the rest later, and no record is deleted meanwhile.
func TestOAIPMHNoRecordsMatchInTheMiddle(t *testing.T) {
	t.Parallel()
	h := newHarvested(t, oaipmhtest.Options{Records: 60, PageSize: 20, Faults: oaipmhtest.Faults{NoCounts: true}}, oaiintake.Options{})
	ends := true
	tampered(t, h, func(_ int64, w http.ResponseWriter, q *http.Request) bool {
		if !ends || q.FormValue("resumptionToken") == "" {
			return false
		}
		w.Header().Set("Content-Type", "text/xml")
		_, _ = io.WriteString(w, `<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><responseDate>2026-01-01T00:00:00Z</responseDate>`+
			`<request>http://example.org/oai</request><error code="noRecordsMatch">none</error></OAI-PMH>`)
		return true
	})
	if r := h.scan(); r.Created != 20 {
		t.Errorf("report = %+v, want the records of the first page", r)
	}
	ends = false
	h.scan()
	h.same()
	for i := range 30 {
		h.repo.Put(oaipmhtest.Record{Identifier: fmt.Sprintf("oai:example.org:%07d", i+1), Title: "new"})
	}
	ends = true
	if r := h.scan(); r.Deleted > 0 {
		t.Errorf("report = %+v, want no deletions", r)
	}
	ends = false
	h.scan()
	h.same()
}

// A watchedCatalog calls before whenever its resources are read.
type watchedCatalog struct {
	catalog.Catalog
	before func()
}

func (c *watchedCatalog) Resources(ctx context.Context, set string, r catalog.Range) iter.Seq2[catalog.Record, error] {
	c.before()
	return c.Catalog.Resources(ctx, set, r)
}

// TestOAIPMHKilledAtTheEnd: a harvest that was killed when its list had just come to its end
// is repeated from the beginning of the list.
func TestOAIPMHKilledAtTheEnd(t *testing.T) {
	t.Parallel()
	var h *harvested
	var inner catalog.Catalog
	var left []byte // the state as the killed process leaves it
	// On a slow machine the last records may be stored before the end of the list is known, and
	// then it is not saved that it was reached.
	for tries := 0; !bytes.Contains(left, []byte(`"listed":100`)); tries++ {
		if tries == 20 {
			t.Fatalf("state %s, want that of a list read to its end", left)
		}
		h = newHarvested(t, oaipmhtest.Options{Records: 100, PageSize: 20}, oaiintake.Options{})
		inner = h.cat
		h.cat = &watchedCatalog{inner, func() { // also when absent records are looked for, which is last
			if state, err := os.ReadFile(h.o.State); err == nil {
				left = state
			}
		}}
		h.open()
		h.scan()
	}
	h.cat = inner
	must(t, os.WriteFile(h.o.State, left, 0o600))
	h.open()
	r := h.scan()
	h.same()
	if st := h.oai.Status(); r.Unreadable.Count+r.Skipped.Count > 0 || !st.Whole || !st.Complete {
		t.Errorf("report = %+v, status %+v, want a whole harvest", r, st)
	}
}
