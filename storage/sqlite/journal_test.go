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
		return open(t, sqlite.Options{}, filepath.Join(t.TempDir(), "state.db")).Journal()
	})
}

func TestJournalReopen(t *testing.T) {
	t.Parallel()
	open, shut := again(t, filepath.Join(t.TempDir(), "state.db"))
	journaltest.Reopen(t, func() destination.Journal { return open().Journal() }, shut)
}
