package atom

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"

	"lockstep/atompmh"
	"lockstep/blob"
	"lockstep/resourcesync"
	"lockstep/source/internal/document"
	"lockstep/source/internal/names"
)

// grow adds the next changes to the feed: their entries are added to the subscription
// document, and if it then has more than it may, the oldest entries are moved to
// archives (AP-TS-12).
func (a *update) grow(ctx context.Context) error {
	cur := a.st.Current
	next := *cur
	next.Title, next.Author, next.Stamp = a.want.Title, a.want.Author, a.docs.After(cur.Stamp)
	added, grouped, err := a.collect(ctx, &next)
	if err != nil {
		return err
	}
	if len(grouped) > 0 && next.Groups == "" {
		next.Groups = next.Chain
	}
	named := cur.Title != next.Title || cur.Author != next.Author
	if len(added) == 0 && len(grouped) == 0 && !named { // the changes cancel each other out
		a.st.Current = &next
		return a.feeds.plan(ctx, a.set.Name, a.st, &next, nil)
	}
	var doc atompmh.Feed
	var entries []atompmh.Entry
	for e, err := range a.feeds.readDocument(ctx, names.Feed(a.set.Name).Document(), cur.ID, &doc) {
		if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	sort.SliceStable(entries, func(i, j int) bool { return entries[i].Updated.Before(entries[j].Updated) })
	if len(added) > 0 {
		clock := newClock(cur.Last, added[len(added)-1].event, a.docs.Now(), int64(len(added)))
		for i := range slices.Backward(added) {
			added[i].Updated = millis(clock.next(added[i].event))
		}
		next.Last = clock.top
	}
	for i := range added {
		entries = append(entries, added[i].Entry)
	}
	next.Entries += int64(len(added))
	return a.cut(ctx, &next, entries, grouped)
}

// cut writes entries, which are in the order of time, as the subscription document and
// the archives split off it, and publishes them as the feed.
func (a *update) cut(ctx context.Context, next *feed, entries []atompmh.Entry, grouped groupMap) error {
	var cut []blob.Writer
	defer func() {
		for _, w := range cut {
			_ = w.Close() // does nothing where it was committed
		}
	}()
	for len(entries) > a.limit {
		n := a.limit
		for n < len(entries)-1 && n < 2*a.limit && entries[n].Updated.Equal(entries[n-1].Updated) {
			n++
		}
		next.Number++
		name, succ := names.Feed(a.set.Name).Archive(next.Chain, next.Number), ""
		if len(entries)-n > a.limit { // else that is under construction
			succ = names.Feed(a.set.Name).Archive(next.Chain, next.Number+1)
		}
		d, err := a.write(ctx, next, name, next.Newest, succ, entries[:n])
		if err != nil {
			return err
		}
		cut = append(cut, d.blob)
		if err := document.SealParts(cut); err != nil {
			return err
		}
		next.Newest, entries = name, entries[n:]
		next.Archives++
	}
	d, err := a.write(ctx, next, names.Feed(a.set.Name).Document(), next.Newest, "", entries)
	if err != nil {
		return err
	}
	defer d.discard() // does nothing where it was committed
	return a.switchTo(ctx, next, d, cut, grouped)
}

// write writes a document with the entries, the newest first, as readers of feeds
// expect.
func (a *update) write(ctx context.Context, next *feed, name, prev, succ string, entries []atompmh.Entry) (*openDocument, error) {
	updated := next.Last // AP-TS-13: of the archive before it, if it is empty
	if len(entries) > 0 {
		updated = entries[len(entries)-1].Updated.UnixMilli()
	}
	if updated == noTime {
		updated = a.status.Kept.At.UnixMilli()
	}
	d, err := a.document(ctx, next, name, prev, succ, updated)
	if err != nil {
		return nil, err
	}
	for i := range slices.Backward(entries) {
		if err := d.Write(&entries[i]); err != nil {
			d.discard()
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := d.Close(); err != nil {
		d.discard()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return d, nil
}

// collect returns the entries that the next changes call for, in the order of
// these, one at most for each record, and what they change of which resources
// belong together. It moves next.Through.
func (a *update) collect(ctx context.Context, next *feed) ([]pendingEntry, groupMap, error) {
	changes := make(map[string]*pendingChange)
	n := 0
	for c, err := range a.catalog.Changes(ctx, a.docs.CapabilityList(a.set.Name), next.Through) {
		if err != nil {
			return nil, nil, fmt.Errorf("read catalog: %w", err)
		}
		if c.Seq > a.status.Last { // it came while this publishes
			break
		}
		next.Through, next.ThroughTime = c.Seq, c.EventTime
		if p := changes[c.URI]; p != nil {
			p.Change = c
		} else {
			changes[c.URI] = &pendingChange{c, c.Change == resourcesync.Created && c.Seq > next.Seen}
		}
		if n++; n == sliceChanges {
			break
		}
	}
	if n == 0 && a.status.Last > next.Through {
		return nil, nil, fmt.Errorf("read catalog: change %d is not in it", next.Through+1)
	}
	g := &gathering{update: a, changes: changes, view: newView(a.docs, a.catalog, &a.set), entries: make(map[string]*pendingEntry), through: *next,
		groups: &groupCache{feeds: a.feeds, set: a.set.Name, chain: next.Groups, none: next.Groups == ""}}
	grouped, err := g.run(ctx)
	if err != nil {
		return nil, nil, err
	}
	added := make([]pendingEntry, 0, len(g.entries))
	for _, e := range g.entries {
		added = append(added, *e)
	}
	sort.SliceStable(added, func(i, j int) bool {
		return cmp.Or(cmp.Compare(added[i].seq, added[j].seq), cmp.Compare(added[i].ID, added[j].ID)) < 0
	})
	return added, grouped, nil
}
