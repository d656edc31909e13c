// Package storage opens the database of a state by its place, whatever the engine: a SQLite file,
// or PostgreSQL. It says what the database contains, examines it, and makes it a copy of another
// one.
package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"lockstep/storage/internal/examine"
	"lockstep/storage/internal/sqldb"
	"lockstep/storage/internal/tables"
	"lockstep/storage/postgres"
	"lockstep/storage/sqlite"
)

// The engines.
const (
	SQLite     = "SQLite"
	PostgreSQL = "PostgreSQL"
)

// A DB is an open database.
type DB struct {
	Engine string // [SQLite] or [PostgreSQL]
	file   string // of SQLite
	db     *sqldb.DB
	owner  *postgres.Owner // of PostgreSQL, if it can be written

	unchanged func() error // whether what was read is one state; may be nil
}

// IsURL reports whether a place is the URL of a PostgreSQL database.
func IsURL(place string) bool {
	return strings.HasPrefix(place, "postgres://") || strings.HasPrefix(place, "postgresql://")
}

// OpenReader opens an existing database to read its present state: at the URL of a PostgreSQL
// database, or in a SQLite file. Other processes may use it, and write to it. The DB must be used
// by one goroutine at a time.
func OpenReader(ctx context.Context, place string) (*DB, error) {
	if IsURL(place) {
		db, err := postgres.Options{ReadOnly: true}.Open(ctx, place)
		if err != nil {
			return nil, err
		}
		return frozen(ctx, &DB{Engine: PostgreSQL, db: db.DB})
	}
	db, err := sqlite.OpenReader(place)
	if err != nil {
		return nil, err
	}
	return frozen(ctx, &DB{Engine: SQLite, file: place, db: db.DB, unchanged: db.Unchanged})
}

func frozen(ctx context.Context, d *DB) (*DB, error) {
	if err := d.db.Freeze(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Open opens a database, and creates its tables if it has none. A SQLite file is created if it does
// not exist, and its schema is brought up to date; a PostgreSQL database with an older one is refused:
// the error wraps [postgres.ErrOlder]. One that [Copy] has not completed is opened. Open takes a PostgreSQL database for this process: the error
// wraps a [postgres.OwnedError] if it belongs to another one, and [postgres.ErrHubs] if hubs use it.
func Open(ctx context.Context, place string) (*DB, error) { return open(ctx, place, false) }

// Migrate brings the schema of a database up to date. It refuses that of another process as [Open]
// does.
func Migrate(ctx context.Context, place string) error {
	db, err := open(ctx, place, true)
	if err != nil {
		return err
	}
	return db.Close()
}

func open(ctx context.Context, place string, migrate bool) (*DB, error) {
	if IsURL(place) {
		return openOwned(ctx, place, migrate)
	}
	db, err := sqlite.Options{Unfinished: true}.Open(place)
	if err != nil {
		return nil, err
	}
	return &DB{Engine: SQLite, file: place, db: db.DB}, nil
}

// CheckFree returns an error that wraps a [postgres.OwnedError] if a PostgreSQL database belongs
// to a process, and one that wraps [postgres.ErrHubs] if hubs use it.
func CheckFree(ctx context.Context, url string) error {
	db, err := postgres.Options{ReadOnly: true}.Open(ctx, url)
	if errors.Is(err, postgres.ErrEmpty) {
		return nil
	}
	if err != nil {
		return err
	}
	by, err := db.OwnedBy(ctx)
	if by != nil {
		err = fmt.Errorf("open database %s: %w", WithoutPassword(url), by)
	}
	if err == nil {
		err = db.CheckHubs(ctx)
	}
	return errors.Join(err, db.Close())
}

// openOwned opens a PostgreSQL database. That of another process is not migrated.
func openOwned(ctx context.Context, url string, migrate bool) (*DB, error) {
	if err := CheckFree(ctx, url); err != nil {
		return nil, err
	}
	db, err := postgres.Options{Migrate: migrate, Unfinished: true}.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	owner, err := db.Own(ctx, postgres.OwnOptions{Name: "lockstep state"})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &DB{Engine: PostgreSQL, db: db.DB, owner: owner}, nil
}

// Close closes the database.
func (d *DB) Close() error {
	var err error
	if d.owner != nil {
		err = d.owner.Close()
	}
	return errors.Join(err, d.db.Close())
}

// A Schema is a part of the database, whose version changes by itself.
type Schema struct {
	Name    string `json:"name"`
	Version int    `json:"version"` // 0: it has no tables yet
	Latest  int    `json:"latest"`  // that this program knows
}

// A Table is one table of a database.
type Table struct {
	Name string `json:"name"`
	Rows int64  `json:"rows"`
}

// An Info is what a database contains.
type Info struct {
	Engine  string   `json:"engine"`
	Version string   `json:"engine_version"`
	Bytes   int64    `json:"bytes"` // on disk
	Schemas []Schema `json:"schemas"`
	Tables  []Table  `json:"tables"` // those that have rows
}

// Info returns what the database contains. It counts all rows.
func (d *DB) Info(ctx context.Context) (Info, error) {
	info := Info{Engine: d.Engine, Tables: []Table{}}
	var err error
	if info.Schemas, err = d.Schemas(ctx); err != nil {
		return info, err
	}
	if info.Version, info.Bytes, err = d.size(ctx); err != nil {
		return info, err
	}
	for _, t := range tables.All() {
		if !current(info.Schemas, t.Schema) {
			continue // an older schema may not have it
		}
		n, err := t.Count(ctx, d.db)
		if err != nil {
			return info, err
		}
		if n > 0 {
			info.Tables = append(info.Tables, Table{t.Name, n})
		}
	}
	return info, nil
}

// Schemas returns the parts of the database with their versions.
func (d *DB) Schemas(ctx context.Context) ([]Schema, error) {
	have, err := d.db.Schemas(ctx)
	all := make([]Schema, len(have))
	for i, s := range have {
		all[i] = Schema(s)
	}
	return all, err
}

// current reports whether a schema has its latest version.
func current(schemas []Schema, name string) bool {
	for _, s := range schemas {
		if s.Name == name {
			return s.Version == s.Latest
		}
	}
	return false
}

// size returns the version of the engine, and the bytes that the database has on disk.
func (d *DB) size(ctx context.Context) (version string, bytes int64, err error) {
	if d.Engine == PostgreSQL {
		err = d.db.Each(ctx, `SELECT current_setting('server_version'), COALESCE(SUM(pg_total_relation_size(c.oid)), 0)::bigint
			FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())`, nil,
			func(rows *sql.Rows) (bool, error) { return true, rows.Scan(&version, &bytes) })
		return version, bytes, err
	}
	for _, end := range []string{"", "-wal"} {
		if info, serr := os.Stat(d.file + end); serr == nil {
			bytes += info.Size()
		}
	}
	err = d.db.Each(ctx, `SELECT sqlite_version()`, nil, func(rows *sql.Rows) (bool, error) { return true, rows.Scan(&version) })
	return version, bytes, err
}

// A Problem is something that is wrong with a database.
type Problem struct {
	Table string `json:"table,omitempty"`
	What  string `json:"problem"`
	Count int64  `json:"rows,omitempty"`  // that have the problem; 1,000 are that many or more
	First string `json:"first,omitempty"` // the first of them
}

// String returns the problem as a sentence.
func (p *Problem) String() string {
	text := p.What
	if p.Table != "" {
		text = p.Table + ": " + text
	}
	switch {
	case p.Count >= examine.Most:
		text += fmt.Sprintf(" (%d rows or more, the first: %s)", p.Count, p.First)
	case p.Count > 1:
		text += fmt.Sprintf(" (%d rows, the first: %s)", p.Count, p.First)
	case p.First != "":
		text += " (" + p.First + ")"
	}
	return text
}

// Check reads the whole database, which nothing may change meanwhile, and returns what is wrong
// with it: pages that are damaged, rows that cannot be read, and rows that do not fit together. Of
// tables with an older schema it reads only the pages. It fails if the database was changed all the same.
func (d *DB) Check(ctx context.Context) ([]Problem, error) {
	found, err := d.check(ctx)
	if d.unchanged != nil && (err != nil || len(found) > 0) {
		if cerr := d.unchanged(); cerr != nil {
			return nil, fmt.Errorf("check %s: %w", d.file, cerr)
		}
	}
	return found, err
}

func (d *DB) check(ctx context.Context) ([]Problem, error) {
	var found []Problem
	if d.Engine == SQLite {
		err := d.db.Each(ctx, `PRAGMA integrity_check(100)`, nil, func(rows *sql.Rows) (bool, error) {
			var text string
			err := rows.Scan(&text)
			if text != "ok" {
				found = append(found, Problem{What: "SQLite: " + text})
			}
			return true, err
		})
		if err != nil || len(found) > 0 {
			return found, err // what the rows say has no meaning
		}
	}
	err := examine.Examine(ctx, d.db, func(p examine.Problem) {
		found = append(found, Problem{Table: p.Where, What: p.What, Count: p.Count, First: p.First})
	})
	return found, err
}

// A Copied is what [Copy] has done.
type Copied struct {
	Rows    int64 `json:"rows"`    // of the database that was copied
	Written int64 `json:"written"` // that were missing in the other one, or differed
	Removed int64 `json:"removed"` // that only the other one had
}

// Copy makes to a copy of from, of any engine, and compares both afterwards. Nothing else may
// use them meanwhile. It writes only what differs: a copy that was interrupted continues. Until it is
// complete, no process uses to, nor copies it: that fails with [postgres.ErrUnfinished]. A from with an
// older schema is refused with [postgres.ErrOlder]. progress
// is called with the name of each table, and the rows of it that were compared so far.
func Copy(ctx context.Context, from, to *DB, progress func(table string, rows int64)) (Copied, error) {
	var done Copied
	partial, err := from.IsUnfinished(ctx)
	if err == nil && partial {
		err = postgres.ErrUnfinished
	}
	if err == nil {
		err = from.isCurrent(ctx)
	}
	if err == nil {
		err = sqldb.SetUnfinished(ctx, to.db, true)
	}
	if err != nil {
		return done, err
	}
	for _, check := range []bool{false, true} {
		for _, t := range tables.All() {
			c, err := tables.Copy(ctx, from.db, to.db, &t, check, func(rows int64) { progress(t.Name, rows) })
			if err != nil {
				return done, err
			}
			if check && c.Written+c.Removed > 0 {
				return done, fmt.Errorf("%s: %d rows differ although they were copied: another process has changed one of the databases", t.Name, c.Written+c.Removed)
			}
			if !check {
				done.Rows, done.Written, done.Removed = done.Rows+c.Rows, done.Written+c.Written, done.Removed+c.Removed
			}
		}
	}
	if from.unchanged != nil {
		if err := from.unchanged(); err != nil {
			return done, fmt.Errorf("copy %s: %w", from.file, err)
		}
	}
	return done, sqldb.SetUnfinished(ctx, to.db, false)
}

// isCurrent returns an error that wraps [postgres.ErrOlder] if the database may lack tables or columns.
func (d *DB) isCurrent(ctx context.Context) error {
	schemas, err := d.Schemas(ctx)
	for _, s := range schemas {
		if s.Version < s.Latest {
			err = fmt.Errorf("the tables of the %s are those of an earlier version: %w", s.Name, postgres.ErrOlder)
		}
	}
	return err
}

// IsUnfinished reports whether a [Copy] to the database was not completed.
func (d *DB) IsUnfinished(ctx context.Context) (bool, error) { return sqldb.IsUnfinished(ctx, d.db) }

// IsEmpty reports whether the database has no rows.
func (d *DB) IsEmpty(ctx context.Context) (bool, error) {
	for _, t := range tables.All() {
		if t.Name == "hub_mark" { // has a row from the beginning
			continue
		}
		if n, err := t.Count(ctx, d.db); err != nil || n > 0 {
			return false, err
		}
	}
	return true, nil
}

// WithoutPassword returns a place, if it is a URL without its password, for people.
func WithoutPassword(place string) string {
	if !IsURL(place) {
		return place
	}
	u, err := url.Parse(place)
	if err != nil {
		return "the PostgreSQL database"
	}
	q := u.Query()
	q.Del("password")
	u.RawQuery = q.Encode()
	return u.Redacted()
}
