package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"

	"lockstep/intake"
)

// Contents is an [intake.Contents]. Only its methods write its tables
// (migrations/content).
//
//	content_set	one row for each set, created at its first use
//		id	identifies the set in the other table
//		name	the caller's
//
//	content		one row for each stored version of a resource
//		set_id, uri, hash	the key
//		bytes			typically some hundred bytes, at most some MB; not in
//					the order of the key, because SQLite stores large
//					rows of such tables inefficiently
type Contents struct{ db *DB }

var _ intake.Contents = (*Contents)(nil)

// Contents returns the contents in the database.
func (db *DB) Contents() *Contents { return &Contents{db} }

// update runs f in a transaction with the id of the set.
func (c *Contents) update(ctx context.Context, set string, f func(tx *sql.Tx, id int64) error) error {
	return c.db.Update(ctx, func(tx *sql.Tx) error {
		id, err := c.db.lockSet(ctx, tx, "content_set", set)
		if err != nil {
			return fmt.Errorf("look up set: %w", err)
		}
		return f(tx, id)
	})
}

// Put implements [intake.Contents].
func (c *Contents) Put(ctx context.Context, set string, cs []intake.Content) error {
	err := c.update(ctx, set, func(tx *sql.Tx, id int64) error {
		b := c.db.bulk(tx, `INSERT INTO content (set_id, uri, hash, bytes) VALUES`, 4, ` ON CONFLICT (set_id, uri, hash) DO NOTHING`)
		for i := range cs {
			if err := b.exec(ctx, id, cs[i].URI, cs[i].Hash, cs[i].Bytes); err != nil {
				return err
			}
		}
		return b.flush(ctx)
	})
	if err != nil {
		return fmt.Errorf("keep %d contents of %s: %w", len(cs), set, err)
	}
	return nil
}

// Get implements [intake.Contents].
func (c *Contents) Get(ctx context.Context, set, uri, hash string) (b []byte, err error) {
	const find = `SELECT bytes FROM content WHERE set_id = (SELECT id FROM content_set WHERE name = $1) AND uri = $2 AND hash = $3`
	rows, err := c.db.queryPrepared(ctx, find, set, uri, hash)
	if err != nil {
		return nil, fmt.Errorf("read content of %s: %w", uri, err)
	}
	defer rows.Close()
	if rows.Next() {
		err = rows.Scan(&b)
	} else if err = rows.Err(); err == nil {
		return nil, fmt.Errorf("content of %s: %w", uri, fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("read content of %s: %w", uri, c.db.explain(err))
	}
	return b, nil
}

// Settle implements [intake.Contents].
func (c *Contents) Settle(ctx context.Context, set string, cs []intake.Content) error {
	stay := make(map[string][]any, len(cs)) // hashes to keep, by URI
	for i := range cs {
		stay[cs[i].URI] = append(stay[cs[i].URI], cs[i].Hash)
	}
	err := c.update(ctx, set, func(tx *sql.Tx, id int64) error {
		for uri, hashes := range stay {
			query := `DELETE FROM content WHERE set_id = $1 AND uri = $2`
			for i := range hashes {
				query += fmt.Sprintf(` AND hash <> $%d`, i+3)
			}
			if _, err := tx.ExecContext(ctx, query, append([]any{id, uri}, hashes...)...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("drop old contents of %s: %w", set, err)
	}
	return nil
}

// Drop implements [intake.Contents].
func (c *Contents) Drop(ctx context.Context, set string, uris []string) error {
	err := c.update(ctx, set, func(tx *sql.Tx, id int64) error {
		b := c.db.bulkIn(tx, fmt.Sprintf(`DELETE FROM content WHERE set_id = %d AND uri IN`, id))
		for _, uri := range uris {
			if err := b.exec(ctx, uri); err != nil {
				return err
			}
		}
		return b.flush(ctx)
	})
	if err != nil {
		return fmt.Errorf("drop %d contents of %s: %w", len(uris), set, err)
	}
	return nil
}

// Clear implements [intake.Contents].
func (c *Contents) Clear(ctx context.Context, set string) error {
	err := c.db.Update(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM content WHERE set_id = (SELECT id FROM content_set WHERE name = $1)`, set)
		return err
	})
	if err != nil {
		return fmt.Errorf("drop the contents of %s: %w", set, err)
	}
	return nil
}
