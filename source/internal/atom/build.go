package atom

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"lockstep/atompmh"
	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/internal/extsort"
	"lockstep/source/internal/names"
)

// A build builds a feed again, under new names, from the catalog and the existing
// documents. Its memory does not grow with either: sorting uses the disk.
type build struct {
	*update
	from    string      // the document with which the old ones begin; "": there are none
	spare   string      // the one with which to begin if that is lost
	keep    catalog.Seq // entries of what has not changed since this stay as they are
	last    int64       // newest updated that was published
	compact bool        // the catalog is not asked: only history is left out

	next   feed
	byTime *extsort.Sorter // newest first
	groups *extsort.Sorter // of resources, by part
	newest time.Time
	dated  int64 // entries that get a new time

	planned bool // the state may name what was written
}

// sortMemory is how many bytes a sorter holds in memory; the rest is on disk.
const sortMemory = 16 << 20

// newSorter returns a sorter that keeps entries with the same key in the order
// in which they were added. It has to be closed.
func (b *build) newSorter() *extsort.Sorter {
	s := extsort.New(extsort.TempFiles(b.feeds.temp))
	s.Memory, s.Stable = sortMemory, true
	return s
}

// run builds the feed and switches to it.
func (b *build) run(ctx context.Context) error {
	b.byTime, b.groups = b.newSorter(), b.newSorter()
	defer b.byTime.Close()
	defer b.groups.Close()
	if err := b.name(ctx); err != nil {
		return err
	}
	// Readers of a feed that was complete, or turned off, did not get deletions.
	missed := !b.next.Complete && (b.st.Current == nil || b.st.Current.Complete) && b.status.Last > b.status.Kept.Seq
	if b.from == "" && !missed {
		if err := b.readCatalog(ctx, b.take); err != nil {
			return err
		}
	} else if err := b.merge(ctx, missed); err != nil {
		return err
	}
	err := b.writeGroupParts(ctx)
	if err == nil {
		err = b.writeAll(ctx)
	}
	if err != nil && !b.planned {
		b.drop(ctx)
	}
	return err
}

// dropTime limits how long removing the archives of a feed that is not published may take.
const dropTime = 5 * time.Second

// drop removes what was committed of a feed that is not going to be published, so that it takes
// no room until a later publication removes it.
func (b *build) drop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTime)
	defer cancel()
	set := names.Feed(b.set.Name)
	var written []string
	for n := range b.next.Archives {
		written = append(written, set.Archive(b.next.Chain, n+1))
	}
	for part := range groupParts {
		if b.next.Groups == b.next.Chain {
			written = append(written, set.Group(b.next.Chain, part))
		}
	}
	if len(written) == 0 {
		return
	}
	if err := b.docs.Remove(ctx, written...); err != nil {
		b.docs.Log.InfoContext(ctx, "archives of an atom feed that is not published are removed later", slog.String("set", b.set.Name), slog.Any("err", err))
	}
}

// merge combines the resources in the catalog with deletions from the catalog and from
// the existing documents.
func (b *build) merge(ctx context.Context, missed bool) error {
	byID := b.newSorter()
	defer byID.Close()
	whole, err := b.readChain(ctx, byID)
	if err != nil {
		return err
	}
	take := func(e *buildEntry) error { return byID.Add(e.idKey(0), e.encode()) }
	if err := b.readCatalog(ctx, take); err != nil {
		return err
	}
	if missed || !whole && !b.next.Complete {
		if err := b.readDeletions(ctx, take); err != nil {
			return err
		}
	}
	return b.mergeOld(ctx, byID)
}

// name determines the properties of the new feed, with names that were never used.
func (b *build) name(ctx context.Context) error {
	taken := make(map[string]bool)
	for info, err := range b.docs.List(ctx, names.Feed(b.set.Name).Prefix()) {
		if err != nil {
			return err
		}
		taken[names.Feed(b.set.Name).ArchiveChain(info.Name)] = true
	}
	for _, r := range b.st.Retired {
		taken[r.Chain] = true
	}
	b.next = b.want
	cur := b.st.Current
	if cur != nil {
		taken[cur.Chain] = true
		b.next.Stamp = cur.Stamp
	} else if info, err := b.docs.Stat(ctx, names.Feed(b.set.Name).Document()); err == nil {
		b.next.Stamp = info.ModTime
	} else if !errors.Is(err, blob.ErrNotExist) {
		return err
	}
	b.next.Stamp = b.docs.After(b.next.Stamp)
	stamp := b.next.Stamp.UTC().Format(names.StampLayout)
	b.next.Chain = stamp
	for n := 2; taken[b.next.Chain]; n++ {
		b.next.Chain = fmt.Sprintf("%s.%d", stamp, n)
	}
	b.next.Through, b.next.ThroughTime = b.status.Last, b.status.LastTime
	if b.compact {
		b.next.Through, b.next.ThroughTime, b.next.Seen, b.next.Groups = cur.Through, cur.ThroughTime, cur.Seen, cur.Groups
	}
	return nil
}

// mergeOld adds the entry of each record to the feed.
func (b *build) mergeOld(ctx context.Context, byID *extsort.Sorter) error {
	var now, old *buildEntry
	for it, err := range byID.Sorted(ctx) {
		if err != nil {
			return err
		}
		e, err := decodeBuildEntry(it.Value)
		if err != nil {
			return err
		}
		if id := cmpID(now, old); id != "" && id != e.ID {
			if err := b.settle(now, old); err != nil {
				return err
			}
			now, old = nil, nil
		}
		switch {
		case e.fresh && (now == nil || e.seq > now.seq):
			now = e
		case !e.fresh && (old == nil || e.at > old.at):
			old = e
		}
	}
	return b.settle(now, old)
}

func cmpID(es ...*buildEntry) string {
	for _, e := range es {
		if e != nil {
			return e.ID
		}
	}
	return ""
}

// settle adds the entry of a record to the feed: now is its entry according to the
// catalog, old its last entry in the feed.
func (b *build) settle(now, old *buildEntry) error {
	switch {
	case now == nil && old == nil:
		return nil
	case now != nil && old != nil && old.Kind == atompmh.Active && now.seq <= b.keep && sameAlternates(&now.Entry, &old.Entry):
		return b.take(old)
	case now != nil:
		return b.take(now)
	case old.Kind == atompmh.Deletion || b.compact: // AP-DEL-07
		if b.next.Complete && old.Kind == atompmh.Deletion { // AP-CMP-03
			return nil
		}
		return b.take(old)
	case b.next.Complete: // AP-DEL-03
		return nil
	}
	gone := &buildEntry{fresh: true, seq: math.MaxInt64, at: b.docs.Now().UnixMicro()}
	gone.Entry = atompmh.Entry{ID: old.ID, Title: old.Title + ", deleted", Kind: atompmh.Deletion}
	return b.take(gone)
}

// sameAlternates reports whether both link to the same representations. The removal of
// one is a change of the record (AP-AMB-14), but not of a remaining resource.
func sameAlternates(x, y *atompmh.Entry) bool {
	return slices.EqualFunc(x.Alternates(), y.Alternates(), func(a, b atompmh.Link) bool { return a.Href == b.Href && a.Type == b.Type })
}

// take adds an entry to the feed.
func (b *build) take(e *buildEntry) error {
	key := make([]byte, 9)
	if e.fresh {
		b.dated++
		if t := time.UnixMicro(e.at); t.After(b.newest) {
			b.newest = t
		}
		binary.BigEndian.PutUint64(key[1:], ^uint64(e.seq))
	} else {
		key[0] = 1
		binary.BigEndian.PutUint64(key[1:], ^uint64(e.at+1<<62))
	}
	return b.byTime.Add(key, e.encode())
}
