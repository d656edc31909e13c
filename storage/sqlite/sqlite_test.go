package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/catalog/catalogtest"
	"lockstep/storage/sqlite"
)

func TestCatalog(t *testing.T) {
	t.Parallel()
	catalogtest.Run(t, func(t *testing.T) catalog.Catalog {
		return open(t, sqlite.Options{}, filepath.Join(t.TempDir(), "catalog.db")).Catalog()
	})
}

func TestCatalogClock(t *testing.T) {
	t.Parallel()
	catalogtest.RunClock(t, func(t *testing.T, clock func() time.Time) catalog.Catalog {
		return open(t, sqlite.Options{Clock: clock}, filepath.Join(t.TempDir(), "catalog.db")).Catalog()
	})
}

func open(t testing.TB, o sqlite.Options, path string) *sqlite.DB {
	t.Helper()
	db, err := o.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}
