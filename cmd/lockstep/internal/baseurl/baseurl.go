// Package baseurl keeps the resources of a Source when its base URL changes.
//
// The catalog identifies a set by the URI of its Capability List, which changes
// with the base URL. A directory can be scanned again; but applications would
// never send again what they reported, nor a stream what was read from it. So the
// URI of each set is recorded, and when it changes, the set's resources are moved
// to the new one.
package baseurl

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"

	"lockstep/catalog"
	"lockstep/internal/statedir"
	"lockstep/resourcesync"
)

// setsNote is the record, a note of the state: a JSON object of names of sets
// and URIs.
const setsNote = "sets.json"

// moveBatch is how many resources are moved at once.
const moveBatch = 1000

// A Set is one of the Source's sets.
type Set struct {
	Name string
	List string // URI of its Capability List
	Away bool   // its origin cannot be scanned again
}

// Move moves the resources of sets whose URIs have changed since the state
// was last used. versioned reports whether the set with a URI keeps prior versions, or
// kept some, to which its links lead.
func Move(ctx context.Context, notes statedir.Notes, sets []Set, cat catalog.Catalog, versioned func(list string) bool, log *slog.Logger) error {
	known := map[string]string{}
	if err := statedir.ReadJSON(notes, setsNote, &known); err != nil {
		return err
	}
	changed := false
	for _, set := range sets {
		old := known[set.Name]
		if old == set.List {
			continue
		}
		if old != "" && set.Away {
			n, err := moveSet(ctx, cat, old, set.List, versioned(old))
			if err != nil {
				return fmt.Errorf("take over what set %s held as %s: %w", set.Name, old, err)
			}
			log.InfoContext(ctx, "took over a set from another base URL", slog.String("set", set.Name), slog.Int("entries", n))
		}
		known[set.Name], changed = set.List, true
	}
	if !changed {
		return nil
	}
	return statedir.WriteJSON(notes, setsNote, known)
}

// IsRecorded reports whether a set of this name was published from the state.
func IsRecorded(notes statedir.Notes, set string) (bool, error) {
	known := map[string]string{}
	err := statedir.ReadJSON(notes, setsNote, &known)
	return known[set] != "", err
}

// moveSet makes the set to contain the resources of the set from, and returns
// how many resources that changed. versioned: from kept versions, to which its links
// lead. It may be repeated.
func moveSet(ctx context.Context, cat catalog.Catalog, from, to string, versioned bool) (n int, err error) {
	next, stop := iter.Pull2(cat.Resources(ctx, to, catalog.Range{}))
	defer stop()
	have, err, more := next()
	var batch []catalog.Update
	put := func(u catalog.Update) error {
		n++
		if batch = append(batch, u); len(batch) < moveBatch {
			return nil
		}
		_, err := cat.Apply(ctx, to, batch)
		batch = nil // the catalog may keep it
		return err
	}
	gone := func(before string) error { // deletes the resources below that URI that to has and from has not
		for err == nil && more && (before == "" || have.URI < before) {
			if err := put(catalog.Update{Record: catalog.Record{URI: have.URI}, Deleted: true}); err != nil {
				return err
			}
			have, err, more = next()
		}
		if err == nil && more && have.URI == before {
			have, err, more = next()
		}
		return err
	}
	for r, err := range cat.Resources(ctx, from, catalog.Range{}) {
		if err == nil {
			err = gone(r.URI)
		}
		if err == nil {
			// Patches belong to past changes; our versions to the old base URL.
			r.Links = slices.DeleteFunc(r.Links, func(l resourcesync.Link) bool {
				return l.Rel == resourcesync.RelPatch || versioned && l.Rel == resourcesync.RelMemento
			})
			err = put(catalog.Update{Record: r})
		}
		if err != nil {
			return n, err
		}
	}
	if err := gone(""); err != nil {
		return n, err
	}
	if len(batch) > 0 {
		_, err = cat.Apply(ctx, to, batch)
	}
	return n, err
}
