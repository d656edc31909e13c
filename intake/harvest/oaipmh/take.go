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

// How much is told to the catalog at once.
const (
	harvestBatch      = 4000    // records
	harvestBatchBytes = 8 << 20 // of metadata
)

// made is what a record comes to.
type made struct {
	update  catalog.Update
	content intake.Content // with Bytes, if it is to be kept
	changed bool           // another version may be kept
	count   int64          // 1 if it is a resource
	skip    error          // it is none by rule, or
	bad     error          // could not be read
	name    string         // for these two
}

// describe makes of records what the catalog is told of them.
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

// make makes of a record what the catalog is told of it.
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
	_, _ = sum.Write(rec.Metadata) // takes everything
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
	if !known || other || v.anew {
		m.content, m.changed = content, known && other
	}
	return m, nil
}

// stay has m leave the resource as it is, if there is one, but for that it was
// listed.
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

// versionOf names a version by its hash, as Contents does.
func versionOf(hs resourcesync.Hashes) string {
	return hex.EncodeToString([]byte(hs.Get(resourcesync.SHA256)))
}

// maxRecordSets is how many sets of a record are told of: entries that have more
// links Destinations would cut.
const maxRecordSets = entry.MaxLinks / 2

// links tells where a record belongs: to its sets, the repository and the format;
// and by which identifier, where that is a URI.
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

// profileOK reports whether a namespace can be linked to. Mostly it is that of the
// record before.
func (v *harvest) profileOK(namespace string) bool {
	if namespace != v.profile.name {
		v.profile.name, v.profile.ok = namespace, entry.CheckURI(namespace) == nil
	}
	return v.profile.ok
}

// take takes in what comes, until the list is at its end, which it reports, or the
// stretch is used up: one batch is told while the next is gathered.
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

// gather makes batches of what comes, as take wants them.
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

// A batch is what waits to be told to the catalog, all at once.
type batch struct {
	updates  []catalog.Update
	contents []intake.Content // to be put
	changed  []intake.Content // of these, what has other versions
	gone     map[string]bool  // to be dropped
	bytes    int
	reached  *progress // when all of it was told
	lacking  bool      // by then something could not be read
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

// drop notes that nothing is to be kept of a resource.
func (b *batch) drop(uri string) {
	if b.gone == nil {
		b.gone = make(map[string]bool)
	}
	b.gone[uri] = true
}

// flush tells what b has, contents first, and then keeps how far that was.
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

// announce keeps that a harvest is under way, before the set is changed for the
// first time: from then on it may be ahead of what is kept.
func (v *harvest) announce(ctx context.Context) error {
	if v.begun {
		return nil
	}
	v.begun = true
	return v.h.save(ctx)
}

// apply tells contents and catalog. What is gone goes from the contents first, so
// that nothing is left there of which nobody knows.
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

// deleteAbsent deletes the resources that the last full harvest did not list, if
// that may be.
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
