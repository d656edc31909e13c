package sharing

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/destination"
	"lockstep/destination/journal"
	"lockstep/storage/postgres"
)

// A silentJournal never answers.
type silentJournal struct{ journal.Journal }

func (silentJournal) Record(ctx context.Context, _ journal.Batch) error {
	<-ctx.Done()
	return ctx.Err()
}

// The result is not recorded if the database does not answer: the others go on.
func TestRecordWithoutAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		if err := record(&mirror.Turn{Token: 1}, silentJournal{}, &destination.Report{}, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("record: %v", err)
		}
	})
}

// That a database was not available for a moment is not the result of a run.
func TestUnavailableIsNoResult(t *testing.T) {
	t.Parallel()
	if err := fmt.Errorf("record what is held: %w", postgres.ErrUnavailable); !IsLost(err) {
		t.Errorf("the result of all processes would be %v", err)
	}
}
