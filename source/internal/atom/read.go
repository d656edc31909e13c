package atom

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"lockstep/atompmh"
	"lockstep/catalog"
	"lockstep/internal/extsort"
	"lockstep/resourcesync"
)

// readCatalog hands every record there is to take, and its group to groups.
func (b *build) readCatalog(ctx context.Context, take func(*buildEntry) error) error {
	if b.compact {
		return nil
	}
	view := newView(b.docs, b.catalog, &b.set)
	for record, err := range b.catalog.Resources(ctx, b.docs.CapabilityList(b.set.Name), catalog.Range{}) {
		if err != nil {
			return fmt.Errorf("read catalog: %w", err)
		}
		b.next.Seen = max(b.next.Seen, record.Seq)
		r := view.represent(&record)
		main, id, members := "", atompmh.RecordID(r.uri), []*representation(nil)
		if !r.alone() {
			if main, id, members, err = view.place(ctx, r); err != nil {
				return err
			}
			if g := groupOf(r.uri, main, id, members); !g.plain() {
				if err := b.addGroup(r.uri, g); err != nil {
					return err
				}
				if g.ID != "" {
					if err := b.addGroup(ownersKey(g.ID), &group{Members: []string{r.uri}}); err != nil {
						return err
					}
				}
			}
		}
		if main != "" {
			continue
		}
		e := &buildEntry{fresh: true, seq: r.seq, at: r.event.UnixMicro()}
		for _, m := range members {
			if m.seq > e.seq {
				e.seq, e.at = m.seq, m.event.UnixMicro()
			}
		}
		if !view.active(&e.Entry, id, r, members) {
			b.result.Refused++
			continue
		}
		if err := take(e); err != nil {
			return err
		}
	}
	return nil
}

// addGroup takes what is to be remembered of a resource.
func (b *build) addGroup(uri string, g *group) error {
	data, err := json.Marshal(g)
	if err != nil {
		return err
	}
	key := binary.BigEndian.AppendUint16(nil, uint16(groupPart(uri)))
	return b.groups.Add(append(key, uri...), data)
}

// readDeletions hands what has been deleted to take, as far back as the catalog
// knows.
func (b *build) readDeletions(ctx context.Context, take func(*buildEntry) error) error {
	view := newView(b.docs, b.catalog, &b.set)
	for c, err := range b.catalog.Changes(ctx, b.docs.CapabilityList(b.set.Name), b.status.Kept.Seq) {
		if err != nil {
			return fmt.Errorf("read catalog: %w", err)
		}
		if c.Seq > b.status.Last {
			return nil
		}
		if c.Change != resourcesync.Deleted || !absoluteIRI(c.URI) {
			continue
		}
		e := &buildEntry{fresh: true, seq: c.Seq, at: c.EventTime.UnixMicro()}
		view.deletion(&e.Entry, atompmh.RecordID(c.URI), c.URI)
		if err := take(e); err != nil {
			return err
		}
	}
	return nil
}

// readChain adds the entries of the documents there are, the newest first, and
// reports whether those are all.
func (b *build) readChain(ctx context.Context, byID *extsort.Sorter) (whole bool, err error) {
	seen := make(map[string]bool)
	whole = true
	for name := b.from; name != "" && !seen[name]; {
		seen[name], err = true, nil
		var doc atompmh.Feed
		for e, failed := range b.feeds.readDocument(ctx, name, b.want.ID, &doc) {
			if err = failed; err != nil {
				break
			}
			b.last = max(b.last, e.Updated.UnixMilli())
			old := &buildEntry{Entry: e, at: e.Updated.UnixMilli()}
			if err = byID.Add(old.idKey(1), old.encode()); err != nil {
				return false, err
			}
		}
		if errors.Is(err, errLost) && name == b.from && b.spare != "" {
			name, b.spare, whole = b.spare, "", false
			continue
		}
		if errors.Is(err, errLost) {
			b.docs.Log.WarnContext(ctx, "documents of an atom feed are lost: entries that only they had are no longer in the feed",
				slog.String("set", b.set.Name), slog.Any("err", err))
			return false, nil
		}
		if err != nil {
			return false, err
		}
		name = b.feeds.nameOf(b.set.Name, doc.PrevArchive)
	}
	return whole, nil
}
