package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"lockstep/destination/journal"
	"lockstep/storage/internal/column"
)

// Record implements [journal.Journal].
func (j *Journal) Record(ctx context.Context, b journal.Batch) error {
	return j.db.Update(ctx, func(tx *sql.Tx) error {
		if err := j.ahead(ctx, tx, &b); err != nil {
			return err
		}
		if err := j.putHeld(ctx, tx, b.Put); err != nil {
			return fmt.Errorf("record held: %w", err)
		}
		if err := j.dropHeld(ctx, tx, b.Drop); err != nil {
			return fmt.Errorf("drop held: %w", err)
		}
		if err := j.putOwed(ctx, tx, b.Owe); err != nil {
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

func (j *Journal) putHeld(ctx context.Context, tx *sql.Tx, held []journal.Held) error {
	put := j.db.bulk(tx, `INSERT INTO journal_held (`+heldColumns+`) VALUES`, 11,
		` ON CONFLICT (uri) DO UPDATE SET path = excluded.path, length = excluded.length,
		lastmod = excluded.lastmod, hashes = excluded.hashes, etag = excluded.etag,
		modified = excluded.modified, sets = excluded.sets, written = excluded.written, tag = excluded.tag, stated = excluded.stated`)
	var all []byte // encoded values of several rows
	value := func(begin int) []byte {
		if begin == len(all) {
			return nil
		}
		return all[begin:len(all):len(all)]
	}
	for i := range held {
		h := &held[i]
		if cap(all)-len(all) < 1<<10 {
			all = make([]byte, 0, 16<<10)
		}
		begin := len(all)
		all = column.AppendHashes(all, h.Hashes)
		hashes := value(begin)
		begin = len(all)
		all = column.AppendSets(all, h.Sets)
		sets := value(begin)
		begin = len(all)
		all = h.AppendStated(all)
		err := put.exec(ctx, h.URI, h.Path, h.Length, microsOrNull(h.Lastmod), hashes, h.ETag, h.Modified, sets, microsOrNull(h.Written), h.Tag, value(begin))
		if err != nil {
			return err
		}
	}
	return put.flush(ctx)
}

func (j *Journal) dropHeld(ctx context.Context, tx *sql.Tx, uris []string) error {
	drop := j.db.bulkIn(tx, `DELETE FROM journal_held WHERE uri IN`)
	for _, uri := range uris {
		if err := drop.exec(ctx, uri); err != nil {
			return err
		}
	}
	return drop.flush(ctx)
}

func (j *Journal) putOwed(ctx context.Context, tx *sql.Tx, owed []journal.Owed) error {
	put := j.db.bulk(tx, `INSERT INTO journal_owed (set_no, uri, entry, cause) VALUES`, 4,
		` ON CONFLICT (set_no, uri) DO UPDATE SET entry = excluded.entry, cause = excluded.cause`)
	for i := range owed {
		o := &owed[i]
		if err := put.exec(ctx, o.Set, o.URI, o.Entry, o.Cause); err != nil {
			return err
		}
	}
	return put.flush(ctx)
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

// micros returns t as a column value, NULL for the zero time.
// microsOrNull is micros as database/sql passes it on.
func microsOrNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

func micros(t time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: t.UnixMicro(), Valid: !t.IsZero()}
}

func timeOf(n sql.NullInt64) time.Time {
	if !n.Valid {
		return time.Time{}
	}
	return time.UnixMicro(n.Int64).UTC()
}
