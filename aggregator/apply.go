package aggregator

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lockstep/catalog"
	"lockstep/destination"
	"lockstep/intake"
	"lockstep/resourcesync"
)

// How many rows are looked up and applied in one transaction: of a batch of the
// Destination, and by a comparison.
const (
	deliverRows = 2048
	batchRows   = 512
)

// deliver receives the changes of a batch of the Destination. The rows are looked up:
// what the catalog gets is the present state of the mirror, whatever the batch was.
func (u *Upstream) deliver(ctx context.Context, batch []destination.Change) (err error) {
	u.applying.Lock()
	defer u.applying.Unlock()
	t := u.tally
	if t == nil {
		t = &intake.Tally{Reporter: &u.events, Start: time.Now()}
	}
	for part := range slices.Chunk(batch, deliverRows) {
		touched := make(map[string]touch, len(part))
		for i := range part {
			touched[part[i].URI] = touch{} // delivered again after a crash, even what was created has a record
		}
		if err = u.apply(ctx, touched, u.tally == nil, t); err != nil {
			break
		}
	}
	if r := t.Report(); (err != nil || r.Changed()) && u.tally == nil && u.changed != nil {
		u.changed(r)
	}
	return err
}

// maxNamed is how many refused resources of a batch are named.
const maxNamed = 5

// A touch is a resource whose record may have to change.
type touch struct {
	isNew bool // it has no record
}

// apply brings the records of resources in step with the rows of the Journal. Resources
// to which they have links are included. Refused resources are reported if report is
// set. The caller holds applying.
func (u *Upstream) apply(ctx context.Context, touched map[string]touch, report bool, t *intake.Tally) error {
	u.wake(touched)
	rows, err := u.lookup(ctx, touched)
	if err != nil {
		return err
	}
	found, err := u.translate.all(ctx, rows)
	if err != nil {
		return err
	}
	var puts, drops []catalog.Update
	taken := make(map[string]bool, len(found))
	refused := 0
	for i := range found {
		f := &found[i]
		switch {
		case rows[i].URI == "":
			continue
		case f.kept:
			delete(touched, rows[i].URI)
			continue
		case f.refused != nil:
			if refused++; report && refused <= maxNamed {
				t.Unreadable(rows[i].URI, fmt.Errorf("not republished: %w", f.refused))
			}
			touched[rows[i].URI] = touch{}
			continue
		}
		taken[f.URI] = true
		u.await(rows[i].URI, f)
		if err := u.setLastmod(ctx, f, touched[rows[i].URI].isNew); err != nil {
			return err
		}
		puts = append(puts, catalog.Update{Record: f.Record})
		delete(touched, rows[i].URI)
	}
	if report && refused > maxNamed {
		t.Unreadable(u.o.Address, fmt.Errorf("not republished: %s", more(refused-maxNamed)))
	}
	names, err := u.translate.names(ctx)
	if err != nil {
		return err
	}
	linked := make(map[string]bool) // own URIs that those have links to that are deleted
	lonely := false                 // one of these has none
	for uri := range touched {
		own, _, err := names.own(uri)
		if err != nil || taken[own] { // what cannot be named was never republished
			continue
		}
		old, ok, err := catalog.Find(ctx, u.catalog, u.set, own)
		if err != nil {
			return err
		}
		if name, was, _ := parseToken(old.Token); ok && name == u.o.Name && was == uri {
			drops = append(drops, catalog.Update{Record: catalog.Record{URI: own}, Deleted: true})
			alone := true
			for i := range old.Links {
				if l := &old.Links[i]; isRelation(l.Rel) && l.Href != u.o.Collection {
					alone = false
					if !taken[l.Href] {
						linked[l.Href] = true
					}
				}
			}
			lonely = lonely || alone
		}
	}
	if len(puts)+len(drops) == 0 {
		return catchUp(ctx, u.catalog) // they may have come before a write that failed
	}
	a, err := u.catalog.Apply(ctx, u.set, append(puts, drops...))
	if err != nil {
		return err
	}
	t.Applied(a)
	u.progress.applied(int64(a.Created), int64(a.Updated), int64(a.Deleted))
	if lonely && u.translate.hasTargets.Load() {
		u.stale.mark()
	}
	return u.unlink(ctx, linked, t)
}

// wake adds the resources that have waited for others that have come.
func (u *Upstream) wake(touched map[string]touch) {
	var woken []string
	for uri := range touched {
		woken = append(woken, u.waiting.take(uri)...)
	}
	for _, uri := range woken {
		if _, ok := touched[uri]; !ok {
			touched[uri] = touch{}
		}
	}
}

// await has a resource wait for those that its links lead to.
func (u *Upstream) await(uri string, f *translated) {
	for _, to := range f.missing {
		u.waiting.add(uri, to)
	}
}

// unlink applies the rows of resources again to which deleted resources had links: they
// may have had links back.
func (u *Upstream) unlink(ctx context.Context, linked map[string]bool, t *intake.Tally) error {
	var uris []string
	for own := range linked {
		old, ok, err := catalog.Find(ctx, u.catalog, u.set, own)
		if err != nil {
			return err
		}
		if name, uri, _ := parseToken(old.Token); ok && name == u.o.Name {
			uris = append(uris, uri)
		}
	}
	if len(uris) == 0 {
		return nil
	}
	slices.Sort(uris)
	rows, err := u.mirror.Journal.Lookup(ctx, uris)
	if err != nil {
		return err
	}
	again := make(map[string]touch)
	for i := range rows {
		if rows[i].URI != "" { // else its own deletion is delivered, too
			again[rows[i].URI] = touch{}
		}
	}
	if len(again) == 0 {
		return nil
	}
	return u.apply(ctx, again, false, t)
}

// lookup returns the rows of resources, and of those to which they have links: whether
// these are republished decides about links in both directions.
func (u *Upstream) lookup(ctx context.Context, touched map[string]touch) (rows []held, err error) {
	uris := make([]string, 0, len(touched))
	for uri := range touched {
		uris = append(uris, uri)
	}
	slices.Sort(uris)
	if rows, err = u.mirror.Journal.Lookup(ctx, uris); err != nil || u.o.InPlace {
		return rows, err
	}
	var more []string
	for i := range rows {
		for _, uri := range related(&rows[i]) {
			if _, ok := touched[uri]; !ok {
				more = append(more, uri)
			}
		}
	}
	if len(more) == 0 {
		return rows, nil
	}
	slices.Sort(more)
	others, err := u.mirror.Journal.Lookup(ctx, slices.Compact(more))
	return append(rows, others...), err
}

// setLastmod sets the time at which a resource changed here: it remains while the content
// is the same (RS-REL-73), unless the content was replaced and came back before it was
// mirrored: a time before that of the origin would make this Source the origin (RS-REL-72).
func (u *Upstream) setLastmod(ctx context.Context, f *translated, isNew bool) error {
	f.Lastmod = time.Now().UTC().Truncate(time.Microsecond)
	if isNew {
		return nil
	}
	old, ok, err := catalog.Find(ctx, u.catalog, u.set, f.URI)
	if err == nil && ok && old.Length == f.Length && sameHashes(old.Hashes, f.Hashes) && !old.Lastmod.IsZero() && !modifiedAfter(f.Links, old.Lastmod) {
		f.Lastmod = old.Lastmod
	}
	return err
}

// modifiedAfter reports whether a Source that a resource has passed modified it after t.
func modifiedAfter(links []resourcesync.Link, t time.Time) bool {
	return slices.ContainsFunc(links, func(l resourcesync.Link) bool {
		return l.Rel == relVia && !l.Modified.IsZero() && l.Modified.Time().After(t)
	})
}
