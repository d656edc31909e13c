package postgres_test

import (
	"errors"
	"testing"
	"time"

	"lockstep/storage/postgres"
	"lockstep/storage/postgres/postgrestest"
)

// TestOwnFailover: an owner does not survive the promotion of a standby, which may lack what the owner
// has written and remembers: also if the standby has the row of the lease, and whether the owner asks,
// writes, or only renews its lease.
func TestOwnFailover(t *testing.T) {
	t.Parallel()
	for name, notice := range map[string]func(*postgres.DB, *postgres.Owner) error{
		"write": func(db *postgres.DB, _ *postgres.Owner) error { return write(t.Context(), db, "b") },
		"check": func(_ *postgres.DB, o *postgres.Owner) error { return o.Check(t.Context()) },
		"renewal": func(_ *postgres.DB, o *postgres.Owner) error {
			select {
			case <-o.Lost():
			case <-time.After(time.Minute):
			}
			return o.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := postgrestest.Start(t)
			createWrites(t, s.URL)
			db := open(t, postgres.Options{}, s.URL)
			owner := take(t, db, postgres.OwnOptions{Lease: time.Minute, Instance: "one"})
			if err := write(t.Context(), db, "a"); err != nil {
				t.Fatal(err)
			}
			s.Standby(t)
			if err := write(t.Context(), db, "lost"); err != nil {
				t.Fatal(err)
			}
			s.Failover(t)
			if err := notice(db, owner); !errors.Is(err, postgres.ErrLost) || !errors.Is(err, postgres.ErrPromoted) {
				t.Errorf("after the failover: %v", err)
			}
			if n := number(t, s.URL, `SELECT count(*) FROM writes`); n != 1 {
				t.Errorf("%d rows", n)
			}
			again := take(t, open(t, postgres.Options{}, s.URL), postgres.OwnOptions{Instance: "one"})
			if err := again.Check(t.Context()); err != nil {
				t.Errorf("the next owner: %v", err)
			}
		})
	}
}
