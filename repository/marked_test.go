package repository_test

import (
	"context"
	"testing"
	"time"

	"lockstep/catalog"
)

// A busyCatalog finishes a change of many resources before it marks a point in its history.
type busyCatalog struct {
	catalog.Catalog
	before func() // called once
}

func (c *busyCatalog) Mark(ctx context.Context, set string) (catalog.Mark, error) {
	if f := c.before; f != nil && set == listURI {
		c.before = nil
		f()
	}
	return c.Catalog.Mark(ctx, set)
}

// TestResponseDateOfBusyCatalog: a harvest from the date of a response has what that response
// lacks, also if changes were being written when it was requested (OAI-PMH 2.0, 2.7.1).
func TestResponseDateOfBusyCatalog(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.put(baseURL+"/one", "text/plain", "1")
	w.mark(listURI)
	w.ask("verb=ListRecords&metadataPrefix=oai_dc")
	busy := &busyCatalog{Catalog: w.catalog}
	w.catalog = busy
	w.restart()
	w.pass(time.Hour)
	busy.before = func() {
		w.put(baseURL+"/two", "text/plain", "2")
		w.pass(2 * time.Second)
	}
	first := w.ask("verb=ListRecords&metadataPrefix=oai_dc")
	w.mark(listURI)
	w.pass(time.Hour)
	second := w.ask("verb=ListRecords&metadataPrefix=oai_dc&from=" + first.ResponseDate)
	if len(first.Records)+len(second.Records) < 2 {
		t.Errorf("%d records at %s, and %d from then on: one is in neither", len(first.Records), first.ResponseDate, len(second.Records))
	}
}
