package sqldb

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/destination"
	"lockstep/resourcesync"
)

// Record implements [destination.Journal].
func (j *Journal) Record(ctx context.Context, b destination.Batch) error {
	return j.db.update(ctx, func(tx *sql.Tx) error {
		if err := putHeld(ctx, tx, b.Put); err != nil {
			return fmt.Errorf("record held: %w", err)
		}
		if err := dropHeld(ctx, tx, b.Drop); err != nil {
			return fmt.Errorf("drop held: %w", err)
		}
		if err := putOwed(ctx, tx, b.Owe); err != nil {
			return fmt.Errorf("record owed: %w", err)
		}
		for _, o := range b.Settle {
			const settle = `DELETE FROM journal_owed WHERE set_no = $1 AND uri = $2`
			if _, err := tx.ExecContext(ctx, settle, o.Set, o.URI); err != nil {
				return fmt.Errorf("settle owed: %w", err)
			}
		}
		for name, value := range b.Save {
			if err := saveDocument(ctx, tx, name, value); err != nil {
				return fmt.Errorf("save %s: %w", name, err)
			}
		}
		return nil
	})
}

func putHeld(ctx context.Context, tx *sql.Tx, held []destination.Held) error {
	const insert = `INSERT INTO journal_held (` + heldColumns + `) VALUES `
	const conflict = ` ON CONFLICT (uri) DO UPDATE SET path = excluded.path, length = excluded.length,
		lastmod = excluded.lastmod, hashes = excluded.hashes, etag = excluded.etag,
		modified = excluded.modified, sets = excluded.sets`
	return insertRows(ctx, tx, insert, conflict, 8, len(held), func(args []any, i int) []any {
		h := &held[i]
		return append(args, h.URI, h.Path, h.Length, micros(h.Lastmod),
			encodeHashes(h.Hashes), h.ETag, h.Modified, encodeSets(h.Sets))
	})
}

func dropHeld(ctx context.Context, tx *sql.Tx, uris []string) error {
	for chunk := range slices.Chunk(uris, journalKeys) {
		args := make([]any, len(chunk))
		for i, uri := range chunk {
			args[i] = uri
		}
		query := `DELETE FROM journal_held WHERE uri IN (` + placeholders(1, len(chunk)) + `)`
		if _, err := tx.ExecContext(ctx, query, args...); err != nil {
			return err
		}
	}
	return nil
}

func putOwed(ctx context.Context, tx *sql.Tx, owed []destination.Owed) error {
	const insert = `INSERT INTO journal_owed (set_no, uri, entry, cause) VALUES `
	const conflict = ` ON CONFLICT (set_no, uri) DO UPDATE SET entry = excluded.entry, cause = excluded.cause`
	return insertRows(ctx, tx, insert, conflict, 4, len(owed), func(args []any, i int) []any {
		o := &owed[i]
		return append(args, o.Set, o.URI, o.Entry, o.Cause)
	})
}

func saveDocument(ctx context.Context, tx *sql.Tx, name string, value []byte) error {
	if value == nil {
		_, err := tx.ExecContext(ctx, `DELETE FROM journal_document WHERE name = $1`, name)
		return err
	}
	const save = `INSERT INTO journal_document (name, value) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value`
	_, err := tx.ExecContext(ctx, save, name, value)
	return err
}

// Stage implements [destination.Journal].
func (j *Journal) Stage(ctx context.Context, run int, rows []destination.Staged) error {
	return j.db.update(ctx, func(tx *sql.Tx) error {
		if run == 0 && len(rows) == 0 {
			if _, err := tx.ExecContext(ctx, `DELETE FROM journal_staged`); err != nil {
				return fmt.Errorf("empty scratch space: %w", err)
			}
			return nil
		}
		const insert = `INSERT INTO journal_staged (run, uri, data) VALUES `
		err := insertRows(ctx, tx, insert, "", 3, len(rows), func(args []any, i int) []any {
			return append(args, run, rows[i].URI, rows[i].Data)
		})
		if err != nil {
			return fmt.Errorf("stage: %w", err)
		}
		return nil
	})
}

// insertRows runs INSERTs of many rows each. add appends the columns of row i.
func insertRows(ctx context.Context, tx *sql.Tx, insert, conflict string, columns, n int, add func(args []any, i int) []any) error {
	if n == 0 {
		return nil
	}
	var full *sql.Stmt
	if n >= 2*journalRows {
		var err error
		if full, err = tx.PrepareContext(ctx, insert+values(columns, journalRows)+conflict); err != nil {
			return err
		}
		defer full.Close()
	}
	args := make([]any, 0, columns*min(n, journalRows))
	for i := 0; i < n; {
		args = args[:0]
		end := min(n, i+journalRows)
		for ; i < end; i++ {
			args = add(args, i)
		}
		var err error
		if full != nil && len(args) == columns*journalRows {
			_, err = full.ExecContext(ctx, args...)
		} else {
			_, err = tx.ExecContext(ctx, insert+values(columns, len(args)/columns)+conflict, args...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// values returns "($1,$2),($3,$4),…" for so many rows.
func values(columns, rows int) string {
	var b strings.Builder
	for i := range rows {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('(')
		b.WriteString(placeholders(1+i*columns, columns))
		b.WriteByte(')')
	}
	return b.String()
}

// Encodings of the columns that hold several values.

// encodeHashes returns for each hash a byte for the algorithm, one for the
// length of the digest, and the digest. The numbers of the algorithms are
// those of package resourcesync and never change.
func encodeHashes(hs resourcesync.Hashes) []byte {
	if len(hs) == 0 {
		return nil
	}
	b := make([]byte, 0, 64)
	for _, h := range hs {
		b = append(b, byte(h.Algorithm), byte(len(h.Digest)))
		b = append(b, h.Digest...)
	}
	return b
}

var errDamaged = errors.New("damaged value")

func decodeHashes(b []byte) (resourcesync.Hashes, error) {
	var hs resourcesync.Hashes
	for len(b) > 0 {
		if len(b) < 2 || len(b) < 2+int(b[1]) {
			return nil, errDamaged
		}
		n := 2 + int(b[1])
		hs = append(hs, resourcesync.Hash{Algorithm: resourcesync.Algorithm(b[0]), Digest: string(b[2:n])})
		b = b[n:]
	}
	return hs, nil
}

// encodeSets returns the numbers as varints.
func encodeSets(sets []int) []byte {
	if len(sets) == 0 {
		return nil
	}
	b := make([]byte, 0, len(sets))
	for _, n := range sets {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

func decodeSets(b []byte) ([]int, error) {
	var sets []int
	for len(b) > 0 {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			return nil, errDamaged
		}
		sets, b = append(sets, int(n)), b[size:]
	}
	return sets, nil
}

// micros is t as a column, NULL for the zero time.
func micros(t time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: t.UnixMicro(), Valid: !t.IsZero()}
}

func timeOf(n sql.NullInt64) time.Time {
	if !n.Valid {
		return time.Time{}
	}
	return time.UnixMicro(n.Int64).UTC()
}
