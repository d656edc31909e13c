package postgres_test

import (
	"errors"
	"testing"
	"time"

	"lockstep/storage/postgres"
	"lockstep/storage/postgres/postgrestest"
)

// A process that ended without giving the database back is succeeded at once by the next one
// of its instance, and can write no more.
func TestOwnInstance(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t)
	first, second, other := open(t, postgres.Options{}, url), open(t, postgres.Options{}, url), open(t, postgres.Options{}, url)
	createWrites(t, url)
	take(t, first, postgres.OwnOptions{Instance: "a", Lease: time.Hour})
	if err := write(t.Context(), first, "first"); err != nil {
		t.Fatal(err)
	}
	for _, instance := range []string{"b", ""} {
		_, err := other.Own(t.Context(), postgres.OwnOptions{Instance: instance})
		if owned := (*postgres.OwnedError)(nil); !errors.As(err, &owned) {
			t.Fatalf("instance %q: %v", instance, err)
		}
	}
	take(t, second, postgres.OwnOptions{Instance: "a", Lease: time.Hour})
	if err := write(t.Context(), first, "first"); !errors.Is(err, postgres.ErrLost) {
		t.Errorf("the first process: %v", err)
	}
	if err := write(t.Context(), second, "second"); err != nil {
		t.Error(err)
	}
	if by, err := other.OwnedBy(t.Context()); err != nil || by == nil {
		t.Errorf("OwnedBy = %v, %v", by, err)
	}
}
