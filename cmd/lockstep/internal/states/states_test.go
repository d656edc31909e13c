package states_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/catalog"
	"lockstep/cmd/lockstep/internal/states"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/statebackup"
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
