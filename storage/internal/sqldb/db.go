// Package sqldb is the SQL behind the stores: catalog, journal and the memory of
// a hub, written once for every engine.
//
// The text keeps to what SQLite and PostgreSQL both run: $1 parameters, TEXT,
// BIGINT (times are microseconds since 1970), SMALLINT, BYTEA; multi-row VALUES,
// ON CONFLICT … DO UPDATE, RETURNING; prefixes as ranges; ids given out by us.
// What cannot be the same is a method of [Dialect].
package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// A Dialect is what an engine does its own way.
type Dialect interface {
	// Schema returns the text of a migration, which is PostgreSQL's, as the
	// engine wants it.
	Schema(text string) string

	// Param is the n-th parameter, counted from 1, of a statement in which
	// every one stands once and in order.
	Param(n int) string

	// ForUpdate ends a SELECT by key in a write transaction which will change
	// the row, so that no other transaction does.
	ForUpdate() string

	// Again reports whether what failed may succeed when it is repeated, and did
	// nothing yet: others ran at the same time and came first, or the connection
	// was dead. Committing is whether it was the end of a transaction: nobody
	// knows what became of one whose connection went just then.
	Again(err error, committing bool) bool

	// Explain returns err with what the operating system said behind it, as
	// far as others branch on it: syscall.ENOSPC where there is no more room.
	Explain(err error) error
}

// Options configures a [DB]. The zero value is ready to use.
type Options struct {
	Clock   func() time.Time // default: time.Now
	Name    string           // of the database, which errors of writing name too; may be empty
	Scratch string           // directory for scratch files; may be empty

	// There says why what was committed would not be found again, if the
	// database was removed while it is open; may be nil.
	There func() error
}

// A DB is an open database with the schema this program knows.
type DB struct {
	write   *sql.DB
	read    *sql.DB
	dialect Dialect
	clock   func() time.Time
	scratch string
	name    string // empty until the database is open: whoever opens it names it
	there   func() error
	closed  atomic.Bool
	checked check

	prepared sync.Map // *sql.Stmt of read by text, see queryPrepared
}

// New checks the schema of an open database, brings it up to date where it is
// older, and refuses it where it is newer ([ErrNewer]). Writes go to write and
// readings to read; they may be the same. Close closes both.
func New(ctx context.Context, write, read *sql.DB, d Dialect, o Options) (*DB, error) {
	db := &DB{write: write, read: read, dialect: d, clock: o.Clock, scratch: o.Scratch, there: o.There}
	if db.clock == nil {
		db.clock = time.Now
	}
	if db.there == nil {
		db.there = func() error { return nil }
	}
	if err := db.migrate(ctx); err != nil {
		return nil, err
	}
	db.name = o.Name
	return db, nil
}

// maxCloseWait is how many milliseconds Close waits for readings to end.
const maxCloseWait = 1000

// Close closes the database.
func (db *DB) Close() error {
	db.closed.Store(true)
	if db.read == db.write {
		return db.write.Close()
	}
	// The writer goes last: SQLite tidies up when the last connection closes,
	// and readers may not write. A reading whose context ended gives its
	// connection back in its own time, which is soon.
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for i := 0; i < maxCloseWait && db.read.Stats().InUse > 0; i++ {
		<-tick.C
	}
	return errors.Join(db.read.Close(), db.write.Close())
}

// What fails because of others, or of a dead connection, is repeated this often,
// after waits that are longer each time.
const (
	maxRepeats  = 20
	repeatPause = time.Millisecond
)

// Update runs f in a write transaction, which is durable when Update returns
// nil. F may run again from the start, in another transaction.
func (db *DB) Update(ctx context.Context, f func(tx *sql.Tx) error) error {
	err := db.repeat(ctx, func() (committing bool, err error) {
		tx, err := db.write.BeginTx(ctx, nil)
		if err != nil {
			return false, fmt.Errorf("begin transaction: %w", err)
		}
		if err := f(tx); err != nil {
			_ = tx.Rollback() // err says more
			return false, err
		}
		if err := tx.Commit(); err != nil {
			return true, fmt.Errorf("commit transaction: %w", err)
		}
		return false, db.there()
	})
	if err == nil || ctx.Err() != nil {
		return err
	}
	return db.named(err)
}

// repeat calls f until it succeeds or there is no point in going on.
func (db *DB) repeat(ctx context.Context, f func() (committing bool, err error)) error {
	for i := 1; ; i++ {
		committing, err := f()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err() // err is how it showed
		}
		if i > maxRepeats || !db.dialect.Again(err, committing) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(rand.N(time.Duration(i) * repeatPause)):
		}
	}
}

// query begins a reading.
func (db *DB) query(ctx context.Context, query string, args ...any) (rows *sql.Rows, err error) {
	err = db.repeat(ctx, func() (bool, error) {
		rows, err = db.read.QueryContext(ctx, query, args...)
		return false, err
	})
	if err != nil {
		return nil, db.dialect.Explain(err)
	}
	return rows, nil
}

// queryPrepared begins a reading with a statement that is compiled once for each
// connection: that can take longer than running it. The text must be a constant.
func (db *DB) queryPrepared(ctx context.Context, text string, args ...any) (rows *sql.Rows, err error) {
	err = db.repeat(ctx, func() (bool, error) {
		s, ok := db.prepared.Load(text)
		if !ok {
			fresh, err := db.read.PrepareContext(ctx, text) // closed with the connections
			if err != nil {
				return false, fmt.Errorf("prepare statement: %w", err)
			}
			if s, ok = db.prepared.LoadOrStore(text, fresh); ok {
				_ = fresh.Close() // another was faster
			}
		}
		rows, err = s.(*sql.Stmt).QueryContext(ctx, args...)
		return false, err
	})
	if err != nil {
		return nil, db.dialect.Explain(err)
	}
	return rows, nil
}

// named says which database it is that is full, or cannot be written, and why.
func (db *DB) named(err error) error {
	err = db.dialect.Explain(err)
	if db.name == "" {
		return err
	}
	return fmt.Errorf("database %s: %w", db.name, err)
}

// snapshot asks for a transaction whose queries all see one state.
var snapshot = &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead}

// Each runs a query, which sees one state, and calls row for every row until it
// returns false.
func (db *DB) Each(ctx context.Context, query string, args []any, row func(*sql.Rows) (bool, error)) error {
	rows, err := db.query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := ctx.Err(); err != nil { // rows.Next notices in its own time
			return err
		}
		if more, err := row(rows); err != nil || !more {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return db.dialect.Explain(err)
	}
	return nil
}
