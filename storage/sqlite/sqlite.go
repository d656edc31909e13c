// Package sqlite opens a SQLite file that stores catalogs, journals and the other
// state of Sources, Destinations and hubs. It needs no server.
//
//	db, err := sqlite.Open("state.db")
//	cat, journal := db.Catalog(), db.Journal()
//
// The methods of [DB] return the stores. The database is in WAL mode, and every
// transaction is synced before it returns (synchronous=FULL). One connection
// writes; several others read, each a consistent state, without waiting for the
// writer.
package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	driver "modernc.org/sqlite" // registers "sqlite"
	lib "modernc.org/sqlite/lib"

	"lockstep/internal/private"
	"lockstep/storage/internal/sqldb"
)

// Options configures a [DB]. The zero value is ready to use.
type Options struct {
	Clock func() time.Time // default: time.Now
	Idle  time.Duration    // connections that are not used for that long are closed, and opened again when they are needed; default: they stay open
	Cache int              // KiB of cache of the writer, and at most of each reader; default 8 MiB

	Unfinished bool // also opens a database to which another one was not copied completely, instead of refusing it
}

// A DB is an open database.
type DB struct {
	*sqldb.DB
	unchanged func() error // see Unchanged; may be nil
}

// Unchanged returns an error if another process has changed the database since it was opened by
// [OpenReader] while no process used it: what was read may be of several states.
func (db *DB) Unchanged() error {
	if db.unchanged == nil {
		return nil
	}
	return db.unchanged()
}

const (
	// Readers are opened when needed, and this many are kept open. Their number is
	// not limited: a read within another read must not wait for the end of that.
	idleReaders = 8

	// Caches in KiB. Other pages are in the operating system's cache, which is
	// nearly as fast; these caches exist once per connection.
	writerCache = 8 << 10
	readerCache = 2 << 10

	// The write-ahead log is copied into the database when it has this many pages.
	// Pages that are written repeatedly are copied once; a longer log is slower to
	// read. After a large transaction it is truncated to this size.
	walPages = 4000
	pageSize = 4096 // SQLite's default

	// busyTimeout is how long an operation waits for another process that writes.
	busyTimeout = 10 * time.Second

	// busyPause is the pause between attempts if SQLite does not wait.
	busyPause = 10 * time.Millisecond
)

// Open opens the database in the file path, and creates it if it does not
// exist.
func Open(path string) (*DB, error) { return Options{}.Open(path) }

// Open is [Open] with options.
func (o Options) Open(path string) (*DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	if err := narrow(abs); err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	cache := cmp.Or(o.Cache, writerCache)
	write, err := pool(abs, cache, "_txlock=immediate")
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	read, err := pool(abs, min(cache, readerCache), "_pragma=query_only(1)")
	if err != nil {
		_ = write.Close() // err is more important
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	write.SetMaxOpenConns(1)
	read.SetMaxIdleConns(idleReaders)
	if o.Idle > 0 {
		write.SetConnMaxIdleTime(o.Idle)
		read.SetConnMaxIdleTime(o.Idle)
	}
	connect(write)
	db, err := sqldb.New(context.Background(), write, read, dialect{}, sqldb.Options{Clock: o.Clock, Name: path, Scratch: filepath.Dir(abs), There: there(abs), Unfinished: o.Unfinished})
	if err != nil {
		_ = read.Close() // err is more important
		_ = write.Close()
		return nil, fmt.Errorf("open database %s: %w", path, dialect{}.Explain(err))
	}
	return &DB{DB: db}, nil
}

// OpenReader opens the database in the file path to read it, while another process may write
// to it. It creates and changes nothing, and does not migrate an older schema. Writes fail.
func OpenReader(path string) (*DB, error) {
	abs, err := filepath.Abs(path)
	var was fs.FileInfo
	if err == nil {
		was, err = os.Stat(abs)
	}
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	more, d := "_pragma=query_only(1)&mode=ro", readerDialect{}
	if !hasLog(abs) {
		more += unused
		d.unchanged = func() error { return changed(abs, was) }
	}
	read, err := open(abs, fmt.Sprintf("_pragma=busy_timeout(%d)&_pragma=cache_size(-%d)&%s", busyTimeout.Milliseconds(), readerCache, more))
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	db, err := sqldb.New(context.Background(), read, read, d, sqldb.Options{Name: path, ReadOnly: true})
	if err != nil {
		_ = read.Close() // err is more important
		if strings.Contains(err.Error(), "no such table: schema_version") {
			err = ErrForeign
		}
		return nil, fmt.Errorf("open database %s: %w", path, d.Explain(err))
	}
	return &DB{DB: db, unchanged: d.unchanged}, nil
}

// ErrForeign reports a database of another program, or one that was created just now.
var ErrForeign = errors.New("it has no tables of lockstep")

// unused is the parameter for a file that no process has open: otherwise SQLite creates an index
// of the log, which would be ours. SQLite does not notice if a process changes the file all the same:
// see changed.
const unused = "&immutable=1"

// hasLog reports whether the database has a write-ahead log: a process has it open, or was killed.
func hasLog(abs string) bool {
	_, err := os.Stat(abs + "-wal")
	return !errors.Is(err, fs.ErrNotExist)
}

var errChanged = errors.New("another process changed it while it was being read; run the command again")

// changed returns an error if the file is not as it was. A process that has opened and closed the
// database meanwhile has removed its log, after it has copied it into the file.
func changed(abs string, was fs.FileInfo) error {
	is, err := os.Stat(abs)
	if err == nil && (!os.SameFile(was, is) || is.Size() != was.Size() || !is.ModTime().Equal(was.ModTime())) {
		err = errChanged
	}
	return err
}

// Snapshot writes a consistent copy of the database in the file path, which other processes may
// use, to the new file to.
func Snapshot(ctx context.Context, path, to string) error {
	abs, err := filepath.Abs(path)
	var was fs.FileInfo
	if err == nil {
		was, err = os.Stat(abs)
	}
	if err == nil {
		if to, err = filepath.Abs(to); err == nil {
			if _, serr := os.Lstat(to); serr == nil {
				err = fmt.Errorf("%s: %w", to, fs.ErrExist)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("copy database %s: %w", path, err)
	}
	parameters := fmt.Sprintf("_pragma=busy_timeout(%d)&mode=ro", busyTimeout.Milliseconds())
	if !hasLog(abs) {
		if err := snapshot(ctx, abs, to, parameters+unused); err == nil && !hasLog(abs) && changed(abs, was) == nil {
			return private.Narrow(to)
		}
		_ = os.Remove(to) // another process has opened the database meanwhile
	}
	if err := snapshot(ctx, abs, to, parameters); err != nil {
		_ = os.Remove(to) // it is not whole
		return fmt.Errorf("copy database %s: %w", path, dialect{}.Explain(err))
	}
	return private.Narrow(to)
}

func snapshot(ctx context.Context, abs, to, parameters string) error {
	db, err := open(abs, parameters)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, `VACUUM INTO ?`, to)
	return errors.Join(err, db.Close())
}

// narrow creates the file if it does not exist, and restricts it to its owner:
// SQLite gives its log and its index the mode of the file. SQLite reports
// errors of the creation.
func narrow(path string) error {
	if err := private.File(path); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	for _, end := range []string{"-wal", "-shm", "-journal"} {
		if err := private.Narrow(path + end); err != nil {
			return err
		}
	}
	return nil
}

// pool returns a pool of connections, none of which is open yet.
func pool(abs string, cache int, more string) (*sql.DB, error) {
	return open(abs, strings.Join([]string{
		fmt.Sprintf("_pragma=busy_timeout(%d)", busyTimeout.Milliseconds()),
		"_pragma=journal_mode(WAL)",
		"_pragma=synchronous(FULL)",
		fmt.Sprintf("_pragma=wal_autocheckpoint(%d)", walPages),
		fmt.Sprintf("_pragma=journal_size_limit(%d)", walPages*pageSize),
		fmt.Sprintf("_pragma=cache_size(-%d)", cache),
		more,
	}, "&"))
}

// open returns a pool of connections to a file, with parameters of SQLite.
func open(abs, parameters string) (*sql.DB, error) {
	// As a URI, so that no byte of the path is special to the driver.
	file := url.URL{Scheme: "file", Path: filepath.ToSlash(abs), RawQuery: parameters}
	db, err := sql.Open("sqlite", file.String())
	if err != nil {
		return nil, err
	}
	return db, nil
}

// connect opens the first connection, which puts a new database into WAL mode. If
// several processes do that at the same time, SQLite answers all but one of them
// "busy" without waiting, so connect tries again. Other errors are reported by
// the first statement.
func connect(db *sql.DB) {
	for deadline := time.Now().Add(busyTimeout); ; time.Sleep(busyPause) {
		e, ok := errors.AsType[*driver.Error](db.Ping())
		if !ok || e.Code()&0xff != lib.SQLITE_BUSY || time.Now().After(deadline) {
			return
		}
	}
}

// there returns a function that returns an error if the file at path is no
// longer the one that was there at its first call. SQLite continues to write to
// a file that was removed, and all that it writes is lost.
func there(path string) func() error {
	opened := sync.OnceValues(func() (fs.FileInfo, error) { return os.Stat(path) })
	return func() error {
		was, err := opened()
		if err != nil {
			return err
		}
		is, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("it was removed while in use: %w", err)
		case err == nil && !os.SameFile(was, is):
			return errors.New("it was replaced while in use")
		}
		return nil // a file that cannot be examined may still exist
	}
}

// dialect is SQLite's.
type dialect struct{}

// Schema implements [sqldb.Dialect]. SQLite compares TEXT by bytes by default,
// and stores the rows of a table without rowid in the order of its key.
func (dialect) Schema(text string) string { return schema.Replace(text) }

var schema = strings.NewReplacer(`COLLATE "C"`, "COLLATE BINARY", "/* WITHOUT ROWID */", "WITHOUT ROWID")

// AggregatesText implements [sqldb.TextAggregator].
func (dialect) AggregatesText() {}

// Param implements [sqldb.Dialect]. SQLite treats $1 as a name, and looks names
// up one by one: for many parameters that takes longer than the work itself.
func (dialect) Param(int) string { return "?" }

// ForUpdate implements [sqldb.Dialect]. There is one writer at a time.
func (dialect) ForUpdate() string { return "" }

// Again implements [sqldb.Dialect]. There is one writer at a time.
func (dialect) Again(error, bool) bool { return false }

// Explain implements [sqldb.Dialect].
func (dialect) Explain(err error) error {
	e, ok := errors.AsType[*driver.Error](err)
	if !ok || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EROFS) {
		return err
	}
	switch e.Code() {
	case lib.SQLITE_FULL, lib.SQLITE_IOERR_SHMSIZE:
		return fmt.Errorf("%w: %w", err, syscall.ENOSPC)
	case lib.SQLITE_READONLY:
		return fmt.Errorf("%w: %w", err, syscall.EROFS)
	case lib.SQLITE_NOTADB, lib.SQLITE_CORRUPT:
		return damagedError{err}
	}
	return err
}

// readerDialect is dialect for a database that is only read.
type readerDialect struct {
	dialect
	unchanged func() error // nil: SQLite notices changes
}

// Explain implements [sqldb.Dialect]. A file that was changed meanwhile appears to be damaged.
func (d readerDialect) Explain(err error) error {
	err = d.dialect.Explain(err)
	if d.unchanged != nil && errors.Is(err, ErrDamaged) {
		if cerr := d.unchanged(); cerr != nil {
			return cerr
		}
	}
	return err
}

// ErrDamaged reports a file that is not an SQLite database, or a damaged one.
var ErrDamaged = sqldb.ErrDamaged

// A damagedError is ErrDamaged with the text of the wrapped error.
type damagedError struct{ error }

func (e damagedError) Unwrap() []error { return []error{e.error, ErrDamaged} }
