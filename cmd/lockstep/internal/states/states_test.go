package states_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"lockstep/catalog"
	"lockstep/cmd/lockstep/internal/states"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination/lock"
	"lockstep/internal/statebackup"
	"lockstep/internal/statedir"
	"lockstep/storage/sqlite"
)

// TestNoPassword: what is printed of a database has its address without the password.
func TestNoPassword(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"postgres://hub:5ecret@127.0.0.1:1/hub", "postgresql://hub@127.0.0.1:1/hub?password=5ecret"} {
		var out bytes.Buffer
		states.PrintRestored(term.IO{Out: &out, Err: &out}, &statebackup.Result{}, place)
		for _, fails := range []func() error{
			func() error { _, err := states.Look(t.Context(), place); return err },
			func() error { _, err := states.Check(t.Context(), place); return err },
			func() error { _, err := states.Migrate(t.Context(), place); return err },
			func() error { _, err := states.Backup(t.Context(), place, t.TempDir()+"/backup"); return err },
			func() error {
				_, err := states.Copy(t.Context(), place, t.TempDir()+"/hub.db", false, func(string, int64) {})
				return err
			},
		} {
			err := fails()
			if err == nil {
				t.Fatal("there is no database, and no error")
			}
			out.WriteString(err.Error() + "\n")
		}
		if text := out.String(); strings.Contains(text, "5ecret") || !strings.HasPrefix(text, "postgres") || !strings.Contains(text, "127.0.0.1:1/hub") {
			t.Errorf("printed %s", text)
		}
	}
}

// newDatabase makes a database with one resource.
func newDatabase(t *testing.T, file string) {
	t.Helper()
	db, err := sqlite.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Catalog().Apply(t.Context(), "main", []catalog.Update{{Record: catalog.Record{URI: "http://x.org/a"}}})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestCopyContinues: only a copy that was interrupted is continued, and only on request; one that is complete may be in
// use since.
func TestCopyContinues(t *testing.T) {
	t.Parallel()
	from, to := filepath.Join(t.TempDir(), "from.db"), filepath.Join(t.TempDir(), "to.db")
	newDatabase(t, from)
	silent := func(string, int64) {}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := states.Copy(ctx, from, to, false, func(table string, _ int64) {
		if table == "catalog_resource" {
			cancel()
		}
	}); err == nil {
		t.Fatal("the copy was not interrupted")
	}
	if _, err := states.Copy(t.Context(), from, to, false, silent); !errors.Is(err, statebackup.ErrOccupied) || !strings.Contains(term.HintOf(err), "--continue") {
		t.Errorf("an interrupted copy is replaced: %v, %s", err, term.HintOf(err))
	}
	if c, err := states.Copy(t.Context(), from, to, true, silent); err != nil || c.Rows == 0 {
		t.Errorf("continued: %+v, %v", c, err)
	}
	for _, resume := range []bool{false, true} {
		if _, err := states.Copy(t.Context(), from, to, resume, silent); !errors.Is(err, statebackup.ErrOccupied) || strings.Contains(term.HintOf(err), "--continue") {
			t.Errorf("a complete copy is replaced: %v, %s", err, term.HintOf(err))
		}
	}
}

// TestLocked: a database is copied and migrated only if no process uses its state, which may also be given as the file.
func TestLocked(t *testing.T) {
	t.Parallel()
	silent := func(string, int64) {}
	room := t.TempDir()
	other := filepath.Join(room, "other.db")
	newDatabase(t, other)
	for i, name := range []string{"hub.db", "catalog.db", ".lockstep/state.db", ".lockstep/harvest.db"} {
		dir := filepath.Join(room, strconv.Itoa(i))
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		newDatabase(t, file)
		if _, err := states.Migrate(t.Context(), file); err != nil {
			t.Error(err)
		}
		take := func() (release func(), err error) { return statedir.Lock(dir, "hub") }
		if filepath.Dir(name) != "." {
			take = func() (release func(), err error) {
				l, err := lock.Acquire(dir)
				return func() { _ = l.Close() }, err
			}
		}
		release, err := take()
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(room, strconv.Itoa(i)+".db")
		for what, fails := range map[string]func() error{
			"copied":   func() error { _, err := states.Copy(t.Context(), file, to, false, silent); return err },
			"written":  func() error { _, err := states.Copy(t.Context(), other, file, true, silent); return err },
			"migrated": func() error { _, err := states.Migrate(t.Context(), file); return err },
		} {
			if err := fails(); err == nil || !strings.Contains(err.Error(), "in use by") || term.HintOf(err) == "" {
				t.Errorf("%s was %s while a process used it: %v", name, what, err)
			}
		}
		release()
		if _, err := states.Copy(t.Context(), file, to, false, silent); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCheckOlder: a check says which tables it has not examined, because they are those of an earlier version.
func TestCheckOlder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "catalog.db")
	newDatabase(t, file)
	db, err := sqlite.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec(`DROP TABLE catalog_refreshed; UPDATE schema_version SET version = 1 WHERE name = 'catalog'`)
		return err
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	c, err := states.Check(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	c.Print(term.IO{Out: &out, Err: &out})
	if text := out.String(); c.Problems > 0 || !strings.Contains(text, "the tables of the catalog are left out") {
		t.Errorf("%+v, printed %s", c, text)
	}
}
