package source

import (
	"cmp"
	"errors"
	"fmt"

	"lockstep/source/internal/atom"
	"lockstep/source/internal/names"
)

// An Atom says how a set's Atom-PMH feed is cut and what it says of itself
// (AP-GEN-03). The feed is read off the catalog: one entry for each record, which
// is a resource with its alternate representations.
type Atom struct {
	Entries  int    // of one archive document; default 1,000
	Complete bool   // one document with all there is, which says so; no deletions, no archives (AP-DEL-03)
	ID       string // of the feed, an absolute IRI, for good; default made of its address
	Title    string // default that of the set
	Author   string // default the host of the base URL
}

// checkAtom rejects feeds that contradict themselves, or that no document can
// state.
func checkAtom(base names.Base, set *Set) error {
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
	if err := atom.Check(base, set.feed()); err != nil {
		return fmt.Errorf("atom feed: %w", err)
	}
	return nil
}

// feed returns the options of the set's feed.
func (set *Set) feed() *atom.Set {
	a := set.Atom
	return &atom.Set{Name: set.Name, ID: a.ID, Title: cmp.Or(a.Title, set.Title), Author: a.Author, Entries: a.Entries, Complete: a.Complete}
}

// AtomFeedURI returns the URI of the subscription document of the set's
// Atom-PMH feed below baseURL.
func AtomFeedURI(baseURL, set string) (string, error) {
	if _, err := CapabilityListURI(baseURL, set); err != nil {
		return "", err
	}
	base, err := names.ParseBase(baseURL)
	return base.URI(names.Feed(set).Document()), err
}
