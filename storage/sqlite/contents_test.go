package sqlite_test

import (
	"path/filepath"
	"testing"

	"lockstep/intake"
	"lockstep/intake/contentstest"
	"lockstep/storage/sqlite"
)

func TestContents(t *testing.T) {
	t.Parallel()
	contentstest.Run(t, func(t *testing.T) intake.Contents {
		return open(t, sqlite.Options{}, filepath.Join(t.TempDir(), "state.db")).Contents()
	})
	path := filepath.Join(t.TempDir(), "state.db")
	var db *sqlite.DB
	contentstest.RunReopen(t, func() intake.Contents {
		var err error
		if db, err = sqlite.Open(path); err != nil {
			t.Fatal(err)
		}
		return db.Contents()
	}, func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}
