package sqlite_test

import (
	"path/filepath"
	"testing"

	"lockstep/destination/journal"
	"lockstep/destination/journal/part"
	"lockstep/destination/journaltest"
	"lockstep/storage/sqlite"
)

func TestJournal(t *testing.T) {
	t.Parallel()
	journaltest.Run(t, func(t *testing.T) journal.Journal {
		return open(t, sqlite.Options{}, filepath.Join(t.TempDir(), "state.db")).Journal()
	})
}

func TestJournalPart(t *testing.T) {
	t.Parallel()
	journaltest.RunPart(t, func(t *testing.T) part.Whole {
		return open(t, sqlite.Options{}, filepath.Join(t.TempDir(), "state.db")).Journal()
	})
}

func TestJournalReopen(t *testing.T) {
	t.Parallel()
	open, shut := again(t, filepath.Join(t.TempDir(), "state.db"))
	journaltest.Reopen(t, func() journal.Journal { return open().Journal() }, shut)
}
