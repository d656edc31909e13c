package postgres

import (
	"errors"
	"testing"
	"time"

	"lockstep/storage/postgres/postgrestest"
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

// TestNotShortened: an owner that has asked for a long lease may count on it, although it asks for a shorter one
// afterwards: the answer to that may get lost.
func TestNotShortened(t *testing.T) {
	t.Parallel()
	db, err := Open(t.Context(), postgrestest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	owner, err := db.Own(t.Context(), OwnOptions{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	for _, lease := range []time.Duration{time.Hour, time.Second} {
		if err := owner.renew(lease, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if l, err := db.Lease(t.Context()); err != nil || time.Until(l.Until) < 50*time.Minute {
		t.Errorf("the lease ends at %v, %v", l.Until, err)
	}
}
