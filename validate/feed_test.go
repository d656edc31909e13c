package validate_test

import (
	"errors"
	"strings"
	"testing"

	"lockstep/validate"
)

// TestGoodFeed: a valid feed has no findings, from any starting document.
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

// TestGoodRepository: a valid repository has no findings.
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

// TestNoSuchRecords: the format and set in the address must exist.
func TestNoSuchRecords(t *testing.T) {
	t.Parallel()
	for query, says := range map[string]string{"?metadataPrefix=marc21": "format marc21 is not there; there are: oai_dc", "?set=atlas": "set atlas is not there"} {
		s := readSite(t, "repository")
		s.texts["oai?verb=ListRecords&metadataPrefix=oai_dc&set=atlas"] = strings.NewReplacer(
			` metadataPrefix="oai_dc" from="2999-01-01"`, ` metadataPrefix="oai_dc" set="atlas"`, `verb="ListIdentifiers"`, `verb="ListRecords"`,
		).Replace(s.texts["oai?verb=ListIdentifiers&metadataPrefix=oai_dc&from=2999-01-01"])
		r, err := validate.Repository(t.Context(), s.open, base+"oai"+query, validate.Options{TempDir: t.TempDir()})
		if !errors.Is(err, validate.ErrNoSuch) || !strings.Contains(err.Error(), says) || len(r.Findings) != 0 {
			t.Errorf("%s: %v, %v, want %q", query, r.Findings, err, says)
		}
	}
}
