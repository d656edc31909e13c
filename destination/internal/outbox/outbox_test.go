package outbox_test

import (
	"context"
	"testing"

	"lockstep/destination/internal/outbox"
	"lockstep/destination/journal"
)

// TestNotedUntilTheTransactionSucceeds: a transaction that was to remove what was noted of a batch has
// failed, as on a full disk. The next one removes it: otherwise a later run that is killed would
// deliver it once more, as changes of another batch.
func TestNotedUntilTheTransactionSucceeds(t *testing.T) {
	t.Parallel()
	ctx, j := t.Context(), &journal.Mem{}
	open := func() *outbox.Box[string] {
		return outbox.New(j, func(_ context.Context, batch []string) (int, error) { return len(batch), nil }, func(c *string) any { return c })
	}
	box := open()
	docs := map[string][]byte{}
	box.Note(docs, []string{"created"})
	if err := j.Record(ctx, journal.Batch{Save: docs}); err != nil {
		t.Fatal(err)
	}
	box.Note(map[string][]byte{}, nil) // and the transaction fails
	docs = map[string][]byte{}
	box.Note(docs, nil)
	if err := j.Record(ctx, journal.Batch{Save: docs}); err != nil {
		t.Fatal(err)
	}
	if left, err := open().Noted(ctx); err != nil || len(left) > 0 {
		t.Errorf("of the batch that is settled there is still noted %q, %v", left, err)
	}
}
