package sqldb

import (
	"context"
	"database/sql"
	"errors"
)

// lockSet returns the id of a set in table, which has a row (id, name) for each
// set. It creates a missing row, and keeps other transactions from changing the
// set until this one ends.
func (db *DB) lockSet(ctx context.Context, tx *sql.Tx, table, set string) (id int64, err error) {
	err = tx.QueryRowContext(ctx, `SELECT id FROM `+table+` WHERE name = $1`+db.dialect.ForUpdate(), set).Scan(&id)
	if !errors.Is(err, sql.ErrNoRows) {
		return id, err
	}
	if id, err = nextID(ctx, tx, table); err != nil {
		return 0, err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO `+table+` (id, name) VALUES ($1, $2)`, id, set)
	return id, err
}

// nextID returns an id that no row of table has. If another transaction uses it
// too, one of them is repeated.
func nextID(ctx context.Context, tx *sql.Tx, table string) (id int64, err error) {
	err = tx.QueryRowContext(ctx, `SELECT COALESCE(MAX(id), 0) + 1 FROM `+table).Scan(&id)
	return id, err
}
