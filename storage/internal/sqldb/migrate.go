package sqldb

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"

	"lockstep/internal/newerstate"
)

// ErrNewer reports a database that a newer version of the program has written.
var ErrNewer = newerstate.Err

// ErrOlder reports a database with an older schema, which is not migrated unless that is requested.
var ErrOlder = errors.New("the database has to be migrated")

// ErrUnfinished reports a database to which another one was not copied completely.
var ErrUnfinished = errors.New("it is incomplete: another database is being copied to it, or that was interrupted")

// unfinished is a row of schema_version that is there while another database is copied to this one. Its version
// has no meaning.
const unfinished = "unfinished copy"

// SetUnfinished records that another database is being copied to this one, or no longer is. Until then it is
// refused with [ErrUnfinished].
func SetUnfinished(ctx context.Context, db *DB, is bool) error {
	return db.Update(ctx, func(tx *sql.Tx) error {
		statement := `DELETE FROM schema_version WHERE name = $1`
		if is {
			statement = `INSERT INTO schema_version (name, version) VALUES ($1, 1) ON CONFLICT (name) DO NOTHING`
		}
		_, err := tx.ExecContext(ctx, statement, unfinished)
		return err
	})
}

// IsUnfinished reports whether another database is being copied to this one, or was.
func IsUnfinished(ctx context.Context, db *DB) (bool, error) {
	have, err := versions(ctx, db.read)
	return have[unfinished] > 0, err
}

// Each folder below migrations is a schema of its own, named like the folder,
// with its own version: the number of its last file. The files are numbered
// 0001, 0002, … and never edited after release.
//
//go:embed migrations
var migrations embed.FS

// The versions are in one table:
//
//	schema_version(name, version)	one row for each schema
const createVersions = `CREATE TABLE IF NOT EXISTS schema_version (
	name    TEXT   NOT NULL PRIMARY KEY,
	version BIGINT NOT NULL
)`

// migrate updates every schema; with Explicit set only in a database that has none. It only reads
// a database that is up to date.
func (db *DB) migrate(ctx context.Context, o Options) error {
	if _, err := db.write.ExecContext(ctx, createVersions); err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	have, err := versions(ctx, db.write)
	if err != nil {
		return err
	}
	if have[unfinished] > 0 && !o.Unfinished {
		return ErrUnfinished
	}
	schemas, err := schemasOf(have)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(schemas, func(s Schema) bool { return s.Version < s.Latest })
	if i < 0 {
		return nil
	}
	if s := schemas[i]; o.Explicit && len(have) > 0 {
		return fmt.Errorf("%s schema has version %d, this program needs %d: %w", s.Name, s.Version, s.Latest, ErrOlder)
	}
	return db.Update(ctx, func(tx *sql.Tx) error { return db.advance(ctx, tx) })
}

// checkVersions refuses a database that a newer version has written.
func (db *DB) checkVersions(ctx context.Context) error {
	_, err := db.Schemas(ctx)
	return err
}

// A Schema is a schema of a database, and its version there.
type Schema struct {
	Name    string
	Version int // 0: it has no tables yet
	Latest  int // that this program knows
}

// Schemas returns the schemas with their versions.
func (db *DB) Schemas(ctx context.Context) ([]Schema, error) {
	have, err := versions(ctx, db.read)
	if err != nil {
		return nil, err
	}
	return schemasOf(have)
}

// schemasOf returns the schemas that this program knows with the versions that a database has of them. It refuses a
// database of a newer version, which may also have schemas of other names.
func schemasOf(have map[string]int) ([]Schema, error) {
	known, err := fs.ReadDir(migrations, "migrations")
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	latest := map[string]int{unfinished: math.MaxInt}
	var all []Schema
	for _, s := range known {
		files, err := steps(s.Name())
		if err != nil {
			return nil, err
		}
		latest[s.Name()] = len(files)
		all = append(all, Schema{s.Name(), have[s.Name()], len(files)})
	}
	for name, version := range have {
		if version > latest[name] {
			return nil, fmt.Errorf("%s schema has version %d, this program knows versions up to %d: %w", name, version, latest[name], ErrNewer)
		}
	}
	return all, nil
}

// advance runs the missing migrations. It reads the versions again: another
// process may have been faster.
func (db *DB) advance(ctx context.Context, tx *sql.Tx) error {
	have, err := versions(ctx, tx)
	if err != nil {
		return err
	}
	schemas, err := schemasOf(have)
	if err != nil {
		return err
	}
	for _, s := range schemas {
		files, err := steps(s.Name)
		if err != nil {
			return err
		}
		for _, file := range files[s.Version:] {
			text, err := migrations.ReadFile(file)
			if err != nil {
				return fmt.Errorf("read migration: %w", err)
			}
			if _, err := tx.ExecContext(ctx, db.dialect.Schema(string(text))); err != nil {
				return fmt.Errorf("run migration %s: %w", file, err)
			}
		}
		const set = `INSERT INTO schema_version (name, version) VALUES ($1, $2)
			ON CONFLICT (name) DO UPDATE SET version = excluded.version`
		if _, err := tx.ExecContext(ctx, set, s.Name, s.Latest); err != nil {
			return fmt.Errorf("record schema version: %w", err)
		}
	}
	return nil
}

// steps returns the files of a schema in the order of their numbers.
func steps(schema string) ([]string, error) {
	dir := path.Join("migrations", schema)
	entries, err := fs.ReadDir(migrations, dir) // sorted by name
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	var files []string
	for _, e := range entries {
		if want := fmt.Sprintf("%04d", len(files)+1); !strings.HasPrefix(e.Name(), want) {
			return nil, fmt.Errorf("migration %s/%s: want number %s", dir, e.Name(), want)
		}
		files = append(files, path.Join(dir, e.Name()))
	}
	return files, nil
}

func versions(ctx context.Context, q interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}) (map[string]int, error) {
	rows, err := q.QueryContext(ctx, `SELECT name, version FROM schema_version`)
	if err != nil {
		return nil, fmt.Errorf("read schema version: %w", err)
	}
	defer rows.Close()
	have := make(map[string]int)
	for rows.Next() {
		var name string
		var version int
		if err := rows.Scan(&name, &version); err != nil {
			return nil, fmt.Errorf("read schema version: %w", err)
		}
		have[name] = version
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read schema version: %w", err)
	}
	return have, nil
}
