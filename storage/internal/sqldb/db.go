// Package sqldb implements the stores in SQL: catalog, journal and the state of
// a hub, written once for every engine.
//
// The statements use only what SQLite and PostgreSQL both support: $1
// parameters, TEXT, BIGINT (times are microseconds since 1970), SMALLINT, BYTEA;
// multi-row VALUES, ON CONFLICT … DO UPDATE, RETURNING; prefixes as ranges; ids
// assigned by this package. Differences between the engines are methods of
// [Dialect].
//
// The stores are one package, although it is large, because they share one
// database, its transactions and its migrations.
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

	"lockstep/storage/internal/availability"
)

// A Dialect is the behavior in which engines differ.
type Dialect interface {
	// Schema converts the text of a migration from PostgreSQL's dialect to the
	// engine's.
	Schema(text string) string

	// Param returns the n-th parameter, counted from 1, of a statement in which
	// every parameter occurs once and in order.
	Param(n int) string

	// ForUpdate returns the end of a SELECT by key in a write transaction that will
	// change the row, so that no other transaction does.
	ForUpdate() string

	// Again reports whether a failed operation had no effect and may succeed when
	// it is repeated: concurrent transactions won, or the connection was dead.
	// committing is whether it was the commit of a transaction: if the connection
	// was lost then, the outcome is unknown.
	Again(err error, committing bool) bool

	// Explain returns err wrapping the operating system's error, as far as callers
	// distinguish it: syscall.ENOSPC if the disk is full.
	Explain(err error) error
}

// Options configures a [DB]. The zero value is ready to use.
type Options struct {
	Clock   func() time.Time // default: time.Now
	Name    string           // name of the database in errors of writes; may be empty
	Scratch string           // directory for scratch files; may be empty

	// Explicit refuses an older schema with [ErrOlder], unless the database has none.
	Explicit bool

	// Unfinished also opens a database of which a copy is not complete, see [SetUnfinished].
	Unfinished bool

	// ReadOnly reads an older schema as it is. What a later one has added cannot be read.
	ReadOnly bool

	// There returns an error if committed data would be lost because the database
	// was removed while it is open; may be nil.
	There func() error

	// Begin is called at the beginning of every write transaction, which fails
	// with its error; may be nil.
	Begin func(ctx context.Context, tx *sql.Tx) error
}

// A DB is an open database with the current schema.
type DB struct {
	write   *sql.DB
	read    *sql.DB
	dialect Dialect
	clock   func() time.Time
	scratch string
	name    string // empty while opening: the caller's error names the database
	there   func() error
	begin   func(ctx context.Context, tx *sql.Tx) error
	closed  atomic.Bool
	checked availability.Check

	readOnly bool
	frozen   *sql.Tx    // all reads see its state; nil: each sees that of its beginning
	prepared sync.Map   // *sql.Stmt of read by text, see queryPrepared
	often    statements // of write
}

// New checks the schema of an open database. It migrates an older one, and
// refuses a newer one ([ErrNewer]). Writes use write and reads use read; they
// may be the same. Close closes both.
func New(ctx context.Context, write, read *sql.DB, d Dialect, o Options) (*DB, error) {
	db := &DB{write: write, read: read, dialect: d, clock: o.Clock, scratch: o.Scratch, there: o.There, begin: o.Begin, readOnly: o.ReadOnly}
	if db.clock == nil {
		db.clock = time.Now
	}
	if db.there == nil {
		db.there = func() error { return nil }
	}
	if db.begin == nil {
		db.begin = func(context.Context, *sql.Tx) error { return nil }
	}
	prepare := func(ctx context.Context) error { return db.migrate(ctx, o) }
	if o.ReadOnly {
		prepare = db.checkVersions
	}
	if err := prepare(ctx); err != nil {
		return nil, err
	}
	db.name = o.Name
	return db, nil
}

// maxCloseWait is how many milliseconds Close waits for connections to be returned.
const maxCloseWait = 1000

// Close closes the database.
func (db *DB) Close() error {
	db.closed.Store(true)
	db.checked.End()
	if db.frozen != nil {
		_ = db.frozen.Rollback() // nothing was written
	}
	if db.read == db.write {
		return db.write.Close()
	}
	// The writer is closed last: SQLite cleans up when the last connection closes,
	// and readers may not write. A read or a transaction whose context has ended
	// returns its connection shortly after.
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for i := 0; i < maxCloseWait && db.read.Stats().InUse+db.write.Stats().InUse > 0; i++ {
		<-tick.C
	}
	return errors.Join(db.read.Close(), db.write.Close())
}

// An operation that fails because of concurrent transactions or a dead
// connection is repeated this often, after increasing waits.
const (
	maxRepeats  = 20
	repeatPause = time.Millisecond
)

// Freeze lets all reads with [DB.Each] see the state of now, until ctx ends. They must be made one
// at a time.
func (db *DB) Freeze(ctx context.Context) error {
	tx, err := db.read.BeginTx(ctx, snapshot)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", db.dialect.Explain(err))
	}
	db.frozen = tx
	return nil
}

// Update runs f in a write transaction, which is durable when Update returns
// nil. f may run again from the start, in another transaction.
func (db *DB) Update(ctx context.Context, f func(tx *sql.Tx) error) error {
	err := db.repeat(ctx, func() (committing bool, err error) {
		tx, err := db.write.BeginTx(ctx, nil)
		if err != nil {
			return false, fmt.Errorf("begin transaction: %w", err)
		}
		if err = db.begin(ctx, tx); err == nil {
			err = f(tx)
		}
		if err != nil {
			_ = tx.Rollback() // err is more important
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

// repeat calls f until it succeeds or a retry is useless.
func (db *DB) repeat(ctx context.Context, f func() (committing bool, err error)) error {
	for i := 1; ; i++ {
		committing, err := f()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err() // err is a consequence of it
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

// Param returns the n-th parameter of a statement, see [Dialect].
func (db *DB) Param(n int) string { return db.dialect.Param(n) }

// query starts a read.
func (db *DB) query(ctx context.Context, query string, args ...any) (rows *sql.Rows, err error) {
	err = db.repeat(ctx, func() (bool, error) {
		if db.frozen != nil {
			rows, err = db.frozen.QueryContext(ctx, query, args...)
			return true, err // another transaction would see another state
		}
		rows, err = db.read.QueryContext(ctx, query, args...)
		return false, err
	})
	if err != nil {
		return nil, db.explain(err)
	}
	return rows, nil
}

// queryPrepared starts a read with a statement that is compiled once for each
// connection: compiling can take longer than running it. The text must be a
// constant.
func (db *DB) queryPrepared(ctx context.Context, text string, args ...any) (rows *sql.Rows, err error) {
	err = db.repeat(ctx, func() (bool, error) {
		s, ok := db.prepared.Load(text)
		if !ok {
			fresh, err := db.read.PrepareContext(ctx, text) // closed with the connections
			if err != nil {
				return false, fmt.Errorf("prepare statement: %w", err)
			}
			if s, ok = db.prepared.LoadOrStore(text, fresh); ok {
				_ = fresh.Close() // another goroutine was faster
			}
		}
		rows, err = s.(*sql.Stmt).QueryContext(ctx, args...)
		return false, err
	})
	if err != nil {
		return nil, db.explain(err)
	}
	return rows, nil
}

// ErrDamaged is what a [Dialect] explains errors of a damaged database with.
var ErrDamaged = errors.New("damaged database")

// explain explains an error of a read, and names a damaged database.
func (db *DB) explain(err error) error {
	err = db.dialect.Explain(err)
	if db.name != "" && errors.Is(err, ErrDamaged) {
		return fmt.Errorf("database %s: %w", db.name, err)
	}
	return err
}

// named adds the name of the database to an error about a full disk, or about
// one that cannot be written.
func (db *DB) named(err error) error {
	err = db.dialect.Explain(err)
	if db.name == "" {
		return err
	}
	return fmt.Errorf("database %s: %w", db.name, err)
}

// snapshot requests a transaction whose queries all see one state.
var snapshot = &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead}

// Each runs a query, which sees one state, and calls row for every row until it
// returns false.
func (db *DB) Each(ctx context.Context, query string, args []any, row func(*sql.Rows) (bool, error)) error {
	rows, err := db.query(ctx, query, args...)
	if err != nil {
		return err
	}
	return db.each(ctx, rows, row)
}

// one reads the values of the row that a query returns. It returns [sql.ErrNoRows] if there is none.
func (db *DB) one(ctx context.Context, query string, args []any, values ...any) error {
	found := false
	err := db.Each(ctx, query, args, func(rows *sql.Rows) (bool, error) {
		found = true
		return false, rows.Scan(values...)
	})
	if err == nil && !found {
		return sql.ErrNoRows
	}
	return err
}

// eachPrepared is Each with a statement that is compiled once, see queryPrepared.
func (db *DB) eachPrepared(ctx context.Context, text string, args []any, row func(*sql.Rows) (bool, error)) error {
	rows, err := db.queryPrepared(ctx, text, args...)
	if err != nil {
		return err
	}
	return db.each(ctx, rows, row)
}

func (db *DB) each(ctx context.Context, rows *sql.Rows, row func(*sql.Rows) (bool, error)) error {
	defer rows.Close()
	for rows.Next() {
		if err := ctx.Err(); err != nil { // rows.Next may notice later
			return err
		}
		if more, err := row(rows); err != nil || !more {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return db.explain(err)
	}
	return nil
}
