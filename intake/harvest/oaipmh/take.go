package oaipmh

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/internal/entry"
	"lockstep/internal/fetch"
	"lockstep/oaipmh"
	"lockstep/resourcesync"
)

// Limits of a batch that is applied to the catalog.
const (
	harvestBatch      = 4000    // records
	harvestBatchBytes = 8 << 20 // bytes of metadata
)

// made is the result of processing a record.
type made struct {
	update  catalog.Update
	content intake.Content // with Bytes, if it is to be stored
	changed bool           // another version may be stored
	count   int64          // 1 if it is a resource
	skip    error          // why it is not a resource according to the rules
	bad     error          // why it could not be read
	name    string         // for messages about skip and bad
}

// describe converts the records of pages to catalog updates.
func (v *harvest) describe(ctx context.Context, pages <-chan *piece, ready chan<- *piece) error {
	sum := resourcesync.NewHasher(v.h.algs...)
	for at := range pages {
		at.made = make([]made, 0, len(at.records))
		for i := range at.records {
			m, err := v.make(ctx, &at.records[i], sum)
			if err != nil {
				return err
			}
			at.made = append(at.made, m)
		}
		select {
		case ready <- at:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// make converts a record to a catalog update.
func (v *harvest) make(ctx context.Context, rec *oaipmh.Record, sum *resourcesync.Hasher) (made, error) {
	if rec.Identifier == "" {
		return made{name: v.h.base, bad: errors.New("a record without identifier")}, nil
	}
	if len(v.lost) > 0 {
		delete(v.lost, rec.Identifier)
	}
	m := made{name: fetch.Printable(rec.Identifier)}
	v.future.Note(rec.Identifier, rec.Datestamp)
	uri := v.h.o.URI(rec.Identifier)
	switch err := entry.CheckURI(uri); {
	case uri == "":
		m.skip = errors.New("its identifier is too long for the name of a file")
		return m, nil
	case err != nil:
		m.skip = fmt.Errorf("its URI %w", err)
		return m, nil
	case rec.Deleted:
		m.update = catalog.Update{Record: catalog.Record{URI: uri}, Deleted: true}
		return m, nil
	case rec.Metadata == nil:
		m.skip = fmt.Errorf("it has no metadata in the format %s", v.h.o.Prefix)
		return m, v.stay(ctx, uri, &m)
	}
	sum.Reset()
	_, _ = sum.Write(rec.Metadata) // never fails
	m.count = 1
	m.update.Record = catalog.Record{
		URI: uri, Lastmod: rec.Datestamp, Length: int64(len(rec.Metadata)), Type: recordType, Hashes: sum.Sum(),
		Links: v.links(uri, rec), Token: v.tokenOf(),
	}
	if v.h.o.Contents == nil {
		return m, nil
	}
	content := intake.Content{URI: uri, Hash: versionOf(m.update.Hashes), Bytes: rec.Metadata}
	if v.fresh {
		m.content = content
		return m, nil
	}
	was, known, err := intake.Held(ctx, v.list.Catalog, v.list.Set, uri)
	if err != nil {
		return m, err
	}
	other := versionOf(was.Hashes) != content.Hash
	if !known || other || v.storeAll {
		m.content, m.changed = content, known && other
	}
	return m, nil
}

// stay makes m leave the resource unchanged, if there is one, except for the Token,
// which shows that it was listed.
func (v *harvest) stay(ctx context.Context, uri string, m *made) error {
	if v.fresh {
		return nil
	}
	was, known, err := intake.Held(ctx, v.list.Catalog, v.list.Set, uri)
	if err != nil || !known {
		return err
	}
	was.Token = v.tokenOf()
	m.update.Record, m.count = was, 1
	return nil
}

const recordType = "application/xml"

// versionOf returns the name of a version in Contents: its hash.
func versionOf(hs resourcesync.Hashes) string {
	return hex.EncodeToString([]byte(hs.Get(resourcesync.SHA256)))
}

// maxRecordSets is how many sets of a record are linked to: Destinations would truncate
// entries with more links.
const maxRecordSets = entry.MaxLinks / 2

// links returns links to the sets of a record, its address in the repository and its
// format, and to its identifier if that is a URI.
func (v *harvest) links(uri string, rec *oaipmh.Record) []resourcesync.Link {
	links := make([]resourcesync.Link, 0, 4)
	for _, s := range rec.Sets[:min(len(rec.Sets), maxRecordSets)] {
		links = append(links, resourcesync.Link{Rel: "collection", Href: oaipmh.URL(v.h.base, oaipmh.VerbListRecords, "metadataPrefix", v.h.o.Prefix, "set", s)})
	}
	if entry.CheckURI(rec.Identifier) == nil {
		links = append(links, resourcesync.Link{Rel: catalog.RelRecord, Href: rec.Identifier})
	}
	if via := oaipmh.RecordURL(v.h.base, v.h.o.Prefix, rec.Identifier); via != uri && entry.CheckURI(via) == nil {
		links = append(links, resourcesync.Link{Rel: "via", Href: via})
	}
	if v.profileOK(rec.Namespace) {
		links = append(links, resourcesync.Link{Rel: "profile", Href: rec.Namespace})
	}
	if len(rec.Sets) == 0 || entry.CheckListed(&resourcesync.Entry{Loc: "urn:x", Links: links}) == nil {
		return links
	}
	return slices.DeleteFunc(links, func(l resourcesync.Link) bool {
		return entry.CheckListed(&resourcesync.Entry{Loc: "urn:x", Links: []resourcesync.Link{l}}) != nil
	})
}

// profileOK reports whether a namespace can be linked to. It remembers the result for
// the last namespace, which most records share.
func (v *harvest) profileOK(namespace string) bool {
	if namespace != v.profile.name {
		v.profile.name, v.profile.ok = namespace, entry.CheckURI(namespace) == nil
	}
	return v.profile.ok
}

// take stores pieces until the list is at its end, which it reports as over, or the
// stretch is used up. One batch is stored while the next is gathered.
func (v *harvest) take(ctx context.Context, ready <-chan *piece) (over bool, err error) {
	batches := make(chan *batch)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		defer close(batches)
		over, err = v.gather(ctx, ready, batches)
		return err
	})
	g.Go(func() error {
		for b := range batches {
			if err := v.flush(ctx, b); err != nil {
				return err
			}
		}
		return nil
	})
	err = g.Wait()
	return over && err == nil, err
}

// gather collects pieces in batches, for take.
func (v *harvest) gather(ctx context.Context, ready <-chan *piece, batches chan<- *batch) (over bool, err error) {
	tick := time.NewTicker(intake.ApplyEvery)
	defer tick.Stop()
	for more := true; more; {
		b, due := &batch{}, false
		for more && !due {
			select {
			case at, ok := <-ready:
				if ok {
					v.addTo(b, at)
				}
				over = ok && at.over
				v.paused = ok && !over && at.end && v.used()
				more = ok && !over && !v.paused
				due = len(b.updates) >= harvestBatch || b.bytes >= harvestBatchBytes
			case <-tick.C:
				due = b.reached != nil || len(b.updates) > 0
			case <-ctx.Done():
				return false, ctx.Err()
			}
		}
		select {
		case batches <- b:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	return over, nil
}

// A batch is a group of changes that are stored together.
type batch struct {
	updates  []catalog.Update
	contents []intake.Content // to be put
	changed  []intake.Content // those of contents that have other versions
	gone     map[string]bool  // URIs of resources to be dropped from Contents
	bytes    int
	reached  *progress // progress once the batch is stored
	lacking  bool      // by then a part of the list could not be read
}

// addTo adds a piece to b.
func (v *harvest) addTo(b *batch, at *piece) {
	for _, p := range at.problems {
		v.list.Unreadable(p.Path, p.Err)
	}
	for i := range at.made {
		m := &at.made[i]
		v.taken++
		switch {
		case m.bad != nil:
			v.list.Illegible(m.name, m.bad)
			continue
		case m.skip != nil:
			if v.list.Skipped(m.name, m.skip); m.update.URI == "" {
				continue
			}
		case m.update.Deleted:
			b.drop(m.update.URI)
		case len(b.gone) > 0:
			delete(b.gone, m.update.URI)
		}
		v.list.Files.Add(m.count)
		v.list.Bytes.Add(max(m.update.Length, 0))
		b.updates = append(b.updates, m.update)
		if m.content.Bytes != nil {
			b.contents = append(b.contents, m.content)
			b.bytes += len(m.content.Bytes)
		}
		if m.changed {
			b.changed = append(b.changed, m.content)
		}
	}
	if at.end {
		run := at.run
		b.reached, b.lacking = &run, v.list.Incomplete.Load()
	}
}

// drop notes that all contents of a resource are to be dropped.
func (b *batch) drop(uri string) {
	if b.gone == nil {
		b.gone = make(map[string]bool)
	}
	b.gone[uri] = true
}

// flush stores b, contents first, and then saves the progress.
func (v *harvest) flush(ctx context.Context, b *batch) error {
	if len(b.updates) > 0 {
		if err := v.announce(ctx); err != nil {
			return err
		}
		if err := v.apply(ctx, b); err != nil {
			return err
		}
		v.dirty = true
	}
	if b.reached != nil {
		*v.at = *b.reached
		v.at.Incomplete = v.at.Incomplete || b.lacking
		v.h.memory.Coarse = v.h.memory.Coarse || v.at.Coarse
	}
	if len(b.updates) == 0 || b.reached == nil {
		return nil
	}
	return v.h.save(ctx)
}

// announce saves that a harvest is in progress, before it changes the set for the
// first time: from then on the set may be ahead of the saved progress.
func (v *harvest) announce(ctx context.Context) error {
	if v.begun {
		return nil
	}
	v.begun = true
	return v.h.save(ctx)
}

// apply stores a batch in the Contents and the catalog. Deleted records are dropped
// from the Contents first, so that no bytes stay there that the catalog does not list.
func (v *harvest) apply(ctx context.Context, b *batch) error {
	if c := v.h.o.Contents; c != nil {
		if len(b.contents) > 0 {
			if err := c.Put(ctx, v.list.Set, b.contents); err != nil {
				return err
			}
		}
		if len(b.gone) > 0 {
			if err := c.Drop(ctx, v.list.Set, slices.Sorted(maps.Keys(b.gone))); err != nil {
				return err
			}
		}
	}
	a, err := v.list.Catalog.Apply(ctx, v.list.Set, b.updates)
	if err != nil {
		return err
	}
	v.list.Applied(a)
	if len(b.changed) == 0 {
		return nil
	}
	return v.h.o.Contents.Settle(ctx, v.list.Set, b.changed)
}

// deleteAbsent deletes the resources that the last full harvest did not list, if so
// many may be deleted.
func (v *harvest) deleteAbsent(ctx context.Context) error {
	current := v.tokenOf()
	v.list.Files.Store(0)
	rows := intake.ReadRows(ctx, v.list.Catalog, v.list.Set, []catalog.Range{{}})
	defer rows.Stop()
	for ; rows.More(); rows.Next() {
		if rows.Row().Token == current {
			v.list.Files.Add(1)
			continue
		}
		if err := v.list.Gone.Add(rows.Row().URI); err != nil {
			return err
		}
	}
	if rows.Err != nil {
		return rows.Err
	}
	if v.list.Gone.Count == 0 {
		return nil
	}
	if err := v.list.MayDelete(ctx); err != nil {
		return err
	}
	v.h.memory.Doubtful = v.h.memory.Doubtful || v.list.Gone.Count > v.list.Files.Load()
	if err := v.announce(ctx); err != nil {
		return err
	}
	b := &batch{}
	for uri, err := range v.list.Gone.All() {
		if err != nil {
			return err
		}
		b.updates = append(b.updates, catalog.Update{Record: catalog.Record{URI: uri}, Deleted: true})
		b.drop(uri)
		if len(b.updates) == harvestBatch {
			if err := v.flush(ctx, b); err != nil {
				return err
			}
			b = &batch{}
		}
	}
	return v.flush(ctx, b)
}
