package atom

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"lockstep/atompmh"
	"lockstep/blob"
	"lockstep/source/internal/document"
	"lockstep/source/internal/names"
)

// writeAll writes all documents, the newest first, and switches to them.
func (b *build) writeAll(ctx context.Context) error {
	n := b.byTime.Len()
	archives := int64(0)
	if !b.next.Complete && n > 0 {
		archives = (n - 1) / int64(b.limit)
	}
	b.next.Number, b.next.Archives, b.next.Entries, b.next.Begun, b.next.Last = int(archives), int(archives), n, n, b.last
	name := func(number int64) string { // of 0 before, and of what is to come: none
		if number < 1 || number > archives {
			return ""
		}
		return names.Feed(b.set.Name).Archive(b.next.Chain, int(number))
	}
	b.next.Newest = name(archives)
	w := &writing{b: b, number: archives + 1, names: name, left: n - archives*int64(b.limit), rest: n, last: noTime}
	defer w.discard()
	clock := newClock(b.last, b.newest, b.docs.Now(), b.dated)
	if b.dated > 0 {
		b.next.Last = clock.top
	}
	for it, err := range b.byTime.Sorted(ctx) {
		if err != nil {
			return err
		}
		e, err := decodeBuildEntry(it.Value)
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
	if old == nil {
		old = b.lost // readers may have its documents
	}
	if old != nil && old.Chain != "" && !old.Complete { // a complete feed has no archives
		b.st.Retired = append(slices.Clip(b.st.Retired), retiredChain{old.Chain, b.docs.Now()})
	}
	b.planned = true
	if err := b.switchTo(ctx, &b.next, w.entry, nil, nil); err != nil {
		return err
	}
	b.docs.Log.InfoContext(ctx, "atom feed rebuilt", slog.String("set", b.set.Name), slog.Int64("entries", n))
	return nil
}

// A writing writes documents, the newest first.
type writing struct {
	b      *build
	number int64 // of the document at hand; above all archives: the subscription document
	names  func(int64) string
	left   int64 // entries that the document at hand gets
	rest   int64 // entries there are still
	last   int64 // time of the last one written
	entry  *openDocument
	d      *openDocument // that at hand, if it is an archive
	full   []blob.Writer
}

// add adds an entry, of the instant updated.
func (w *writing) add(ctx context.Context, e *atompmh.Entry, updated int64) error {
	older := w.number - 1                                                                    // archives that are still to come, each with an entry at least
	if w.left <= 0 && !(updated == w.last && w.rest > older && w.left > -int64(w.b.limit)) { // AP-TS-12
		if err := w.finish(ctx); err != nil {
			return err
		}
		w.number--
		w.left = min(int64(w.b.limit), w.rest-(w.number-1))
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
func (w *writing) at(ctx context.Context, updated int64) (d *openDocument, err error) {
	switch {
	case w.d != nil:
		return w.d, nil
	case w.entry == nil:
		if w.b.next.Complete { // its newest entry may have been deleted, but the feed has changed since
			updated = max(updated, w.b.next.Last)
		}
		w.entry, err = w.start(ctx, names.Feed(w.b.set.Name).Document(), updated)
		return w.entry, err
	case w.names(w.number) == "":
		return w.entry, nil
	}
	w.d, err = w.start(ctx, w.names(w.number), updated)
	return w.d, err
}

func (w *writing) start(ctx context.Context, name string, updated int64) (*openDocument, error) {
	return w.b.document(ctx, &w.b.next, name, w.names(w.number-1), w.names(w.number+1), updated)
}

// finish commits the archive at hand, if it is one, with others.
func (w *writing) finish(ctx context.Context) error {
	if w.d != nil {
		if err := w.d.Close(); err != nil {
			return err
		}
		w.full, w.d = append(w.full, w.d.blob), nil
		if err := document.SealParts(w.full); err != nil {
			return err
		}
	}
	if len(w.full) < document.CommitParts {
		return nil
	}
	return w.commit(ctx)
}

func (w *writing) commit(ctx context.Context) error {
	full := w.full
	err := w.b.docs.Commit(ctx, full...)
	for _, b := range full {
		_ = b.Close() // does nothing where it was committed
	}
	w.full = nil
	return err
}

// end commits the archives that are left, and finishes the subscription document.
func (w *writing) end(ctx context.Context) error {
	if err := w.finish(ctx); err != nil {
		return err
	}
	if err := w.commit(ctx); err != nil {
		return err
	}
	if w.entry == nil {
		updated := w.b.last // AP-TS-13
		if updated == noTime {
			updated = w.b.status.Kept.At.UnixMilli()
		}
		if _, err := w.at(ctx, updated); err != nil {
			return err
		}
	}
	return w.entry.Close()
}

func (w *writing) discard() {
	for _, d := range []*openDocument{w.d, w.entry} {
		if d != nil {
			d.discard()
		}
	}
	for _, b := range w.full {
		_ = b.Close() // does nothing where it was committed
	}
}

// writeGroupParts writes what is to be remembered of groups, under names that no state
// has yet.
func (b *build) writeGroupParts(ctx context.Context) error {
	if b.groups.Len() == 0 {
		return nil
	}
	b.next.Groups = b.next.Chain
	all, part := make(groupMap), -1
	flush := func() error {
		if len(all) == 0 {
			return nil
		}
		err := b.feeds.writeGroups(ctx, b.set.Name, b.next.Groups, part, all)
		all = make(groupMap)
		return err
	}
	for it, err := range b.groups.Sorted(ctx) {
		if err != nil {
			return err
		}
		if p := int(binary.BigEndian.Uint16(it.Key)); p != part {
			if err := flush(); err != nil {
				return err
			}
			part = p
		}
		g := new(group)
		if err := json.Unmarshal(it.Value, g); err != nil {
			return err
		}
		key := string(it.Key[2:])
		if o := all[key]; o != nil { // more resources of one identifier
			g.Members = append(o.Members, g.Members...)
		}
		all[key] = g
	}
	return flush()
}
