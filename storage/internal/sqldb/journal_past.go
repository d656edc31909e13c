package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"lockstep/destination/journal"
	"lockstep/storage/internal/column"
)

const pastColumns = `uri, seq, was, path, length, lastmod, hashes, sets, digest`

// Past implements [journal.Journal].
func (j *Journal) Past(ctx context.Context, from, to string, after int64) iter.Seq2[journal.Past, error] {
	type place struct {
		uri string
		seq int64
	}
	return pagesFrom(place{from, after}, func(p journal.Past) place { return place{p.URI, p.Seq} },
		func(last place, page []journal.Past) ([]journal.Past, error) {
			var b strings.Builder
			b.WriteString(`SELECT ` + pastColumns + ` FROM journal_past WHERE `)
			var args []any
			param := func(v any) string {
				args = append(args, v)
				return j.db.dialect.Param(len(args))
			}
			if last == (place{from, after}) {
				b.WriteString(`uri >= ` + param(from))
			} else { // after the first page, from its end
				b.WriteString(`(uri, seq) > (` + param(last.uri) + `, ` + param(last.seq) + `)`)
			}
			if to != "" {
				b.WriteString(` AND uri < ` + param(to))
			}
			if after > 0 {
				b.WriteString(` AND seq > ` + param(after))
			}
			b.WriteString(` ORDER BY uri, seq LIMIT ` + param(journalPage))
			return j.queryPast(ctx, page, b.String(), args...)
		})
}

// queryPast appends the rows of a query to ps.
func (j *Journal) queryPast(ctx context.Context, ps []journal.Past, query string, args ...any) ([]journal.Past, error) {
	rows, err := j.db.query(ctx, query, args...)
	return collect(rows, err, "past from journal", ps, func(p *journal.Past) error {
		var lastmod sql.NullInt64
		var hashes, sets, digest sql.RawBytes
		if err := rows.Scan(&p.URI, &p.Seq, &p.Was, &p.Path, &p.Length, &lastmod, &hashes, &sets, &digest); err != nil {
			return err
		}
		p.Lastmod = timeOf(lastmod)
		var err error
		if p.Hashes, err = column.DecodeHashes(hashes); err != nil {
			return fmt.Errorf("%s: %w", p.URI, err)
		}
		if p.Sets, err = column.DecodeSets(sets); err != nil {
			return fmt.Errorf("%s: %w", p.URI, err)
		}
		if n := copy(p.Digest[:], digest); n != len(digest) || n != 0 && n != len(p.Digest) {
			return fmt.Errorf("%s: %w", p.URI, column.ErrDamaged)
		}
		return nil
	})
}

// Instant implements [journal.Journal].
func (j *Journal) Instant(ctx context.Context, at time.Time) (journal.Instant, error) {
	const newest = `SELECT at, seq, note FROM journal_instant WHERE at <= $1 ORDER BY at DESC LIMIT 1`
	var i journal.Instant
	var when int64
	err := j.db.one(ctx, newest, []any{at.UnixMicro()}, &when, &i.Seq, &i.Note)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return journal.Instant{}, nil
	case err != nil:
		return journal.Instant{}, fmt.Errorf("read instant from journal: %w", err)
	}
	i.At = time.UnixMicro(when).UTC()
	return i, nil
}

// ahead records what a batch says of the past.
func (j *Journal) ahead(ctx context.Context, tx *sql.Tx, b *journal.Batch) error {
	const forget = `DELETE FROM journal_past WHERE uri = $1 AND seq = $2`
	for i := range b.Forget {
		if _, err := tx.ExecContext(ctx, forget, b.Forget[i].URI, b.Forget[i].Seq); err != nil {
			return fmt.Errorf("forget past: %w", err)
		}
	}
	put := j.db.bulk(tx, `INSERT INTO journal_past (`+pastColumns+`) VALUES`, 9, ` ON CONFLICT (uri, seq) DO NOTHING`)
	for i := range b.Past {
		p := &b.Past[i]
		var digest []byte
		if p.Digest != (journal.Past{}).Digest {
			digest = p.Digest[:]
		}
		err := put.exec(ctx, p.URI, p.Seq, int64(p.Was), p.Path, p.Length, micros(p.Lastmod), column.EncodeHashes(p.Hashes), column.EncodeSets(p.Sets), digest)
		if err != nil {
			return fmt.Errorf("record past: %w", err)
		}
	}
	if err := put.flush(ctx); err != nil {
		return fmt.Errorf("record past: %w", err)
	}
	if b.Since > 0 {
		if _, err := tx.ExecContext(ctx, `DELETE FROM journal_instant WHERE seq < $1`, b.Since); err != nil {
			return fmt.Errorf("forget instants: %w", err)
		}
	}
	if b.Instant.At.IsZero() {
		return nil
	}
	const set = `INSERT INTO journal_instant (at, seq, note) VALUES ($1, $2, $3)
		ON CONFLICT (at) DO UPDATE SET seq = excluded.seq, note = excluded.note`
	if _, err := tx.ExecContext(ctx, set, b.Instant.At.UnixMicro(), b.Instant.Seq, b.Instant.Note); err != nil {
		return fmt.Errorf("record instant: %w", err)
	}
	return nil
}
