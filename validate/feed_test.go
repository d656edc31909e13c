package validate_test

import (
	"testing"
)

// TestGoodFeed: a feed without a fault has no findings, wherever one begins.
func TestGoodFeed(t *testing.T) {
	t.Parallel()
	for start, documents := range map[string]int{
		"pmh/feed.atom": 3, "pmh/archive-1.atom": 3, "pmh/archive-2.atom": 3, ".well-known/resourcesync": 6, "rs/maps/resourcelist.xml": 6,
	} {
		r := (&fault{start: start, site: readSite(t, "feeds")}).check(t)
		for _, f := range r.Findings {
			t.Errorf("from %s: %s", start, f)
		}
		if r.Documents != documents || r.Links != 3 || r.Unseen != 0 {
			t.Errorf("from %s: %+v", start, *r)
		}
	}
	r := (&fault{start: "pmh/archive-2.atom", alone: true, site: readSite(t, "feeds")}).check(t)
	if r.Documents != 1 || r.Links != 0 || len(r.Findings) != 0 {
		t.Errorf("alone: %+v", *r)
	}
}

// TestGoodRepository: a repository without a fault has no findings.
func TestGoodRepository(t *testing.T) {
	t.Parallel()
	r := (&fault{rule: "OAI", start: "oai", site: readSite(t, "repository")}).check(t)
	for _, f := range r.Findings {
		t.Error(f)
	}
	if r.Documents != 13 || r.Entries != 5 {
		t.Errorf("%+v", *r)
	}
}
