package postgres

import (
	"errors"
	"testing"
	"time"
)

// TestPaused: a process that was paused for longer than its lease learns from its clock that it has lost the
// database, before anything that renews the lease has run again.
func TestPaused(t *testing.T) {
	t.Parallel()
	o := newOwner(nil, tenure{sent: time.Now(), lease: time.Hour}, OwnOptions{})
	if err := o.Err(); err != nil {
		t.Fatalf("within the lease: %v", err)
	}
	o = newOwner(nil, tenure{sent: time.Now().Add(-time.Minute), lease: time.Second}, OwnOptions{})
	if err := o.Err(); !errors.Is(err, ErrLost) {
		t.Errorf("after the lease: %v", err)
	}
	select {
	case <-o.Lost():
	default:
		t.Error("after the lease, the database is not lost")
	}
}
