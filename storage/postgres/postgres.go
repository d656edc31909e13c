// Package postgres opens a PostgreSQL database that stores the state of hubs, so that
// several hubs on several machines can share it, or the state of a Source or a
// Destination, which one process at a time owns ([DB.Own]).
//
// Text is stored as its bytes (BYTEA): any byte is allowed, and the order is that of
// the bytes, whatever the encoding and the locale of the database.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/stdlib"

	"lockstep/storage/internal/sqldb"
)

// Options configures a [DB]. The zero value is ready to use.
type Options struct {
	Clock   func() time.Time // default: time.Now
	Scratch string           // directory for scratch files of the Journal, used for nothing else; default: none

	// Migrate brings an older schema up to date. Otherwise it is refused with [ErrOlder]: other
	// processes, of the version that wrote it, may use it.
	Migrate bool

	// Unfinished also opens a database to which another one was not copied completely. Otherwise it
	// is refused with [ErrUnfinished].
	Unfinished bool

	// ReadOnly creates and changes nothing, and reads an older schema as it is. Writes fail.
	ReadOnly bool
}

// A DB is an open database.
type DB struct {
	*sqldb.DB
	name   string          // in errors
	config *pgx.ConnConfig // of its connections
	owner  atomic.Pointer[Owner]
	write  *sql.DB     // of write transactions
	hubs   atomic.Bool // Hub was called, as for each state
}

const (
	// writers is how many write transactions run at a time: each has to wait for
	// the disk of the server, and what they write is locked anyway.
	writers = 8

	// Readers are opened when needed, and this many are kept open. Their number is
	// not limited: a read within another read must not wait for the end of that.
	idleReaders = 8

	// connectTimeout is the server's time to answer, unless the URL states one.
	connectTimeout = 10 * time.Second
)

// Open opens the database at a URL, postgres://user:password@host:port/name, and
// creates its tables if they do not exist. Parameters are those of libpq
// (sslmode, search_path, …), and so are the environment variables and the
// password file that complete the URL. Errors do not contain the password.
func Open(ctx context.Context, url string) (*DB, error) { return Options{}.Open(ctx, url) }

// Open is [Open] with options.
func (o Options) Open(ctx context.Context, url string) (*DB, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err) // its text has the URL without the password
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	config.DialFunc = dialer(config.ConnectTimeout).DialContext
	if _, ok := config.RuntimeParams["application_name"]; !ok {
		config.RuntimeParams["application_name"] = "lockstep"
	}
	if o.ReadOnly {
		config.RuntimeParams["default_transaction_read_only"] = "on"
	}
	db := &DB{name: nameOf(config), config: config}
	write, read := pool(config, db.setUpWriter), pool(config, setUp)
	db.write = write
	write.SetMaxOpenConns(writers)
	write.SetMaxIdleConns(writers)
	read.SetMaxIdleConns(idleReaders)
	db.DB, err = create(ctx, write, read, sqldb.Options{
		Clock: o.Clock, Name: db.name, Scratch: o.Scratch, Explicit: !o.Migrate, Unfinished: o.Unfinished, ReadOnly: o.ReadOnly, Begin: db.fence,
	})
	if err != nil {
		_ = read.Close() // err is more important
		_ = write.Close()
		if e, ok := errors.AsType[*pgconn.PgError](err); ok && o.ReadOnly && e.Code == "42P01" { // undefined_table
			err = ErrEmpty
		}
		return nil, fmt.Errorf("open database %s: %w", db.name, dialect{}.Explain(err))
	}
	return db, nil
}

// Errors of [Options.Open].
var (
	ErrOlder = sqldb.ErrOlder // the schema is that of an earlier version
	ErrNewer = sqldb.ErrNewer // the schema is that of a later version
	ErrEmpty = errors.New("it has no tables of lockstep")

	ErrUnfinished = sqldb.ErrUnfinished // another database was not copied to it completely
)

// migrationLock is the advisory lock that a process holds during the migration.
// The number is arbitrary.
const migrationLock = 0x6c6f636b73746570

func create(ctx context.Context, write, read *sql.DB, o sqldb.Options) (*sqldb.DB, error) {
	tx, err := read.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() // releases the lock; nothing was written
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(migrationLock)); err != nil {
		return nil, fmt.Errorf("wait for others to open it: %w", err)
	}
	return sqldb.New(ctx, write, read, dialect{}, o)
}

// nameOf returns the name of the database in errors.
func nameOf(c *pgx.ConnConfig) string {
	return net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))) + "/" + c.Database
}

func pool(config *pgx.ConnConfig, setUp func(context.Context, *pgx.Conn) error) *sql.DB {
	return sql.OpenDB(connector{stdlib.GetConnector(*config, stdlib.OptionAfterConnect(setUp))})
}

// setUp configures a new connection.
//
// A transaction is on disk when it has ended, even if the server is configured
// not to wait for that.
//
// All reads are by key and in the order of the key. setUp configures the planner
// accordingly: without statistics of a table that has just been filled, it would
// read the whole table for every page. It would also consider other plans so
// expensive that it would compile them.
func setUp(ctx context.Context, c *pgx.Conn) error {
	registerTypes(c.TypeMap())
	const settings = `SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'
		UNION ALL SELECT set_config(name, 'off', false) FROM pg_settings
		WHERE name IN ('enable_seqscan', 'enable_bitmapscan', 'enable_hashjoin', 'enable_sort', 'jit')`
	_, err := c.Exec(ctx, settings, oneTrip)
	return err
}

// registerTypes registers the types of parameters. The driver has them, and arrays of all of
// them, unless it was built with the tag nopgxregisterdefaulttypes, as releases are, which
// makes the program smaller by 1.4 MB.
func registerTypes(m *pgtype.Map) {
	for typ, values := range map[string][]any{
		"int2": {int16(0)}, "int4": {int32(0)}, "int8": {int64(0), 0, int8(0), uint8(0), uint16(0), uint32(0)}, "numeric": {uint64(0), uint(0)},
		"float4": {float32(0)}, "float8": {float64(0)}, "bool": {false}, "text": {""}, "bytea": {[]byte(nil)}, "timestamptz": {time.Time{}},
	} {
		for _, v := range values {
			m.RegisterDefaultPgType(v, typ)
		}
	}
}

// dialect is PostgreSQL's.
type dialect struct{}

var text = regexp.MustCompile(`\bTEXT\b(\s+COLLATE "C")?`)

// Schema implements [sqldb.Dialect].
func (dialect) Schema(s string) string { return text.ReplaceAllString(s, "BYTEA") }

// Param implements [sqldb.Dialect].
func (dialect) Param(n int) string { return "$" + strconv.Itoa(n) }

// ForUpdate implements [sqldb.Dialect].
func (dialect) ForUpdate() string { return " FOR UPDATE" }

// Again implements [sqldb.Dialect]. A key that exists already was inserted by a
// concurrent transaction.
func (dialect) Again(err error, committing bool) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code {
		// serialization_failure, deadlock_detected, unique_violation, idle_in_transaction_session_timeout
		case "40001", "40P01", "23505", "25P03":
			return true
		case "57P01", "57P02", "57P03": // admin_shutdown, crash_shutdown, cannot_connect_now
			return !committing
		}
		return false
	}
	return pgconn.SafeToRetry(err) || !committing && isNetwork(err)
}

// Explain implements [sqldb.Dialect].
func (dialect) Explain(err error) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code {
		case "53100": // disk_full
			return &serverError{err, syscall.ENOSPC, "free space on the server of the database, and run the same command again: what is finished is kept"}
		case "25006": // read_only_sql_transaction
			return &serverError{err, syscall.EROFS, "give the address of the primary server: a standby, and a server that is read-only, take no changes"}
		}
	}
	if (isDown(err) || dialect{}.Again(err, false)) && !errors.Is(err, context.Canceled) {
		return &unavailableError{err}
	}
	return err
}

// ErrUnavailable reports that a request to the database was not answered, or refused for a reason that
// passes: it may succeed later.
var ErrUnavailable = errors.New("the database is not available")

// An unavailableError is ErrUnavailable with the cause, which is all of its text.
type unavailableError struct{ cause error }

func (e *unavailableError) Error() string { return e.cause.Error() }

// Unwrap returns the cause.
func (e *unavailableError) Unwrap() error { return e.cause }

// Is reports whether target is ErrUnavailable.
func (e *unavailableError) Is(target error) bool { return target == ErrUnavailable }

// A serverError is an error of the server, with what it means.
type serverError struct {
	error
	is   error
	hint string
}

// Unwrap returns both.
func (e *serverError) Unwrap() []error { return []error{e.error, e.is} }

// Hint returns what to do.
func (e *serverError) Hint() string { return e.hint }
