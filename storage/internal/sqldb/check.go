package sqldb

import (
	"context"
	"database/sql"
)

// Check reads and writes, changing nothing, and returns an error if that is not
// possible within seconds. Its result is valid for a second; on a slow server see
// [availability.Check]. A database that is opened to be read is only read.
func (db *DB) Check(context.Context) error { return db.checked.Result(db.name, db.probe) }

// probe reads a row, and writes it unchanged: like any change, that needs a
// lock and disk space.
func (db *DB) probe(ctx context.Context) error {
	err := db.Each(ctx, `SELECT version FROM schema_version LIMIT 1`, nil, func(*sql.Rows) (bool, error) { return true, nil })
	if err != nil {
		return db.named(err)
	}
	if db.readOnly {
		return nil
	}
	return db.Update(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE schema_version SET version = version WHERE name = 'hub'`)
		return err
	})
}
