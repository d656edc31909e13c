package sqlite_test

import (
	"path/filepath"
	"testing"

	"lockstep/hub"
	"lockstep/hub/hubtest"
	"lockstep/storage/sqlite"
)

func TestHub(t *testing.T) {
	t.Parallel()
	hubtest.Run(t, func(t *testing.T) hub.Store {
		return open(t, sqlite.Options{}, filepath.Join(t.TempDir(), "hub.db")).Hub()
	})
}

func TestHubReopen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hub.db")
	var db *sqlite.DB
	hubtest.RunReopen(t, func() hub.Store {
		var err error
		if db, err = sqlite.Open(path); err != nil {
			t.Fatal(err)
		}
		return db.Hub()
	}, func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}
