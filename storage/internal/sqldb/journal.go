package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"strings"

	"lockstep/destination/journal"
	"lockstep/storage/internal/column"
)

// Journal is a [journal.Journal].
//
//	journal_document(name, value)              state of the run and of each set
//	journal_held(uri, path, length, …)         one row for each resource in the mirror
//	journal_owed(set_no, uri, entry, cause)    one row for each failed entry
//	journal_past(uri, seq, was, …)             previous states, replaced by a batch, if versions are kept
//	journal_instant(at, seq, note)             the batches after which runs ended
//
// Only a Destination writes them. The rows of journal_held are in the order of their URIs, in
// which a baseline writes and reads them: sorted keys cost a fifth of random ones. There are no
// other indexes: lookups by path use the URI that the path corresponds to. Reads are paged, so
// that a long one neither keeps the write-ahead log from being reused nor occupies a connection.
type Journal struct{ db *DB }

// Journal returns the Journal in the database.
func (db *DB) Journal() *Journal { return &Journal{db} }

const (
	journalPage = 1000 // rows of one page
	journalKeys = 250  // keys of one SELECT … IN
)

const heldColumns = `uri, path, length, lastmod, hashes, etag, modified, sets, written, tag, stated`

// Load implements [journal.Journal].
func (j *Journal) Load(ctx context.Context, name string) ([]byte, error) {
	var value []byte
	err := j.db.one(ctx, `SELECT value FROM journal_document WHERE name = $1`, []any{name}, &value)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("load %s from journal: %w", name, err)
	}
	return value, nil
}

// Documents returns the names of all documents.
func (j *Journal) Documents(ctx context.Context) (names []string, err error) {
	err = j.db.Each(ctx, `SELECT name FROM journal_document ORDER BY name`, nil, func(rows *sql.Rows) (bool, error) {
		names = append(names, "")
		return true, rows.Scan(&names[len(names)-1])
	})
	return names, err
}

// Lookup implements [journal.Journal].
func (j *Journal) Lookup(ctx context.Context, uris []string) ([]journal.Held, error) {
	held := make([]journal.Held, len(uris))
	at := make(map[string]int, len(uris))
	for i, uri := range uris {
		at[uri] = i
	}
	for rest := uris; len(rest) > 0; {
		n := min(len(rest), journalKeys)
		args := make([]any, n)
		for i, uri := range rest[:n] {
			args[i] = uri
		}
		rest = rest[n:]
		query := `SELECT ` + heldColumns + ` FROM journal_held WHERE uri IN (` + j.placeholders(n) + `)`
		hs, err := j.queryHeld(ctx, nil, query, args...)
		if err != nil {
			return nil, err
		}
		for _, h := range hs {
			held[at[h.URI]] = h
		}
	}
	for i, uri := range uris { // a URI may occur twice
		if first := at[uri]; first != i {
			held[i] = held[first]
		}
	}
	return held, nil
}

// Held implements [journal.Journal].
func (j *Journal) Held(ctx context.Context, from, to string) iter.Seq2[journal.Held, error] {
	return pages(from, func(h journal.Held) string { return h.URI },
		func(after string, page []journal.Held) ([]journal.Held, error) {
			// After the first page, from a URI the page ended with.
			above := ` WHERE uri >= `
			if after != from {
				above = ` WHERE uri > `
			}
			var b strings.Builder
			args := []any{after}
			b.WriteString(`SELECT ` + heldColumns + ` FROM journal_held` + above + j.db.dialect.Param(1))
			if to != "" {
				args = append(args, to)
				b.WriteString(` AND uri < ` + j.db.dialect.Param(2))
			}
			args = append(args, journalPage)
			b.WriteString(` ORDER BY uri LIMIT ` + j.db.dialect.Param(len(args)))
			return j.queryHeld(ctx, page, b.String(), args...)
		})
}

// Owed implements [journal.Journal].
func (j *Journal) Owed(ctx context.Context, set int) iter.Seq2[journal.Owed, error] {
	return j.OwedBetween(ctx, set, "", "")
}

// OwedBetween implements [part.Whole].
func (j *Journal) OwedBetween(ctx context.Context, set int, after, to string) iter.Seq2[journal.Owed, error] {
	const (
		all   = `SELECT uri, entry, cause FROM journal_owed WHERE set_no = $1 AND uri > $2 ORDER BY uri LIMIT $3`
		below = `SELECT uri, entry, cause FROM journal_owed WHERE set_no = $1 AND uri > $2 AND uri < $4 ORDER BY uri LIMIT $3`
	)
	return pages(after, func(o journal.Owed) string { return o.URI },
		func(after string, page []journal.Owed) ([]journal.Owed, error) {
			query, args := all, []any{set, after, journalPage}
			if to != "" {
				query, args = below, append(args, to)
			}
			rows, err := j.db.query(ctx, query, args...)
			return collect(rows, err, "owed from journal", page, func(o *journal.Owed) error {
				o.Set = set
				return rows.Scan(&o.URI, &o.Entry, &o.Cause)
			})
		})
}

// ScratchDir implements [journal.Scratcher]: scratch files go beside the
// database.
func (j *Journal) ScratchDir() (string, bool) { return j.db.scratch, true }

// queryHeld appends the rows of a query to hs.
func (j *Journal) queryHeld(ctx context.Context, hs []journal.Held, query string, args ...any) ([]journal.Held, error) {
	rows, err := j.db.query(ctx, query, args...)
	return collect(rows, err, "held from journal", hs, func(h *journal.Held) error {
		var lastmod, written sql.NullInt64
		var hashes, sets, stated sql.RawBytes
		if err := rows.Scan(&h.URI, &h.Path, &h.Length, &lastmod, &hashes, &h.ETag, &h.Modified, &sets, &written, &h.Tag, &stated); err != nil {
			return err
		}
		h.Lastmod, h.Written = timeOf(lastmod), timeOf(written)
		var err error
		if h.Hashes, err = column.DecodeHashes(hashes); err != nil {
			return fmt.Errorf("%s: %w", h.URI, err)
		}
		if h.Sets, err = column.DecodeSets(sets); err != nil {
			return fmt.Errorf("%s: %w", h.URI, err)
		}
		if err := h.DecodeStated(stated); err != nil { // last: it refers to the rest
			return fmt.Errorf("%s: %w", h.URI, err)
		}
		return nil
	})
}

// collect appends the rows of a query to ts and closes it.
func collect[T any](rows *sql.Rows, err error, what string, ts []T, scan func(*T) error) ([]T, error) {
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	defer rows.Close()
	for rows.Next() {
		var t T
		if err := scan(&t); err != nil {
			return nil, fmt.Errorf("read %s: %w", what, err)
		}
		ts = append(ts, t)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	return ts, nil
}

// pages yields the results of page, called repeatedly with the last key, until
// a page is not full. Each page reuses the memory of the previous one.
func pages[T any](after string, key func(T) string, page func(after string, ts []T) ([]T, error)) iter.Seq2[T, error] {
	return pagesFrom(after, key, page)
}

// pagesFrom is pages of rows whose key is not just a string.
func pagesFrom[T, K any](after K, key func(T) K, page func(after K, ts []T) ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		after := after // an iterator may be used again
		var ts []T
		for {
			var err error
			ts, err = page(after, ts[:0])
			if err != nil {
				var zero T
				yield(zero, err)
				return
			}
			for _, t := range ts {
				after = key(t)
				if !yield(t, nil) {
					return
				}
			}
			if len(ts) < journalPage {
				return
			}
		}
	}
}

// placeholders returns the first n parameters of a statement.
func (j *Journal) placeholders(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(j.db.dialect.Param(i + 1))
	}
	return b.String()
}
