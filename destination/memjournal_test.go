package destination_test

import (
	"testing"

	"lockstep/destination"
	"lockstep/destination/journaltest"
)

func TestMemJournal(t *testing.T) {
	t.Parallel()
	journaltest.Run(t, func(*testing.T) destination.Journal { return new(destination.MemJournal) })
}
