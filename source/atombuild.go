package source

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"lockstep/atompmh"
	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/resourcesync"
)

// An atomBuild makes a feed anew, under new names, off the catalog and the
// documents there are. Memory does not grow with either: what is sorted is on
// disk.
type atomBuild struct {
	*atomPublication
	from    string      // the document with which the old ones begin; "": there are none
	spare   string      // the one with which to begin if that is lost
	keep    catalog.Seq // entries of what has not changed since this stay as they are
	last    int64       // newest updated that was published
	compact bool        // the catalog is not asked: only history is left out

	next   atomFeed
	byTime *sorter // the newest first
	groups *sorter // of resources, by part
	newest time.Time
	news   int64 // entries that get a time now
}

// run makes the feed, and switches to it.
func (b *atomBuild) run(ctx context.Context) error {
	b.byTime, b.groups = &sorter{dir: b.opts.Temp}, &sorter{dir: b.opts.Temp}
	defer b.byTime.close()
	defer b.groups.close()
	if err := b.name(ctx); err != nil {
		return err
	}
	// Who followed a feed that was complete, or turned off, was not told of deletions.
	untold := !b.next.Complete && (b.st.Current == nil || b.st.Current.Complete) && b.status.Last > b.status.Kept.Seq
	if b.from == "" && !untold {
		if err := b.readCatalog(ctx, b.take); err != nil {
			return err
		}
	} else if err := b.merge(ctx, untold); err != nil {
		return err
	}
	if err := b.writeGroupParts(ctx); err != nil {
		return err
	}
	return b.writeAll(ctx)
}

// merge takes what the catalog says, and what it and the documents there are say
// is gone.
func (b *atomBuild) merge(ctx context.Context, untold bool) error {
	byID := &sorter{dir: b.opts.Temp}
	defer byID.close()
	whole, err := b.readChain(ctx, byID)
	if err != nil {
		return err
	}
	take := func(e *buildEntry) error { return byID.add(e.idKey(0), e.encode()) }
	if err := b.readCatalog(ctx, take); err != nil {
		return err
	}
	if untold || !whole && !b.next.Complete {
		if err := b.readDeletions(ctx, take); err != nil {
			return err
		}
	}
	return b.mergeOld(byID)
}

// name settles what the feed is to be, under names that were never given.
func (b *atomBuild) name(ctx context.Context) error {
	taken := make(map[string]bool)
	for info, err := range b.docs.List(ctx, atomPrefix(b.set.Name)) {
		if err != nil {
			return err
		}
		taken[atomArchiveChain(b.set.Name, info.Name)] = true
	}
	for _, r := range b.st.Retired {
		taken[r.Chain] = true
	}
	b.next = b.want
	cur := b.st.Current
	if cur != nil {
		taken[cur.Chain] = true
		b.next.Stamp = cur.Stamp
	} else if info, err := b.docs.Stat(ctx, atomName(b.set.Name)); err == nil {
		b.next.Stamp = info.ModTime
	} else if !errors.Is(err, blob.ErrNotExist) {
		return err
	}
	b.next.Stamp = b.after(b.next.Stamp)
	stamp := b.next.Stamp.UTC().Format(stampLayout)
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

// readCatalog hands every record there is to take, and its group to groups.
func (b *atomBuild) readCatalog(ctx context.Context, take func(*buildEntry) error) error {
	if b.compact {
		return nil
	}
	view := b.atomView(&b.set)
	for record, err := range b.catalog.Resources(ctx, b.capabilityList(b.set.Name), catalog.Range{}) {
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
					if err := b.addGroup(ownersKey(g.ID), &atomGroup{Members: []string{r.uri}}); err != nil {
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
			b.report.Refused++
			continue
		}
		if err := take(e); err != nil {
			return err
		}
	}
	return nil
}

// readDeletions hands what has been deleted to take, as far back as the catalog
// knows.
func (b *atomBuild) readDeletions(ctx context.Context, take func(*buildEntry) error) error {
	view := b.atomView(&b.set)
	for c, err := range b.catalog.Changes(ctx, b.capabilityList(b.set.Name), b.status.Kept.Seq) {
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
func (b *atomBuild) readChain(ctx context.Context, byID *sorter) (whole bool, err error) {
	seen := make(map[string]bool)
	whole = true
	for name := b.from; name != "" && !seen[name]; {
		seen[name], err = true, nil
		var doc atompmh.Feed
		for e, failed := range b.readAtom(ctx, name, b.want.ID, &doc) {
			if err = failed; err != nil {
				break
			}
			b.last = max(b.last, e.Updated.UnixMilli())
			old := &buildEntry{Entry: e, at: e.Updated.UnixMilli()}
			if err = byID.add(old.idKey(1), old.encode()); err != nil {
				return false, err
			}
		}
		if errors.Is(err, errAtomLost) && name == b.from && b.spare != "" {
			name, b.spare, whole = b.spare, "", false
			continue
		}
		if errors.Is(err, errAtomLost) {
			b.opts.Logger.WarnContext(ctx, "documents of an atom feed are lost: what only they told of is not told any more",
				slog.String("set", b.set.Name), slog.Any("err", err))
			return false, nil
		}
		if err != nil {
			return false, err
		}
		name = b.atomNameOf(b.set.Name, doc.PrevArchive)
	}
	return whole, nil
}

// mergeOld takes of each record what is to be told of it.
func (b *atomBuild) mergeOld(byID *sorter) error {
	var now, old *buildEntry
	for it, err := range byID.sorted() {
		if err != nil {
			return err
		}
		e, err := decodeBuildEntry(it.data)
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

// settle takes what is to be told of a record: now is what the catalog says, old
// what was said last.
func (b *atomBuild) settle(now, old *buildEntry) error {
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
	gone := &buildEntry{fresh: true, seq: math.MaxInt64, at: b.opts.Now().UnixMicro()}
	gone.Entry = atompmh.Entry{ID: old.ID, Title: old.Title + ", deleted", Kind: atompmh.Deletion}
	return b.take(gone)
}

// sameAlternates reports whether both lead to the same representations: that one
// is no more is a change of the record (AP-AMB-14), but of no resource that is
// there.
func sameAlternates(x, y *atompmh.Entry) bool {
	return slices.EqualFunc(x.Alternates(), y.Alternates(), func(a, b atompmh.Link) bool { return a.Href == b.Href && a.Type == b.Type })
}

// take takes an entry into the feed.
func (b *atomBuild) take(e *buildEntry) error {
	key := make([]byte, 9)
	if e.fresh {
		b.news++
		if t := time.UnixMicro(e.at); t.After(b.newest) {
			b.newest = t
		}
		binary.BigEndian.PutUint64(key[1:], ^uint64(e.seq))
	} else {
		key[0] = 1
		binary.BigEndian.PutUint64(key[1:], ^uint64(e.at+1<<62))
	}
	return b.byTime.add(key, e.encode())
}

// writeAll writes all documents, the newest first, and switches to them.
func (b *atomBuild) writeAll(ctx context.Context) error {
	n := b.byTime.n
	archives := int64(0)
	if !b.next.Complete && n > 0 {
		archives = (n - 1) / int64(b.limit)
	}
	b.next.Number, b.next.Archives, b.next.Entries, b.next.Begun, b.next.Last = int(archives), int(archives), n, n, b.last
	name := func(number int64) string { // of 0 before, and of what is to come: none
		if number < 1 || number > archives {
			return ""
		}
		return atomArchiveName(b.set.Name, b.next.Chain, int(number))
	}
	b.next.Newest = name(archives)
	w := &atomWriting{atomBuild: b, number: archives + 1, names: name, left: n - archives*int64(b.limit), rest: n, last: noTime}
	defer w.discard()
	clock := newAtomClock(b.last, b.newest, b.opts.Now(), b.news)
	if b.news > 0 {
		b.next.Last = clock.top
	}
	for it, err := range b.byTime.sorted() {
		if err != nil {
			return err
		}
		e, err := decodeBuildEntry(it.data)
		if err != nil {
			return err
		}
		at := e.at
		if e.fresh {
			at = clock.next(time.UnixMicro(e.at))
		}
		e.Updated = millis(at)
		if err := w.add(ctx, &e.Entry, at); err != nil {
			return err
		}
	}
	if err := w.end(ctx); err != nil {
		return err
	}
	old := b.st.Current
	if old != nil {
		b.st.Retired = append(slices.Clip(b.st.Retired), atomRetired{old.Chain, b.opts.Now()})
	}
	if err := b.switchTo(ctx, &b.next, w.entry, nil, nil); err != nil {
		return err
	}
	b.opts.Logger.InfoContext(ctx, "atom feed made anew", slog.String("set", b.set.Name), slog.Int64("entries", n))
	return nil
}

// An atomWriting writes documents, the newest first.
type atomWriting struct {
	*atomBuild
	number int64 // of the document at hand; above all archives: the subscription document
	names  func(int64) string
	left   int64 // entries that the document at hand gets
	rest   int64 // entries there are still
	last   int64 // time of the last one written
	entry  *atomDocument
	d      *atomDocument // that at hand, if it is an archive
	full   []blob.Writer
}

// add adds an entry, of the instant updated.
func (w *atomWriting) add(ctx context.Context, e *atompmh.Entry, updated int64) error {
	older := w.number - 1                                                                  // archives that are still to come, each with an entry at least
	if w.left <= 0 && !(updated == w.last && w.rest > older && w.left > -int64(w.limit)) { // AP-TS-12
		if err := w.finish(ctx); err != nil {
			return err
		}
		w.number--
		w.left = min(int64(w.limit), w.rest-(w.number-1))
	}
	d, err := w.at(ctx, updated)
	if err != nil {
		return err
	}
	w.left--
	w.rest--
	w.last = updated
	return d.Write(e)
}

// at returns the document at hand.
func (w *atomWriting) at(ctx context.Context, updated int64) (d *atomDocument, err error) {
	switch {
	case w.d != nil:
		return w.d, nil
	case w.entry == nil:
		w.entry, err = w.start(ctx, atomName(w.set.Name), updated)
		return w.entry, err
	case w.names(w.number) == "":
		return w.entry, nil
	}
	w.d, err = w.start(ctx, w.names(w.number), updated)
	return w.d, err
}

func (w *atomWriting) start(ctx context.Context, name string, updated int64) (*atomDocument, error) {
	return w.document(ctx, &w.next, name, w.names(w.number-1), w.names(w.number+1), updated)
}

// finish commits the archive at hand, if it is one, with others.
func (w *atomWriting) finish(ctx context.Context) error {
	if w.d != nil {
		if err := w.d.Close(); err != nil {
			return err
		}
		w.full, w.d = append(w.full, w.d.blob), nil
	}
	if len(w.full) < commitParts {
		return nil
	}
	return w.commit(ctx)
}

func (w *atomWriting) commit(ctx context.Context) error {
	full := w.full
	err := w.docs.Commit(ctx, full...)
	for _, b := range full {
		_ = b.Close() // does nothing where it was committed
	}
	w.full = nil
	return err
}

// end commits the archives that are left, and finishes the subscription document.
func (w *atomWriting) end(ctx context.Context) error {
	if err := w.finish(ctx); err != nil {
		return err
	}
	if err := w.commit(ctx); err != nil {
		return err
	}
	if w.entry == nil {
		updated := w.atomBuild.last // AP-TS-13
		if updated == noTime {
			updated = w.status.Kept.At.UnixMilli()
		}
		if _, err := w.at(ctx, updated); err != nil {
			return err
		}
	}
	return w.entry.Close()
}

func (w *atomWriting) discard() {
	for _, d := range []*atomDocument{w.d, w.entry} {
		if d != nil {
			d.discard()
		}
	}
	for _, b := range w.full {
		_ = b.Close() // does nothing where it was committed
	}
}

// addGroup takes what is to be remembered of a resource.
func (b *atomBuild) addGroup(uri string, g *atomGroup) error {
	data, err := json.Marshal(g)
	if err != nil {
		return err
	}
	key := binary.BigEndian.AppendUint16(nil, uint16(groupPart(uri)))
	return b.groups.add(append(key, uri...), data)
}

// writeGroupParts writes what is to be remembered of groups, under names nobody
// asks for yet.
func (b *atomBuild) writeGroupParts(ctx context.Context) error {
	if b.groups.n == 0 {
		return nil
	}
	b.next.Groups = b.next.Chain
	all, part := make(atomGroups), -1
	flush := func() error {
		if len(all) == 0 {
			return nil
		}
		err := b.writeGroups(ctx, b.set.Name, b.next.Groups, part, all)
		all = make(atomGroups)
		return err
	}
	for it, err := range b.groups.sorted() {
		if err != nil {
			return err
		}
		if p := int(binary.BigEndian.Uint16(it.key)); p != part {
			if err := flush(); err != nil {
				return err
			}
			part = p
		}
		g := new(atomGroup)
		if err := json.Unmarshal(it.data, g); err != nil {
			return err
		}
		key := string(it.key[2:])
		if o := all[key]; o != nil { // more resources of one identifier
			g.Members = append(o.Members, g.Members...)
		}
		all[key] = g
	}
	return flush()
}
