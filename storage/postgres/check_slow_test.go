package postgres_test

import (
	"testing"
	"time"

	"lockstep/storage/postgres"
	"lockstep/storage/postgres/postgrestest"
)

// TestCheckSlow: a server each of whose answers takes a second works, after a while, and goes on to.
func TestCheckSlow(t *testing.T) {
	t.Parallel()
	slow := postgrestest.NewSlow(t, postgrestest.URL(t))
	db := open(t, postgres.Options{}, slow.URL)
	slow.Delay(time.Second)
	until(t, "a check that succeeds", func() bool { return db.Check(t.Context()) == nil })
	for range 15 {
		if err := db.Check(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
	}
	slow.Delay(0)
	until(t, "a check that is fast again", func() bool {
		began := time.Now()
		return db.Check(t.Context()) == nil && time.Since(began) < time.Second
	})
}
