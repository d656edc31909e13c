package storage_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"lockstep/storage"
	"lockstep/storage/postgres"
	"lockstep/storage/postgres/postgrestest"
)

// A database that belongs to a process is neither migrated nor written by another one, and can
// be read.
func TestOwned(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t)
	db, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	owner, err := db.Own(t.Context(), postgres.OwnOptions{Name: "a process"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := storage.Open(t.Context(), url); !isOwned(err) {
		t.Errorf("Open = %v", err)
	}
	if err := storage.CheckFree(t.Context(), url); !isOwned(err) {
		t.Errorf("CheckFree = %v", err)
	}
	r, err := storage.OpenReader(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Close(), owner.Close()); err != nil {
		t.Fatal(err)
	}

	from, err := storage.Open(t.Context(), filepath.Join(t.TempDir(), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := storage.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Own(t.Context(), postgres.OwnOptions{}); !isOwned(err) {
		t.Errorf("Own while it is copied to = %v", err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	if err := storage.CheckFree(t.Context(), url); err != nil {
		t.Error(err)
	}
}

// TestUsedByHubs: a database that hubs use is neither migrated nor written, nor is it free to be copied.
func TestUsedByHubs(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t)
	db, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	check := func(what string, want error) {
		t.Helper()
		if err := storage.CheckFree(t.Context(), url); !errors.Is(err, want) {
			t.Errorf("CheckFree %s = %v", what, err)
		}
		if err := storage.Migrate(t.Context(), url); !errors.Is(err, want) {
			t.Errorf("Migrate %s = %v", what, err)
		}
	}
	claim := func(lease time.Duration) {
		t.Helper()
		if _, _, err := db.Hub().Claim(t.Context(), "hub", 1, lease); err != nil {
			t.Fatal(err)
		}
	}
	claim(time.Hour)
	check("while a hub runs", postgres.ErrHubs)
	claim(-time.Second)
	check("after one was killed", nil)
	claim(time.Hour)
	if err := db.Hub().Release(t.Context(), "hub"); err != nil {
		t.Fatal(err)
	}
	check("after it has ended", nil)
}

// TestOpenOlder: a PostgreSQL database of an earlier version, which others may use, is migrated on request only, and
// not because something is to be copied to it.
func TestOpenOlder(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t)
	db, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec(`DROP TABLE hub_replay; UPDATE schema_version SET version = 1 WHERE name = 'hub'`)
		return err
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := storage.Open(t.Context(), url); !errors.Is(err, postgres.ErrOlder) {
		t.Errorf("Open = %v", err)
	}
	if v := hubVersion(t, url); v != 1 {
		t.Errorf("the database was refused, and its hub schema has version %d now", v)
	}
	if err := storage.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	if v := hubVersion(t, url); v < 2 {
		t.Errorf("after the migration the hub schema has version %d", v)
	}
}

// hubVersion returns the version of the tables of a hub.
func hubVersion(t *testing.T, url string) int {
	t.Helper()
	db, err := storage.OpenReader(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	all, err := db.Schemas(t.Context())
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(s storage.Schema) bool { return s.Name == "hub" })
	return all[i].Version
}

func isOwned(err error) bool {
	_, is := errors.AsType[*postgres.OwnedError](err)
	return is
}
