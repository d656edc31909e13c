package main

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"lockstep/storage/postgres/postgrestest"
)

// A savedState is the state of a Source that is not running: it can be saved, restored
// as it was saved, and lost.
type savedState interface {
	place() string // for --state
	save() error
	isSaved() bool
	restore() error
	lose(*rand.Rand) error
}

// A savedDir is a state in a directory.
type savedDir struct{ dir, backup string }

func (s *savedDir) place() string { return s.dir }

func (s *savedDir) save() error { return copyState(s.dir, s.backup) }

func (s *savedDir) isSaved() bool {
	_, err := os.Stat(s.backup)
	return err == nil
}

func (s *savedDir) restore() error { return copyState(s.backup, s.dir) }

func (s *savedDir) lose(*rand.Rand) error { return os.RemoveAll(s.dir) }

// copyState makes one directory what another is.
func copyState(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	_ = os.Remove(filepath.Join(from, "admin.sock")) // of a process that was killed; CopyFS refuses sockets
	return os.CopyFS(to, os.DirFS(from))
}

// A savedDatabase is a state in PostgreSQL. It is saved and restored as by a server
// that replicates late: row by row, and without the local directory.
type savedDatabase struct {
	url, local string
	db         *sql.DB
	schema     string
	tables     []string // saved; nil: none
}

func newSavedDatabase(t *testing.T) *savedDatabase {
	t.Helper()
	address := postgrestest.URL(t)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return &savedDatabase{url: address, local: stateDir(t, address), db: db, schema: u.Query().Get("search_path")}
}

func (s *savedDatabase) place() string { return s.url }

func (s *savedDatabase) isSaved() bool { return s.tables != nil }

func (s *savedDatabase) saved() string { return s.schema + "_saved" }

func (s *savedDatabase) save() error {
	tables, err := s.names()
	if err != nil {
		return err
	}
	todo := fmt.Sprintf("DROP SCHEMA IF EXISTS %[1]s CASCADE; CREATE SCHEMA %[1]s;", s.saved())
	for _, table := range tables {
		todo += fmt.Sprintf("CREATE TABLE %s.%s AS TABLE %s.%[2]s;", s.saved(), table, s.schema)
	}
	s.tables = tables
	return s.exec(todo)
}

func (s *savedDatabase) names() (names []string, err error) {
	rows, err := s.db.Query(`SELECT tablename FROM pg_tables WHERE schemaname = $1`, s.schema)
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		var name string
		err = errors.Join(err, rows.Scan(&name))
		names = append(names, name)
	}
	return names, errors.Join(err, rows.Err(), rows.Close())
}

func (s *savedDatabase) restore() error {
	todo := "SET LOCAL session_replication_role = replica;" // no foreign keys meanwhile
	for _, table := range s.tables {
		todo += fmt.Sprintf("TRUNCATE %s.%s CASCADE;", s.schema, table)
	}
	for _, table := range s.tables {
		todo += fmt.Sprintf("INSERT INTO %s.%s OVERRIDING SYSTEM VALUE SELECT * FROM %s.%[2]s;", s.schema, table, s.saved())
	}
	return s.exec(todo)
}

// lose loses the database, the local directory, or both.
func (s *savedDatabase) lose(r *rand.Rand) error {
	n := r.IntN(3)
	if n != 1 {
		if err := os.RemoveAll(s.local); err != nil || n == 0 {
			return err
		}
	}
	return s.exec(fmt.Sprintf("DROP SCHEMA %[1]s CASCADE; CREATE SCHEMA %[1]s;", s.schema))
}

// exec executes statements in one transaction.
func (s *savedDatabase) exec(statements string) error {
	_, err := s.db.Exec("BEGIN;" + statements + "COMMIT;")
	return err
}
