package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"time"

	"lockstep/catalog"
	"lockstep/storage/internal/column"
)

// The catalog's tables (migrations/catalog). Only methods of Catalog write them,
// each in its transaction.
//
//	catalog_set		one row for each set, created at its first use
//		id			identifies the set in the other tables, in place of its long name
//		name			the caller's
//		resources		number of rows in catalog_resource, which are slow to count
//		last_seq		number of the newest change; 0: none yet
//		last_event	its event time
//		floor		latest time assigned, by an event or a Mark: the next event is later
//		kept_seq, kept_at	Status.Kept; kept_at is NULL before the first Mark
//
//	catalog_resource	the current state, one row for each resource
//		set_id, uri	the key. Rows are in its order, so that a Resource List is read
//				sequentially, and sorted updates are written side by side
//		record		the rest (record.go)
//
//	catalog_change	the changes, from the first Mark on, until forgotten
//		set_id, seq	the key, and the order of the rows
//		event		event time, as in record
//		change		1 created, 2 updated, 3 deleted
//		uri, record	the Record after the change
//
//	catalog_refreshed	resources refreshed without a change, from the first Mark on, until
//				forgotten
//		set_id, uri	the key
//		at		a time after that of the last Mark before
//
// Times are microseconds since 1970. URIs are TEXT compared by bytes. SQLite
// accepts any bytes as TEXT; for an engine that requires UTF-8, a dialect can
// write each byte as the code point of the same number: that preserves ASCII and
// the order.

// A Catalog is a [catalog.Catalog] in a [DB].
type Catalog struct {
	db *DB
}

var _ catalog.Catalog = (*Catalog)(nil)

// Catalog returns the catalog in the database.
func (db *DB) Catalog() *Catalog { return &Catalog{db} }

// A setRow is a row of catalog_set.
type setRow struct {
	id        int64
	resources int64
	lastSeq   catalog.Seq
	lastEvent int64
	floor     int64
	keptSeq   catalog.Seq
	keptAt    sql.NullInt64
}

const selectSet = `SELECT id, resources, last_seq, last_event, floor, kept_seq, kept_at FROM catalog_set WHERE name = $1`

// values returns where the columns of selectSet are stored.
func (s *setRow) values() []any {
	return []any{&s.id, &s.resources, &s.lastSeq, &s.lastEvent, &s.floor, &s.keptSeq, &s.keptAt}
}

// lock reads the row of the set, creates it if it is missing, and keeps other
// transactions from changing the set until this one ends.
func (c *Catalog) lock(ctx context.Context, tx *sql.Tx, set string) (*setRow, error) {
	s := new(setRow)
	err := tx.QueryRowContext(ctx, selectSet+c.db.dialect.ForUpdate(), set).Scan(s.values()...)
	if !errors.Is(err, sql.ErrNoRows) {
		return s, err
	}
	if s.id, err = nextID(ctx, tx, "catalog_set"); err != nil {
		return nil, err
	}
	s.floor = time.Time{}.UnixMicro()
	const insert = `INSERT INTO catalog_set (id, name, resources, last_seq, last_event, floor, kept_seq)
		VALUES ($1, $2, 0, 0, 0, $3, 0)`
	_, err = tx.ExecContext(ctx, insert, s.id, set, s.floor)
	return s, err
}

// save writes the variable columns of the row.
func (s *setRow) save(ctx context.Context, tx *sql.Tx) error {
	const update = `UPDATE catalog_set SET resources = $2, last_seq = $3, last_event = $4, floor = $5, kept_seq = $6, kept_at = $7
		WHERE id = $1`
	_, err := tx.ExecContext(ctx, update, s.id, s.resources, int64(s.lastSeq), s.lastEvent, s.floor, int64(s.keptSeq), s.keptAt)
	return err
}

// setNamed is the number of the set whose name is the first parameter. With a join in its place PostgreSQL would
// sort all rows of the set, although an index has them in their order.
const setNamed = `(SELECT id FROM catalog_set WHERE name = $1)`

// Resources implements [catalog.Catalog].
func (c *Catalog) Resources(ctx context.Context, set string, r catalog.Range) iter.Seq2[catalog.Record, error] {
	const selectFrom = `SELECT uri, record FROM catalog_resource WHERE set_id = ` + setNamed + ` AND uri >= $2`
	const to, order = ` AND uri < $3`, ` ORDER BY uri`
	return func(yield func(catalog.Record, error) bool) {
		text, args := selectFrom+order, []any{set, r.From}
		if r.To != "" {
			text, args = selectFrom+to+order, append(args, r.To)
		}
		var rec catalog.Record
		var packed sql.RawBytes
		err := c.db.eachPrepared(ctx, text, args, func(rows *sql.Rows) (bool, error) { // most calls are for one resource
			if err := rows.Scan(&rec.URI, &packed); err != nil {
				return false, err
			}
			if err := column.ParseRecord(packed, &rec); err != nil {
				return false, fmt.Errorf("resource %q: %w", rec.URI, err)
			}
			return yield(rec, nil), nil
		})
		if err != nil {
			yield(catalog.Record{}, fmt.Errorf("read resources of %s: %w", set, err))
		}
	}
}

// Split implements [catalog.Catalog].
func (c *Catalog) Split(ctx context.Context, set string, n int) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		err := c.split(ctx, set, n, func(uri string) bool { return yield(uri, nil) })
		if err != nil {
			yield("", fmt.Errorf("split %s into runs of %d: %w", set, n, c.db.explain(err)))
		}
	}
}

func (c *Catalog) split(ctx context.Context, set string, n int, yield func(string) bool) error {
	if n < 1 {
		return errors.New("want runs of at least 1")
	}
	tx, err := c.db.read.BeginTx(ctx, snapshot)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	defer tx.Rollback() // nothing was written
	// Stepping over rows of the key is all the work.
	const selectNth = `SELECT uri FROM catalog_resource WHERE set_id = ` + setNamed + ` AND uri >= $2 ORDER BY uri LIMIT 1 OFFSET $3`
	nth, err := tx.PrepareContext(ctx, selectNth)
	if err != nil {
		return err
	}
	defer nth.Close()
	for uri := ""; ; {
		err := nth.QueryRowContext(ctx, set, uri, n).Scan(&uri)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if !yield(uri) {
			return nil
		}
	}
}

// Changes implements [catalog.Catalog].
func (c *Catalog) Changes(ctx context.Context, set string, after catalog.Seq) iter.Seq2[catalog.Change, error] {
	const selectAfter = `SELECT change, uri, record FROM catalog_change WHERE set_id = ` + setNamed + ` AND seq > $2 ORDER BY seq`
	return func(yield func(catalog.Change, error) bool) {
		var ch catalog.Change
		var packed sql.RawBytes
		err := c.db.Each(ctx, selectAfter, []any{set, int64(after)}, func(rows *sql.Rows) (bool, error) {
			if err := rows.Scan(&ch.Change, &ch.URI, &packed); err != nil {
				return false, err
			}
			if err := column.ParseRecord(packed, &ch.Record); err != nil {
				return false, fmt.Errorf("change of %q: %w", ch.URI, err)
			}
			return yield(ch, nil), nil
		})
		if err != nil {
			yield(catalog.Change{}, fmt.Errorf("read changes of %s: %w", set, err))
		}
	}
}

// Refreshed implements [catalog.Catalog].
func (c *Catalog) Refreshed(ctx context.Context, set string, m catalog.Mark) iter.Seq2[string, error] {
	const selectAfter = `SELECT uri FROM catalog_refreshed WHERE set_id = ` + setNamed + ` AND at > $2 ORDER BY uri`
	return func(yield func(string, error) bool) {
		var uri string
		err := c.db.Each(ctx, selectAfter, []any{set, m.At.UnixMicro()}, func(rows *sql.Rows) (bool, error) {
			if err := rows.Scan(&uri); err != nil {
				return false, err
			}
			return yield(uri, nil), nil
		})
		if err != nil {
			yield("", fmt.Errorf("read refreshed resources of %s: %w", set, err))
		}
	}
}

// Mark implements [catalog.Catalog].
func (c *Catalog) Mark(ctx context.Context, set string) (catalog.Mark, error) {
	return c.MarkAfter(ctx, set, time.Time{})
}

// MarkAfter implements [catalog.LaterMarker].
func (c *Catalog) MarkAfter(ctx context.Context, set string, at time.Time) (mark catalog.Mark, err error) {
	err = c.change(ctx, set, func(tx *sql.Tx, s *setRow) error {
		s.floor = max(s.floor, c.db.clock().UnixMicro(), at.UnixMicro())
		mark = catalog.Mark{Seq: s.lastSeq, At: time.UnixMicro(s.floor).UTC()}
		if !s.keptAt.Valid {
			s.keptSeq, s.keptAt = s.lastSeq, sql.NullInt64{Int64: s.floor, Valid: true}
		}
		return s.save(ctx, tx)
	})
	if err != nil {
		return catalog.Mark{}, fmt.Errorf("mark %s: %w", set, err)
	}
	return mark, nil
}

// Forget implements [catalog.Catalog].
func (c *Catalog) Forget(ctx context.Context, set string, m catalog.Mark) error {
	err := c.change(ctx, set, func(tx *sql.Tx, s *setRow) error {
		if s.keptAt.Valid && m.Seq <= s.keptSeq {
			return nil
		}
		at := m.At.UnixMicro()
		if !s.keptAt.Valid || m.Seq > s.lastSeq || at > s.floor {
			return catalog.ErrMark
		}
		// The last change to forget is not after the Mark, the first to keep is.
		const between = `SELECT COUNT(*) FROM catalog_change
			WHERE set_id = $1 AND seq IN ($2, $3) AND (seq = $2) = (event > $4)`
		var wrong int
		if err := tx.QueryRowContext(ctx, between, s.id, int64(m.Seq), int64(m.Seq)+1, at).Scan(&wrong); err != nil {
			return err
		}
		if wrong > 0 {
			return catalog.ErrMark
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM catalog_change WHERE set_id = $1 AND seq <= $2`, s.id, int64(m.Seq)); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM catalog_refreshed WHERE set_id = $1 AND at <= $2`, s.id, at); err != nil {
			return err
		}
		s.keptSeq, s.keptAt.Int64 = m.Seq, at
		return s.save(ctx, tx)
	})
	if err != nil {
		return fmt.Errorf("forget changes of %s up to %d at %s: %w", set, m.Seq, m.At.Format(time.RFC3339Nano), err)
	}
	return nil
}

// Status implements [catalog.Catalog].
func (c *Catalog) Status(ctx context.Context, set string) (catalog.Status, error) {
	var s setRow
	err := c.db.one(ctx, selectSet, []any{set}, s.values()...)
	if errors.Is(err, sql.ErrNoRows) {
		return catalog.Status{}, nil
	}
	if err != nil {
		return catalog.Status{}, fmt.Errorf("read status of %s: %w", set, err)
	}
	st := catalog.Status{Resources: s.resources, Last: s.lastSeq}
	if s.lastSeq > 0 {
		st.LastTime = time.UnixMicro(s.lastEvent).UTC()
	}
	if s.keptAt.Valid {
		st.Kept = catalog.Mark{Seq: s.keptSeq, At: time.UnixMicro(s.keptAt.Int64).UTC()}
	}
	return st, nil
}

// change runs f in a write transaction with exclusive access to the set.
func (c *Catalog) change(ctx context.Context, set string, f func(*sql.Tx, *setRow) error) error {
	if err := catalog.Check(set, nil); err != nil {
		return err
	}
	return c.db.Update(ctx, func(tx *sql.Tx) error {
		s, err := c.lock(ctx, tx, set)
		if err != nil {
			return fmt.Errorf("lock set: %w", err)
		}
		return f(tx, s)
	})
}
