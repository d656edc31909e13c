package source

import (
	"errors"
	"fmt"
	"io"
	"time"

	"lockstep/atompmh"
	"lockstep/source/internal/names"
)

// An Atom says how a set's Atom-PMH feed is cut and what it says of itself
// (AP-GEN-03). The feed is read off the catalog: one entry for each record, which
// is a resource with its alternate representations.
type Atom struct {
	Entries  int    // of one archive document; default 1,000
	Complete bool   // one document with all there is, which says so; no deletions, no archives (AP-DEL-03)
	ID       string // of the feed, an absolute IRI, for good; default made of its address
	Title    string // default the set's name
	Author   string // default the host of the base URL
}

// defaultAtomEntries is how many entries an archive document holds: some
// hundred kilobytes, which is also what a harvester reads to find one change.
const defaultAtomEntries = 1000

// checkAtom refuses what cannot be meant.
func (s *Source) checkAtom(set *Set) error {
	a := set.Atom
	if a == nil {
		return nil
	}
	if a.Entries < 0 {
		return errors.New("atom feed: entries must not be below 0")
	}
	if a.Complete && a.Entries > 0 {
		return errors.New("atom feed: a complete feed is one document, whatever the number of entries")
	}
	f, _ := s.atomDefaults(set)
	_, err := atompmh.NewWriter(io.Discard, atompmh.Feed{ID: f.ID, Title: f.Title, Author: f.Author, Self: s.docs.Base.URI(names.Feed(set.Name)), Updated: time.Unix(0, 0)})
	if err != nil {
		return fmt.Errorf("atom feed: %w", err)
	}
	return nil
}

// AtomFeedURI returns the URI of the subscription document of the set's
// Atom-PMH feed below baseURL.
func AtomFeedURI(baseURL, set string) (string, error) {
	if _, err := CapabilityListURI(baseURL, set); err != nil {
		return "", err
	}
	base, err := names.ParseBase(baseURL)
	return base.URI(names.Feed(set)), err
}
