package mirror

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"lockstep/destination/journal"
)

// A silentJournal never answers.
type silentJournal struct{ journal.Journal }

func (silentJournal) Load(ctx context.Context, _ string) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silentJournal) Record(ctx context.Context, _ journal.Batch) error {
	<-ctx.Done()
	return ctx.Err()
}

// A document of a database that does not answer is given up.
func TestDocumentWithoutAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := document{silentJournal{}, "name"}
		if _, err := d.Read(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Read: %v", err)
		}
		if err := d.Write(nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Write: %v", err)
		}
	})
}
