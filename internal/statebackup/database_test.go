package statebackup_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/internal/statebackup"
	"lockstep/internal/statedir"
	"lockstep/storage"
	"lockstep/storage/postgres"
	"lockstep/storage/postgres/postgrestest"
)

// TestDatabase: a PostgreSQL database is backed up, and restored to an empty one only.
func TestDatabase(t *testing.T) {
	t.Parallel()
	dir, _ := newState(t, "catalog.db")
	url := postgrestest.URL(t)
	from, err := storage.OpenReader(t.Context(), filepath.Join(dir, "catalog.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := storage.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	_, err = storage.Copy(t.Context(), from, to, func(string, int64) {})
	if err := errors.Join(err, to.Close()); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "backup.tar.gz")
	if r, err := statebackup.Backup(t.Context(), url, file, now); err != nil || r.Kind != statebackup.Database {
		t.Fatalf("wrote %+v, %v", r, err)
	}
	if _, err := statebackup.Restore(t.Context(), file, url, now); !errors.Is(err, statebackup.ErrOccupied) {
		t.Errorf("a database is overwritten: %v", err)
	}
	if _, err := statebackup.Restore(t.Context(), file, t.TempDir(), now); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("restored to a directory: %v", err)
	}
	empty := postgrestest.URL(t)
	if _, err := statebackup.Restore(t.Context(), file, empty, now); err != nil {
		t.Fatal(err)
	}
	if n := resources(t, empty); n != 100 {
		t.Errorf("restored %d resources", n)
	}
}

// TestRestoreInterrupted: a PostgreSQL database to which a state was not restored completely is refused until the same
// command has completed that; then the Source in it says that it was restored.
func TestRestoreInterrupted(t *testing.T) {
	t.Parallel()
	source, target, file := postgrestest.URL(t), postgrestest.URL(t), filepath.Join(t.TempDir(), "backup.tar.gz")
	update := func(url, statements string) {
		t.Helper()
		db, err := postgres.Options{Unfinished: true}.Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		err = db.Update(t.Context(), func(tx *sql.Tx) error {
			_, err := tx.Exec(statements)
			return err
		})
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
	}
	update(source, `INSERT INTO journal_document (name, value) VALUES ('source/local-id', 'x'); INSERT INTO memento_set (id, name, last_seq, resources) VALUES (1, 's', 0, 0)`)
	if _, err := statebackup.Backup(t.Context(), source, file, now); err != nil {
		t.Fatal(err)
	}
	update(target, `CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no more''; END';
		CREATE TRIGGER fail BEFORE INSERT ON memento_set FOR EACH ROW EXECUTE FUNCTION fail()`)
	if _, err := statebackup.Restore(t.Context(), file, target, now); err == nil || !strings.Contains(err.Error(), "no more") {
		t.Fatalf("Restore = %v", err)
	}
	if _, err := postgres.Open(t.Context(), target); !errors.Is(err, postgres.ErrUnfinished) {
		t.Errorf("Open = %v", err)
	}
	if _, err := statebackup.Backup(t.Context(), target, file+"2", now); !errors.Is(err, postgres.ErrUnfinished) {
		t.Errorf("Backup = %v", err)
	}
	update(target, `DROP TRIGGER fail ON memento_set`)
	if _, err := statebackup.Restore(t.Context(), file, target, now); err != nil {
		t.Fatal(err)
	}
	db, err := postgres.Open(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	notes := statedir.Rows{Journal: db.Journal()}
	for _, name := range []string{"local-id", "restored.json"} {
		if text, err := notes.Load(name); err != nil || !strings.Contains(string(text), "restored") {
			t.Errorf("%s is %q, %v", name, text, err)
		}
	}
}
