package sqlite_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/memento"
	"lockstep/memento/mementotest"
	"lockstep/storage/internal/sqldb"
	"lockstep/storage/sqlite"
)

func TestVersions(t *testing.T) {
	t.Parallel()
	mementotest.Run(t, func(t *testing.T) memento.Store {
		return open(t, sqlite.Options{}, filepath.Join(t.TempDir(), "state.db")).Versions()
	})
}

func TestVersionsReopen(t *testing.T) {
	t.Parallel()
	open, shut := again(t, filepath.Join(t.TempDir(), "state.db"))
	mementotest.RunReopen(t, func() memento.Store { return open().Versions() }, shut)
}

const versionsKillEnv = "LOCKSTEP_TEST_VERSIONS_KILL"

// TestVersionsKill kills a process that appends versions and drops them.
func TestVersionsKill(t *testing.T) {
	if path := os.Getenv(versionsKillEnv); path != "" {
		db, err := sqlite.Open(path)
		if err == nil {
			err = mementotest.Victim(t.Context(), db.Versions(), os.Stdout)
		}
		fmt.Println(err)
		return
	}
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	open, shut := again(t, path)
	mementotest.RunKill(t, 10, func() *exec.Cmd {
		cmd := exec.Command(os.Args[0], "-test.run=^TestVersionsKill$")
		cmd.Env = append(os.Environ(), versionsKillEnv+"="+path)
		return cmd
	}, func() memento.Store { return open().Versions() }, shut)
}

// TestVersionsOlder opens a database from before versions were introduced.
func TestVersionsOlder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	if err := open(t, sqlite.Options{}, path).Close(); err != nil {
		t.Fatal(err)
	}
	tamper(t, path, `DELETE FROM schema_version WHERE name = 'memento'`)
	for _, table := range []string{"set", "resource", "version"} {
		tamper(t, path, `DROP TABLE memento_`+table)
	}
	v := open(t, sqlite.Options{}, path).Versions()
	if err := v.Append(t.Context(), "set", 1, []memento.Version{{URI: "u", At: time.Unix(1, 0)}}); err != nil {
		t.Error(err)
	}
}

func TestVersionsNewer(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	if err := open(t, sqlite.Options{}, path).Close(); err != nil {
		t.Fatal(err)
	}
	tamper(t, path, `UPDATE schema_version SET version = 99 WHERE name = 'memento'`)
	_, err := sqlite.Open(path)
	if !errors.Is(err, sqldb.ErrNewer) || !strings.Contains(err.Error(), "memento schema has version 99") {
		t.Errorf("Open = %v", err)
	}
}

// TestVersionsDamaged: every method that reads a damaged row names it in its
// error, and returns no invented version.
func TestVersionsDamaged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	v, ctx := open(t, sqlite.Options{}, path).Versions(), t.Context()
	var vs []memento.Version
	for i := range 3 {
		vs = append(vs, memento.Version{URI: "https://example.org/a", At: time.Unix(int64(i+1), 0)})
	}
	if err := v.Append(ctx, "set", 1, vs); err != nil {
		t.Fatal(err)
	}
	tamper(t, path, `UPDATE memento_version SET version = x'09ff' WHERE at = 3000000`)
	check := func(what string, err error) {
		if err == nil || !strings.Contains(err.Error(), "version of https://example.org/a at 1970-01-01T00:00:03Z: damaged version") {
			t.Errorf("%s = %v", what, err)
		}
	}
	_, err := v.Last(ctx, "set", []string{"https://example.org/a"})
	check("Last", err)
	_, err = v.Around(ctx, "https://example.org/a", time.Time{})
	check("Around", err)
	_, err = v.Around(ctx, "https://example.org/a", time.Unix(1, 0))
	check("Around, of a neighbour", err)
	n := 0
	for got, err := range v.List(ctx, "https://example.org/a", time.Time{}) {
		if n++; err != nil {
			check("List", err)
		} else if got.URI == "" {
			t.Error("List yields a zero Version")
		}
	}
	for got, err := range v.Walk(ctx, "set", "") {
		if n++; err != nil {
			check("Walk", err)
		} else if got.URI == "" {
			t.Error("Walk yields a zero Version")
		}
	}
	_, err = memento.Retain(ctx, v, "set", memento.Policy{FloorSeq: 99}, time.Now())
	check("Retain", err)
}
