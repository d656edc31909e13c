package bitstream

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"

	"lockstep/catalog"
	"lockstep/memento"
	"lockstep/resourcesync"
)

// indexEach is how many changes or resources are added to the index at once.
const indexEach = 1000

// applyIndexed applies updates and adds the results to the index of versions.
// Readers of the catalog wait for both, so that nothing is published that is not
// in the index. If indexing fails, it is done before the next read.
func (b *batch) applyIndexed(ctx context.Context, updates []catalog.Update) (catalog.Applied, error) {
	if b.opts.Versions == nil {
		return b.Catalog.Apply(ctx, b.set, updates)
	}
	if err := b.lockIndex(ctx); err != nil {
		return catalog.Applied{}, err
	}
	defer b.unlockIndex()
	if err := b.keepRows(ctx); err != nil {
		return catalog.Applied{}, err
	}
	b.indexed = false
	a, err := b.Catalog.Apply(ctx, b.set, updates)
	if err != nil {
		return a, err
	}
	b.keeper.captured.Add(b.versions.count)
	if begun, berr := b.hasBegun(ctx); berr == nil && begun {
		if err := b.index(ctx); err != nil {
			b.keeper.opts.Logger.WarnContext(ctx, "the index of versions is behind", slog.String("set", b.set), slog.Any("err", err))
		}
	}
	return a, nil
}

func (r *recorder) lockIndex(ctx context.Context) error {
	select {
	case r.indexing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *recorder) unlockIndex() { <-r.indexing }

// Status implements [catalog.Catalog].
func (r *recorder) Status(ctx context.Context, set string) (catalog.Status, error) {
	if set == r.set {
		if err := r.settle(ctx); err != nil {
			return catalog.Status{}, err
		}
	}
	return r.Catalog.Status(ctx, set)
}

// Changes implements [catalog.Catalog].
func (r *recorder) Changes(ctx context.Context, set string, after catalog.Seq) iter.Seq2[catalog.Change, error] {
	return func(yield func(catalog.Change, error) bool) {
		if set == r.set {
			if err := r.settle(ctx); err != nil {
				yield(catalog.Change{}, err)
				return
			}
		}
		r.Catalog.Changes(ctx, set, after)(yield)
	}
}

// settle waits until the index of versions is up to date with the catalog, if
// the set's history has begun: before, nothing can have been published.
func (r *recorder) settle(ctx context.Context) error {
	if r.opts.Versions == nil {
		return nil
	}
	if begun, err := r.hasBegun(ctx); err != nil || !begun {
		return err
	}
	if err := r.lockIndex(ctx); err != nil {
		return err
	}
	defer r.unlockIndex()
	return r.index(ctx)
}

// index updates the index of versions from the catalog. The caller holds
// indexing.
func (r *recorder) index(ctx context.Context) error {
	if r.indexed {
		return nil
	}
	cursor, err := r.keeper.opts.Index.Cursor(ctx, r.set)
	if err != nil {
		return fmt.Errorf("%w: read the index: %w", errKeep, err)
	}
	st, err := r.Catalog.Status(ctx, r.set)
	if err != nil {
		return err
	}
	if catalog.Seq(cursor) < st.Kept.Seq || catalog.Seq(cursor) > st.Last {
		err = r.indexAll(ctx, &st)
	} else {
		err = r.indexChanges(ctx, catalog.Seq(cursor))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errKeep, err)
	}
	r.indexed = true
	return nil
}

// indexChanges adds the changes after cursor to the index.
func (r *recorder) indexChanges(ctx context.Context, cursor catalog.Seq) error {
	for {
		var changes []catalog.Change
		for c, err := range r.Catalog.Changes(ctx, r.set, cursor) {
			if err != nil {
				return err
			}
			if changes = append(changes, c); len(changes) == indexEach {
				break
			}
		}
		if len(changes) == 0 {
			return nil
		}
		rows, err := r.rows(ctx, changes)
		if err != nil {
			return err
		}
		cursor = changes[len(changes)-1].Seq
		if err := r.keeper.opts.Index.Append(ctx, r.set, int64(cursor), rows); err != nil {
			return fmt.Errorf("write the index: %w", err)
		}
	}
}

// rows returns the rows of the index for changes.
func (r *recorder) rows(ctx context.Context, changes []catalog.Change) ([]memento.Version, error) {
	uris := make([]string, len(changes))
	for i := range changes {
		uris[i] = changes[i].URI
	}
	slices.Sort(uris)
	last, err := r.lastOf(ctx, slices.Compact(uris))
	if err != nil {
		return nil, err
	}
	var rows []memento.Version
	for i := range changes {
		c := &changes[i]
		before := last[c.URI]
		v, ok := r.rowOf(&c.Record, c.Change == resourcesync.Deleted, before)
		if ok {
			rows = append(rows, v)
			last[c.URI] = v
		}
	}
	return rows, nil
}

// rowOf returns the row of the index for a record, or for a deletion, that came
// after before. There is none for a resource that never had a version, nor for
// what precedes the indexed version; for a resource that has changed without a
// new version, the row says that there was a version which was not stored.
func (r *recorder) rowOf(rec *catalog.Record, deleted bool, before memento.Version) (memento.Version, bool) {
	gone := memento.Version{URI: rec.URI, At: notBefore(rec.EventTime, before.At), Gone: true, Event: rec.EventTime, Seq: int64(rec.Seq)}
	later := !before.IsZero() && gone.Seq > before.Seq
	if deleted {
		return gone, later && (!before.Gone || before.Length < 0)
	}
	if at, ours := r.opts.Versions.linked(rec); ours {
		v, whole := row(rec, at)
		if known := !at.After(before.At); known || whole {
			return v, !known
		}
	}
	gone.Length = -1
	return gone, later && (!before.Gone || before.Length >= 0)
}

// indexAll compares the index with the current content of the catalog, if the
// changes since the last update are no longer stored.
func (r *recorder) indexAll(ctx context.Context, st *catalog.Status) error {
	for from := ""; ; {
		var page []catalog.Record
		for rec, err := range r.Catalog.Resources(ctx, r.set, catalog.Range{From: from}) {
			if err != nil {
				return err
			}
			if page = append(page, rec); len(page) == indexEach {
				break
			}
		}
		if len(page) == 0 {
			break
		}
		if err := r.indexPage(ctx, page); err != nil {
			return err
		}
		from = after(page[len(page)-1].URI)
	}
	if err := r.indexGone(ctx, st); err != nil {
		return err
	}
	if err := r.keeper.opts.Index.Append(ctx, r.set, int64(st.Last), nil); err != nil {
		return fmt.Errorf("write the index: %w", err)
	}
	return nil
}

// after returns the lowest URI above uri.
func after(uri string) string { return uri + "\x01" }

// indexPage adds current resources to the index.
func (r *recorder) indexPage(ctx context.Context, page []catalog.Record) error {
	uris := make([]string, len(page))
	for i := range page {
		uris[i] = page[i].URI
	}
	last, err := r.lastOf(ctx, uris)
	if err != nil {
		return err
	}
	var rows []memento.Version
	for i := range page {
		if v, ok := r.rowOf(&page[i], false, last[page[i].URI]); ok {
			rows = append(rows, v)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	if err := r.keeper.opts.Index.Append(ctx, r.set, 0, rows); err != nil {
		return fmt.Errorf("write the index: %w", err)
	}
	return nil
}

// indexGone records deleted resources in the index.
func (r *recorder) indexGone(ctx context.Context, st *catalog.Status) error {
	next, stop := iter.Pull2(r.Catalog.Resources(ctx, r.set, catalog.Range{}))
	defer stop()
	rec, err, more := next()
	var rows []memento.Version
	note := func(v memento.Version) error { // the newest of a resource
		for err == nil && more && rec.URI < v.URI {
			rec, err, more = next()
		}
		if err != nil || v.IsZero() || v.Gone || more && rec.URI == v.URI {
			return err
		}
		gone := catalog.Record{URI: v.URI, Seq: st.Last, EventTime: st.LastTime}
		if g, ok := r.rowOf(&gone, true, v); ok {
			rows = append(rows, g)
		}
		if len(rows) < indexEach {
			return nil
		}
		err := r.keeper.opts.Index.Append(ctx, r.set, 0, rows)
		rows = nil
		return err
	}
	var last memento.Version
	for v, err := range r.keeper.opts.Index.Walk(ctx, r.set, "") {
		if err == nil && v.URI != last.URI {
			err = note(last)
		}
		if err != nil {
			return err
		}
		last = v
	}
	if err := note(last); err != nil {
		return err
	}
	if len(rows) == 0 {
		return nil
	}
	return r.keeper.opts.Index.Append(ctx, r.set, 0, rows)
}
