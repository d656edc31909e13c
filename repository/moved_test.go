package repository_test

import (
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/resourcesync"
)

func recordLink(id string) resourcesync.Link {
	return resourcesync.Link{Rel: catalog.RelRecord, Href: id}
}

// A resource that had an identifier before another one does not take the record of that
// one with it when it is there again.
func TestFormerOwner(t *testing.T) {
	t.Parallel()
	const id = "oai:example.org:1"
	for _, links := range [][]resourcesync.Link{nil, {recordLink("oai:example.org:2")}, {recordLink(id)}} {
		w := newWorld(t, nil)
		w.put("https://example.org/old", "", "1", recordLink(id))
		w.ask("verb=Identify")
		w.pass(time.Minute)
		w.remove("https://example.org/old")
		w.put("https://example.org/new", "", "2", recordLink(id))
		wantIDs(t, []*response{w.ask("verb=GetRecord&metadataPrefix=oai_dc&identifier=" + id)}, id)
		for range 2 {
			w.pass(time.Minute)
			w.put("https://example.org/old", "", w.now.String(), links...)
			wantIDs(t, []*response{w.ask("verb=GetRecord&metadataPrefix=oai_dc&identifier=" + id)}, id)
			w.pass(time.Minute)
			w.remove("https://example.org/old")
			wantIDs(t, []*response{w.ask("verb=GetRecord&metadataPrefix=oai_dc&identifier=" + id)}, id)
		}
	}
}
