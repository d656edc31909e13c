package sqldb

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"lockstep/memento"
	"lockstep/storage/internal/column"
)

// versionsChunk is how many versions are processed at once. It bounds memory;
// the transaction spans them all.
const versionsChunk = 4_000

// Append implements [memento.Store].
func (v *Versions) Append(ctx context.Context, set string, cursor int64, vs []memento.Version) error {
	if err := memento.Check(set, vs); err != nil {
		return fmt.Errorf("append versions: %w", err)
	}
	err := v.db.Update(ctx, func(tx *sql.Tx) error {
		w, err := v.lock(ctx, tx, set, true)
		if err != nil {
			return fmt.Errorf("lock set: %w", err)
		}
		for chunk := range slices.Chunk(sorted(vs), versionsChunk) {
			if err := w.append(ctx, chunk); err != nil {
				return err
			}
		}
		const update = `UPDATE memento_set SET last_seq = $2, resources = $3 WHERE id = $1`
		_, err = tx.ExecContext(ctx, update, w.set, max(w.cursor, cursor), w.count)
		return err
	})
	if err != nil {
		return fmt.Errorf("append %d versions to %s: %w", len(vs), set, err)
	}
	return nil
}

// Drop implements [memento.Store].
func (v *Versions) Drop(ctx context.Context, set string, vs []memento.Version) error {
	if err := memento.Check(set, vs); err != nil {
		return fmt.Errorf("drop versions: %w", err)
	}
	err := v.db.Update(ctx, func(tx *sql.Tx) error {
		w, err := v.lock(ctx, tx, set, false)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("lock set: %w", err)
		}
		for chunk := range slices.Chunk(sorted(vs), versionsChunk) {
			if err := w.drop(ctx, chunk); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("drop %d versions of %s: %w", len(vs), set, err)
	}
	return nil
}

// sorted returns vs by URI and At; equal ones keep their order.
func sorted(vs []memento.Version) []*memento.Version {
	all := make([]*memento.Version, len(vs))
	for i := range vs {
		all[i] = &vs[i]
	}
	slices.SortStableFunc(all, func(a, b *memento.Version) int {
		return cmp.Or(strings.Compare(a.URI, b.URI), cmp.Compare(a.At.UnixMicro(), b.At.UnixMicro()))
	})
	return all
}

// A versionsWrite is a transaction with exclusive access to the versions of a
// set.
type versionsWrite struct {
	db     *DB
	tx     *sql.Tx
	set    int64
	cursor int64
	count  int64 // of resources
}

// lock reads the row of the set and keeps other transactions from changing the
// set until this one ends. It creates a missing row, or returns sql.ErrNoRows.
func (v *Versions) lock(ctx context.Context, tx *sql.Tx, set string, make bool) (*versionsWrite, error) {
	w := &versionsWrite{db: v.db, tx: tx}
	const find = `SELECT id, last_seq, resources FROM memento_set WHERE name = $1`
	err := tx.QueryRowContext(ctx, find+v.db.dialect.ForUpdate(), set).Scan(&w.set, &w.cursor, &w.count)
	if !make || !errors.Is(err, sql.ErrNoRows) {
		return w, err
	}
	if w.set, err = nextID(ctx, tx, "memento_set"); err != nil {
		return nil, err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO memento_set (id, name, last_seq, resources) VALUES ($1, $2, 0, 0)`, w.set, set)
	return w, err
}

// A resourceRow is a row of memento_resource without its key.
type resourceRow struct {
	no      int64
	dropped sql.NullInt64
}

// resources returns the existing rows of the versions' resources.
func (w *versionsWrite) resources(ctx context.Context, vs []*memento.Version) (map[string]*resourceRow, error) {
	rows := make(map[string]*resourceRow)
	find := w.db.bulkIn(w.tx, fmt.Sprintf(`SELECT uri, no, dropped FROM memento_resource WHERE set_id = %d AND uri IN`, w.set))
	row := func(r *sql.Rows) error {
		var uri string
		var rr resourceRow
		err := r.Scan(&uri, &rr.no, &rr.dropped)
		rows[uri] = &rr
		return err
	}
	for i, v := range vs {
		if i > 0 && v.URI == vs[i-1].URI {
			continue
		}
		if err := find.query(ctx, row, v.URI); err != nil {
			return nil, err
		}
	}
	return rows, find.flushQuery(ctx, row)
}

// append adds versions, which are sorted.
func (w *versionsWrite) append(ctx context.Context, vs []*memento.Version) error {
	rows, err := w.resources(ctx, vs)
	if err != nil {
		return fmt.Errorf("look up resources: %w", err)
	}
	resource := w.db.bulk(w.tx, `INSERT INTO memento_resource (set_id, uri, no) VALUES`, 3, ``)
	version := w.db.bulk(w.tx, `INSERT INTO memento_version (set_id, no, at, gone, version) VALUES`, 5,
		` ON CONFLICT (set_id, no, at) DO NOTHING`)
	for _, v := range vs {
		r := rows[v.URI]
		if r == nil {
			w.count++
			r = &resourceRow{no: w.count}
			rows[v.URI] = r
			if err := resource.exec(ctx, w.set, v.URI, r.no); err != nil {
				return fmt.Errorf("write resources: %w", err)
			}
		}
		at, gone := v.At.UnixMicro(), 0
		if r.dropped.Valid && at <= r.dropped.Int64 {
			continue
		}
		if v.Gone {
			gone = 1
		}
		if err := version.exec(ctx, w.set, r.no, at, gone, packVersion(v)); err != nil {
			return fmt.Errorf("write versions: %w", err)
		}
	}
	if err := resource.flush(ctx); err != nil {
		return fmt.Errorf("write resources: %w", err)
	}
	if err := version.flush(ctx); err != nil {
		return fmt.Errorf("write versions: %w", err)
	}
	return nil
}

func packVersion(v *memento.Version) []byte {
	c := *v
	if c.Event.IsZero() {
		c.Event = c.At
	}
	return column.AppendVersion(nil, &c)
}

// drop deletes versions, which are sorted, and records the latest deleted one of
// each resource.
func (w *versionsWrite) drop(ctx context.Context, vs []*memento.Version) error {
	rows, err := w.resources(ctx, vs)
	if err != nil {
		return fmt.Errorf("look up resources: %w", err)
	}
	dropped := make(map[int64]int64) // by no
	remove := w.db.bulk(w.tx, fmt.Sprintf(`DELETE FROM memento_version WHERE set_id = %d AND (no, at) IN (VALUES`, w.set), 2,
		`) RETURNING no, at`)
	remove.types = []string{"BIGINT", "BIGINT"}
	row := func(r *sql.Rows) error {
		var no, at int64
		if err := r.Scan(&no, &at); err != nil {
			return err
		}
		if was, ok := dropped[no]; !ok || at > was {
			dropped[no] = at
		}
		return nil
	}
	for _, v := range vs {
		if r := rows[v.URI]; r != nil {
			if err := remove.query(ctx, row, r.no, v.At.UnixMicro()); err != nil {
				return fmt.Errorf("delete versions: %w", err)
			}
		}
	}
	if err := remove.flushQuery(ctx, row); err != nil {
		return fmt.Errorf("delete versions: %w", err)
	}
	note := w.db.bulk(w.tx, `INSERT INTO memento_resource (set_id, uri, no, dropped) VALUES`, 4,
		` ON CONFLICT (set_id, uri) DO UPDATE SET dropped = excluded.dropped`)
	for i, v := range vs {
		r := rows[v.URI]
		if r == nil || i > 0 && v.URI == vs[i-1].URI {
			continue
		}
		at, ok := dropped[r.no]
		if !ok || r.dropped.Valid && r.dropped.Int64 >= at {
			continue
		}
		if err := note.exec(ctx, w.set, v.URI, r.no, at); err != nil {
			return fmt.Errorf("write resources: %w", err)
		}
	}
	if err := note.flush(ctx); err != nil {
		return fmt.Errorf("write resources: %w", err)
	}
	return nil
}
