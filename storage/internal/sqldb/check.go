package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"
)

const (
	// checkTime is the timeout of a check.
	checkTime = 5 * time.Second
	// checkFor is how long a result is valid: readiness checks cause at most one
	// write in that time.
	checkFor = time.Second
)

// A check is the result of the latest check.
type check struct {
	mu  sync.Mutex // guards what follows; held during a check
	at  time.Time  // monotonic clock
	err error
}

// Check reads and writes, changing nothing, and returns an error if that is not
// possible. Its result is valid for a second.
func (db *DB) Check(ctx context.Context) error {
	c := &db.checked
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.at.IsZero() && time.Since(c.at) < checkFor {
		return c.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTime) // the result is for other callers too
	defer cancel()
	if c.err = db.probe(ctx); c.err != nil && ctx.Err() != nil {
		c.err = fmt.Errorf("database %s: no answer within %v", db.name, checkTime)
	}
	c.at = time.Now()
	return c.err
}

// probe reads a row, and writes it unchanged: like any change, that needs a
// lock and disk space.
func (db *DB) probe(ctx context.Context) error {
	err := db.Each(ctx, `SELECT version FROM schema_version LIMIT 1`, nil, func(*sql.Rows) (bool, error) { return true, nil })
	if err != nil {
		return db.named(err)
	}
	return db.Update(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE schema_version SET version = version WHERE name = 'hub'`)
		return err
	})
}
