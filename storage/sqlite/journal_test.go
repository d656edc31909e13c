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

// TestJournalPart: a part of a journal is one itself.
func TestJournalPart(t *testing.T) {
	t.Parallel()
	journaltest.RunPresent(t, func(t *testing.T) journal.Journal {
		whole := open(t, sqlite.Options{}, filepath.Join(t.TempDir(), "state.db")).Journal()
		other := journal.Batch{
			Put: []journal.Held{{URI: "http://a/1", Path: "other", Sets: []int{1}}}, Owe: []journal.Owed{{Set: 1, URI: "http://a/1", Cause: "other"}},
			Save: map[string][]byte{"counts": []byte("other")},
		}
		for _, name := range []string{"a", "c"} {
			if err := part.Of(whole, name).Record(t.Context(), other); err != nil {
				t.Fatal(err)
			}
		}
		return part.Of(whole, "b")
	})
}

func TestJournalReopen(t *testing.T) {
	t.Parallel()
	open, shut := again(t, filepath.Join(t.TempDir(), "state.db"))
	journaltest.Reopen(t, func() journal.Journal { return open().Journal() }, shut)
}
