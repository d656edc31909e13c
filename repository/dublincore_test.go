package repository_test

import (
	"errors"
	"testing"
	"time"
)

// TestDublinCoreUnreadable: an item that is an oai_dc document is given unchanged or, while it
// cannot be read, not at all, also where it is indexed meanwhile: the description that is made
// of other resources does not replace it.
func TestDublinCoreUnreadable(t *testing.T) {
	t.Parallel()
	for _, changed := range []bool{false, true} {
		w := newWorld(t, nil)
		const dc = `<oai_dc:dc xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/" xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>The title</dc:title></oai_dc:dc>`
		w.put("https://example.org/1", "text/xml", dc)
		w.put("https://example.org/2", "text/plain", "x")
		list := "verb=ListRecords&metadataPrefix=oai_dc"
		w.ask(list)
		w.pass(time.Minute)
		w.fail("https://example.org/1", errors.New("status 503"))
		if changed {
			w.put("https://example.org/1", "text/xml", dc+"\n")
		}
		during := w.ask(list)
		wantIDs(t, []*response{during}, "https://example.org/2")
		w.fail("https://example.org/1", nil)
		w.pass(time.Hour)
		wantIDs(t, w.all(list+"&from="+during.ResponseDate), "https://example.org/1")
	}
}
