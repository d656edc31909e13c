package postgres_test

import (
	"errors"
	"testing"

	"lockstep/storage/postgres"
	"lockstep/storage/postgres/postgrestest"
)

// TestCheck: an owner learns from the server that it has a successor, and others from the lease
// which process owns the database.
func TestCheck(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t)
	first, second := open(t, postgres.Options{}, url), open(t, postgres.Options{}, url)
	if l, err := second.Lease(t.Context()); err != nil || l.Held {
		t.Errorf("before there is an owner: %+v, %v", l, err)
	}
	one, err := first.Own(t.Context(), postgres.OwnOptions{Name: "one", Instance: "machine"})
	if err != nil {
		t.Fatal(err)
	}
	if err := one.Check(t.Context()); err != nil {
		t.Errorf("the owner: %v", err)
	}
	l, err := second.Lease(t.Context())
	if err != nil || !l.Held || l.Owner != "one" || !l.Since.Equal(one.Since()) {
		t.Errorf("the lease is %+v, %v", l, err)
	}
	two := take(t, second, postgres.OwnOptions{Name: "two", Instance: "machine"}) // as after the first one was killed
	if err := one.Check(t.Context()); !errors.Is(err, postgres.ErrLost) || !isLost(one) {
		t.Errorf("an owner with a successor: %v", err)
	}
	if l, err := first.Lease(t.Context()); err != nil || l.Owner != "two" || !l.Since.Equal(two.Since()) || l.Since.Equal(one.Since()) {
		t.Errorf("the lease is %+v, %v", l, err)
	}
	if err := one.Close(); err != nil {
		t.Error(err)
	}
	if err := two.Close(); err != nil {
		t.Error(err)
	}
	if err := two.Check(t.Context()); !errors.Is(err, postgres.ErrLost) {
		t.Errorf("an owner that was closed: %v", err)
	}
	if l, err := first.Lease(t.Context()); err != nil || l.Held {
		t.Errorf("after the last owner: %+v, %v", l, err)
	}
}
