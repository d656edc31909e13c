package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"lockstep/memento"
	"lockstep/storage/internal/column"
)

// Versions is a [memento.Store]. Only Append and Drop write its tables
// (migrations/memento), each in its transaction.
//
//	memento_set		one row for each set, created at its first use
//		id		identifies the set in the other tables
//		name		the caller's
//		last_seq	the cursor
//		resources	how many resources it ever had: the number of the newest
//
//	memento_resource	one row for each resource that has or had versions
//		set_id, uri	the key
//		no		identifies the resource in memento_version, in place of its long
//				URI; there are many more versions than resources
//		dropped		time of the latest version dropped, or NULL
//
//	memento_version		one row for each version
//		set_id, no, at	the key. The rows that a TimeGate reads for a resource are adjacent
//		gone		0 or 1, as in version
//		version		the rest (versions_record.go)
//
// A resource that is in several sets has a row in each; a TimeGate, which does not
// know the set, searches all of them. There are few sets.
type Versions struct{ db *DB }

var _ memento.Store = (*Versions)(nil)

// Versions returns the versions in the database.
func (db *DB) Versions() *Versions { return &Versions{db} }

// Cursor implements [memento.Store].
func (v *Versions) Cursor(ctx context.Context, set string) (cursor int64, err error) {
	err = v.db.one(ctx, `SELECT last_seq FROM memento_set WHERE name = $1`, []any{set}, &cursor)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("read cursor of the versions of %s: %w", set, err)
	}
	return cursor, nil
}

// reading runs f in a transaction whose queries all see one state.
func (v *Versions) reading(ctx context.Context, f func(*sql.Tx) error) error {
	err := v.db.repeat(ctx, func() (bool, error) {
		tx, err := v.db.read.BeginTx(ctx, snapshot)
		if err != nil {
			return false, fmt.Errorf("begin transaction: %w", err)
		}
		defer tx.Rollback() // nothing was written
		return false, f(tx)
	})
	if err != nil && ctx.Err() == nil {
		return v.db.explain(err)
	}
	return err
}

// setID returns the id of the set, 0 if it was never used.
func setID(ctx context.Context, tx *sql.Tx, set string) (id int64, err error) {
	err = tx.QueryRowContext(ctx, `SELECT id FROM memento_set WHERE name = $1`, set).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return id, err
}

// Last implements [memento.Store].
func (v *Versions) Last(ctx context.Context, set string, uris []string) ([]memento.Version, error) {
	var last []memento.Version
	err := v.reading(ctx, func(tx *sql.Tx) error {
		last = make([]memento.Version, len(uris))
		id, err := setID(ctx, tx, set)
		if id == 0 || err != nil {
			return err
		}
		return v.last(ctx, tx, id, uris, last)
	})
	if err != nil {
		return nil, fmt.Errorf("read the newest versions of %d resources of %s: %w", len(uris), set, err)
	}
	return last, nil
}

func (v *Versions) last(ctx context.Context, tx *sql.Tx, set int64, uris []string, last []memento.Version) error {
	find := v.db.bulkIn(tx, fmt.Sprintf(`SELECT r.uri, r.dropped, v.at, v.version
		FROM memento_resource r LEFT JOIN memento_version v ON v.set_id = r.set_id AND v.no = r.no AND v.at =
			(SELECT MAX(m.at) FROM memento_version m WHERE m.set_id = r.set_id AND m.no = r.no)
		WHERE r.set_id = %d AND r.uri IN`, set))
	first := make(map[string]int, len(uris)) // index of the first occurrence in uris
	var uri string
	var dropped, at sql.NullInt64
	var packed sql.RawBytes
	row := func(rows *sql.Rows) error {
		if err := rows.Scan(&uri, &dropped, &at, &packed); err != nil {
			return err
		}
		l := &last[first[uri]]
		if dropped.Valid && (!at.Valid || dropped.Int64 > at.Int64) {
			*l = memento.Version{URI: uri, At: timeOf(dropped), Gone: true, Event: timeOf(dropped)}
			return nil
		}
		l.URI = uri
		return column.ParseVersion(at.Int64, packed, l)
	}
	for i, uri := range uris {
		if _, ok := first[uri]; ok {
			continue
		}
		first[uri] = i
		if err := find.query(ctx, row, uri); err != nil {
			return err
		}
	}
	if err := find.flushQuery(ctx, row); err != nil {
		return err
	}
	for i, uri := range uris {
		last[i] = last[first[uri]]
	}
	return nil
}
