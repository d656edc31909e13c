package hub_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"lockstep/hub"
	"lockstep/hub/hubstore"
)

// TestCursorsSaved: progress is saved soon after a delivery, however long the
// hub has been saving already.
func TestCursorsSaved(t *testing.T) {
	t.Parallel()
	store, s := hubstore.NewMem(), newSink(t, nil)
	h := run(t, store, hub.Options{})
	h.subscribe(s.URL+"/a", "")
	saved := func() int64 {
		for row, err := range store.Subscriptions(context.Background(), -1) {
			if err != nil {
				t.Fatal(err)
			}
			return row.Progress.Cursor
		}
		return 0
	}
	start := time.Now()
	for i := range int64(12) {
		h.publish(fmt.Sprint(i))
		eventually(t, fmt.Sprintf("message %d saved", i), func() bool { return saved() == i+1 })
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("12 saves took %v", took)
	}
}
