package journal_test

import (
	"testing"

	"lockstep/destination/journal"
	"lockstep/destination/journaltest"
)

func TestMem(t *testing.T) {
	t.Parallel()
	journaltest.Run(t, func(*testing.T) journal.Journal { return new(journal.Mem) })
}
