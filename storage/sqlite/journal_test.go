package sqlite_test

import (
	"path/filepath"
	"testing"

	"lockstep/destination"
	"lockstep/destination/journaltest"
	"lockstep/storage/sqlite"
)

func TestJournal(t *testing.T) {
	t.Parallel()
	journaltest.Run(t, func(t *testing.T) destination.Journal {
		db, err := sqlite.Open(filepath.Join(t.TempDir(), "state.db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
		return db.Journal()
	})
}

func TestJournalReopen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	var db *sqlite.DB
	journaltest.Reopen(t, func() destination.Journal {
		var err error
		if db, err = sqlite.Open(path); err != nil {
			t.Fatal(err)
		}
		return db.Journal()
	}, func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}
