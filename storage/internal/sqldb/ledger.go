package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"strings"
	"time"

	"lockstep/intake/harvest/ledger"
	"lockstep/storage/internal/column"
)

// Ledger is an [ledger.Ledger].
//
//	ledger_set(id, name)             one row for each set, created at its first use
//	ledger_record(set_id, id, …)     one row for each record of a feed, by its identifier:
//	                                 when its entry was updated (seconds since 1970, and nanoseconds),
//	                                 and the record's resources, encoded
//	ledger_resource(set_id, uri, id) one row for each of these, to find the records of a resource
//
// Only the intake of feeds writes them. Reads are paged, so that a long one neither keeps the
// write-ahead log from being reused nor occupies a connection.
type Ledger struct{ db *DB }

var _ ledger.Ledger = (*Ledger)(nil)

// Ledger returns the Ledger in the database.
func (db *DB) Ledger() *Ledger { return &Ledger{db} }

const ledgerColumns = `id, seconds, nanos, deleted, undecided, resources`

// setID returns the number of a set, or 0.
func (l *Ledger) setID(ctx context.Context, set string) (id int64, err error) {
	rows, err := l.db.queryPrepared(ctx, `SELECT id FROM ledger_set WHERE name = $1`, set)
	ids, err := collect(rows, err, "ledger", nil, func(id *int64) error { return rows.Scan(id) })
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	return ids[0], nil
}

// Lookup implements [ledger.Ledger].
func (l *Ledger) Lookup(ctx context.Context, set string, ids []string) ([]ledger.Row, error) {
	found := make([]ledger.Row, len(ids))
	no, err := l.setID(ctx, set)
	if err != nil || no == 0 {
		return found, err
	}
	at := make(map[string]int, len(ids))
	for i, id := range ids {
		at[id] = i
	}
	for rest := ids; len(rest) > 0; {
		n := min(len(rest), journalKeys)
		args := make([]any, n)
		places := make([]string, n)
		for i, id := range rest[:n] {
			args[i], places[i] = id, l.db.dialect.Param(i+1)
		}
		rest = rest[n:]
		query := fmt.Sprintf(`SELECT %s FROM ledger_record WHERE set_id = %d AND id IN (%s)`, ledgerColumns, no, strings.Join(places, ","))
		rows, err := l.db.query(ctx, query, args...)
		page, err := l.collect(rows, err, nil)
		if err != nil {
			return nil, err
		}
		for _, r := range page {
			found[at[r.ID]] = r
		}
	}
	for i, id := range ids { // an id may occur twice
		if first := at[id]; first != i {
			found[i] = found[first]
		}
	}
	return found, nil
}

// Owners implements [ledger.Ledger].
func (l *Ledger) Owners(ctx context.Context, set string, uris []string, except func(id string) bool) ([]string, error) {
	owners := make([]string, len(uris))
	no, err := l.setID(ctx, set)
	if err != nil || no == 0 {
		return owners, err
	}
	for i, uri := range uris {
		rows, err := l.db.queryPrepared(ctx, `SELECT id FROM ledger_resource WHERE set_id = $1 AND uri = $2 ORDER BY id`, no, uri)
		if err == nil {
			owners[i], err = firstOwner(rows, except)
		}
		if err != nil {
			return nil, fmt.Errorf("read owners of %s: %w", uri, err)
		}
	}
	return owners, nil
}

func firstOwner(rows *sql.Rows, except func(id string) bool) (id string, err error) {
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(&id); err != nil {
			return "", err
		}
		if !except(id) {
			return id, nil
		}
	}
	return "", rows.Err()
}

// Rows implements [ledger.Ledger].
func (l *Ledger) Rows(ctx context.Context, set string) iter.Seq2[ledger.Row, error] {
	return l.rows(ctx, set, `SELECT `+ledgerColumns+` FROM ledger_record
		WHERE set_id = $1 AND id > $2 ORDER BY id LIMIT $3`)
}

// Open implements [ledger.Ledger].
func (l *Ledger) Open(ctx context.Context, set string) iter.Seq2[ledger.Row, error] {
	return l.rows(ctx, set, `SELECT `+ledgerColumns+` FROM ledger_record
		WHERE set_id = $1 AND id > $2 AND undecided <> 0 ORDER BY id LIMIT $3`)
}

func (l *Ledger) rows(ctx context.Context, set, query string) iter.Seq2[ledger.Row, error] {
	return pages("", func(r ledger.Row) string { return r.ID },
		func(after string, page []ledger.Row) ([]ledger.Row, error) {
			no, err := l.setID(ctx, set)
			if err != nil || no == 0 {
				return page, err
			}
			rows, err := l.db.queryPrepared(ctx, query, no, after, journalPage)
			return l.collect(rows, err, page)
		})
}

// URIs implements [ledger.Ledger].
func (l *Ledger) URIs(ctx context.Context, set string) iter.Seq2[string, error] {
	const query = `SELECT DISTINCT uri FROM ledger_resource WHERE set_id = $1 AND uri > $2 ORDER BY uri LIMIT $3`
	return pages("", func(uri string) string { return uri }, func(after string, page []string) ([]string, error) {
		no, err := l.setID(ctx, set)
		if err != nil || no == 0 {
			return page, err
		}
		rows, err := l.db.queryPrepared(ctx, query, no, after, journalPage)
		return collect(rows, err, "ledger", page, func(uri *string) error { return rows.Scan(uri) })
	})
}

// collect appends the rows of a query to rs.
func (l *Ledger) collect(rows *sql.Rows, err error, rs []ledger.Row) ([]ledger.Row, error) {
	return collect(rows, err, "ledger", rs, func(r *ledger.Row) error { return scanLedger(rows, r) })
}

func scanLedger(rows *sql.Rows, r *ledger.Row) error {
	var seconds, nanos int64
	var deleted, open int
	var packed sql.RawBytes
	if err := rows.Scan(&r.ID, &seconds, &nanos, &deleted, &open, &packed); err != nil {
		return err
	}
	r.Updated, r.Deleted, r.Open = time.Unix(seconds, nanos).UTC(), deleted != 0, ledger.Open(open)
	var err error
	rest := string(packed) // one copy for all
	if r.Resources, rest, err = column.CutResources(rest); err == nil {
		r.Next, rest, err = column.CutResources(rest)
	}
	if err == nil && rest != "" {
		err = column.ErrDamaged
	}
	if err != nil {
		return fmt.Errorf("record %s: %w", r.ID, err)
	}
	return nil
}
