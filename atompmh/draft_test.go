package atompmh_test

import (
	"strings"
	"testing"

	"lockstep/atompmh"
)

// A record in Atom, an entry document whose updated differs from that of the
// entry that links to it, is distinguished from a feed when a client follows a
// wrong link.
func TestDraftRecord(t *testing.T) {
	t.Parallel()
	_, err := read(strings.NewReader(`<?xml version="1.0" encoding="utf-8"?>
<entry xmlns="http://www.w3.org/2005/Atom"><id>urn:uuid:a</id><title type="text">Crocodiles</title>
<updated>2012-10-30T07:00:00Z</updated><link rel="self" href="http://example.org/entry/1"/></entry>`), atompmh.ReaderOptions{})
	const want = "line 2, column 44: this is no Atom feed, but an Atom entry document"
	if err == nil || err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
}
