package storage_test

import (
	"errors"
	"path/filepath"
	"testing"

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

func isOwned(err error) bool {
	_, is := errors.AsType[*postgres.OwnedError](err)
	return is
}
