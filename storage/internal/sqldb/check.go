package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"
)

const (
	// checkTime is how long the database may take to answer.
	checkTime = 5 * time.Second
	// checkFor is how long an answer counts: whoever asks whether a process is
	// ready causes no more than one write in that time.
	checkFor = time.Second
)

// A check is the newest answer of the database.
type check struct {
	mu  sync.Mutex // guards what follows; held while the database is asked
	at  time.Time  // by the monotonic clock
	err error
}

// Check reads and writes, changing nothing, and returns why that is not
// possible. What it finds counts for a second.
func (db *DB) Check(ctx context.Context) error {
	c := &db.checked
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.at.IsZero() && time.Since(c.at) < checkFor {
		return c.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTime) // the answer is for others, too
	defer cancel()
	if c.err = db.probe(ctx); c.err != nil && ctx.Err() != nil {
		c.err = fmt.Errorf("database %s: no answer within %v", db.name, checkTime)
	}
	c.at = time.Now()
	return c.err
}

// probe reads a row, and writes it as it was: that needs a lock and room on the
// disk, as any change does.
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
