package atompmh_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/atompmh"
)

// Documents in the shapes of the examples of the draft, with their liberties:
// no authors, no self, the entry before its feed's data, two alternates of one
// type, an entry later than its feed (AP-AMB-09).
var draft = map[string]struct {
	doc   string
	feed  atompmh.Feed
	kinds []atompmh.Kind
	links []int // alternates of each entry
	rules []string
}{
	"subscription document": {`<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom">
	<link rel="current" href="http://example.org/feed/archived"/>
	<link rel="prev-archive" href="http://example.org/archived/3"/>
	<updated>2012-11-01T14:00:00Z</updated><id>urn:uuid:f</id><title>One</title>
	<entry>
		<title>Alpha</title>
		<id>urn:uuid:a</id>
		<updated>2012-11-01T07:00:00Z</updated>
		<link rel="alternate" type="application/atom+xml" href="http://example.org/entry/1"/>
	</entry>
</feed>
`, atompmh.Feed{Title: "One", Current: "http://example.org/feed/archived", PrevArchive: "http://example.org/archived/3"},
		[]atompmh.Kind{atompmh.Active}, []int{1}, []string{"AP-DOC-02"}},
	"archive document": {`<feed xmlns="http://www.w3.org/2005/Atom" xmlns:fh="http://purl.org/syndication/history/1.0">
	<link rel="current" href="http://example.org/feed/archived"/>
	<link rel="next-archive" href="http://example.org/archived/3"/>
	<link rel="self" href="http://example.org/archived/2"/>
	<link rel="prev-archive" href="http://example.org/archived/1"/>
	<updated>2012-11-01T14:00:00Z</updated><id>urn:uuid:f</id><title>One</title>
	<fh:archive/>
	<entry>
		<title>Gamma</title><id>urn:uuid:c</id><updated>2012-11-01T14:00:00Z</updated>
		<link type="application/atom+xml" href="http://example.org/entry/3.atom"/>
		<link type="application/atom+xml" href="http://example.org/entry/3"/>
	</entry>
</feed>`, atompmh.Feed{Title: "One", Current: "http://example.org/feed/archived", NextArchive: "http://example.org/archived/3",
		Self: "http://example.org/archived/2", PrevArchive: "http://example.org/archived/1", Archive: true},
		[]atompmh.Kind{atompmh.Active}, []int{2}, []string{"AP-DOC-07", "AP-DOC-02"}},
	"deletion": {`<feed xmlns="http://www.w3.org/2005/Atom" xmlns:fh="http://purl.org/syndication/history/1.0">
	<updated>2012-11-01T14:00:00Z</updated><id>urn:uuid:f</id><title>Two</title>
	<entry>
		<title>Alpha (deleted)</title><id>urn:uuid:a</id><updated>2012-11-01T13:00:00Z</updated>
		<content/>
	</entry>
</feed>`, atompmh.Feed{Title: "Two"}, []atompmh.Kind{atompmh.Deletion}, []int{0}, []string{"AP-DOC-02"}},
	"complete": {`<feed xmlns="http://www.w3.org/2005/Atom" xmlns:fh="http://purl.org/syndication/history/1.0">
	<updated>2012-11-01T14:00:00Z</updated><id>urn:uuid:f</id><title>Three</title>
	<link rel="self" href="http://example.org/feed/complete"/>
	<fh:complete/>
	<entry>
		<title>Beta</title><id>urn:uuid:b</id><updated>2012-10-31T12:35:52Z</updated>
		<link type="application/atom+xml" href="http://example.org/entry/2"/>
	</entry>
	<entry>
		<title>Delta</title><id>urn:uuid:d</id><updated>2011-12-10T18:30:02Z</updated>
		<link rel="alternate" type="application/atom+xml" href="http://example.org/entry/4.atom"/>
		<link rel="alternate" type="application/rifcs+xml" href="http://example.org/entry/4.rifcs"/>
		<link rel="alternate" type="application/rdf+xml" href="http://example.org/entry/4.rdf"/>
		<link rel="alternate" type="application/xhtml+xml" href="http://example.org/entry/4.html"/>
	</entry>
</feed>`, atompmh.Feed{Title: "Three", Self: "http://example.org/feed/complete", Complete: true},
		[]atompmh.Kind{atompmh.Active, atompmh.Active}, []int{1, 4}, []string{"AP-DOC-02"}},
	"update": {`<feed xmlns="http://www.w3.org/2005/Atom" xmlns:fh="http://purl.org/syndication/history/1.0">
	<updated>2012-11-01T14:00:00Z</updated><id>urn:uuid:f</id><title>Five</title>
	<entry>
		<title>Beta</title><id>urn:uuid:b</id><updated>2012-10-31T12:35:52Z</updated>
		<link type="application/atom+xml" href="http://example.org/entry/2"/>
	</entry>
	<entry>
		<title>Beta</title><id>urn:uuid:b</id><updated>2012-11-02T07:30:00Z</updated>
		<link type="application/atom+xml" href="http://example.org/entry/2"/>
	</entry>
</feed>`, atompmh.Feed{Title: "Five"}, []atompmh.Kind{atompmh.Active, atompmh.Active}, []int{1, 1}, []string{"AP-TS-01", "AP-DOC-02"}},
}

func TestDraft(t *testing.T) {
	t.Parallel()
	for name, tt := range draft {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := readString(t, tt.doc)
			tt.feed.ID, tt.feed.Updated = "urn:uuid:f", time.Date(2012, 11, 1, 14, 0, 0, 0, time.UTC)
			if diff := cmp.Diff(tt.feed, got.feed); diff != "" {
				t.Error(diff)
			}
			var kinds []atompmh.Kind
			var links []int
			for _, e := range got.entries {
				kinds, links = append(kinds, e.Kind), append(links, len(e.Alternates()))
			}
			if !slices.Equal(kinds, tt.kinds) || !slices.Equal(links, tt.links) || !slices.Equal(got.rules, tt.rules) {
				t.Errorf("kinds %v, alternates %v, warnings %v", kinds, links, got.rules)
			}
		})
	}
}

// A record in Atom, an entry document whose updated is not that of the entry
// that led to it, is told apart from a feed by whoever follows a wrong link.
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
