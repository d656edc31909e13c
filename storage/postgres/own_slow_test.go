package postgres_test

import (
	"testing"
	"time"

	"lockstep/storage/postgres"
	"lockstep/storage/postgres/postgrestest"
)

// TestOwnSlow: an owner keeps its lease on a server each of whose answers takes a second,
// from the beginning or from then on, and the lease is short again when the server is fast.
func TestOwnSlow(t *testing.T) {
	t.Parallel()
	for _, begins := range []bool{true, false} {
		name := "later"
		if begins {
			name = "from the beginning"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := postgrestest.URL(t)
			slow := postgrestest.NewSlow(t, url)
			db := open(t, postgres.Options{}, slow.URL)
			createWrites(t, url)
			const lease = 10 * time.Second
			if begins {
				slow.Delay(time.Second)
			}
			owner := take(t, db, postgres.OwnOptions{Name: "a", Lease: lease})
			slow.Delay(time.Second)
			left := func() time.Duration {
				return time.Duration(number(t, url, `SELECT until - CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT) FROM lease`)) * time.Microsecond
			}
			until(t, "a longer lease", func() bool { return left() > lease+time.Second })
			for range 2 {
				if err := write(t.Context(), db, "a"); err != nil {
					t.Error(err)
				}
			}
			if isLost(owner) {
				t.Errorf("it is lost: %v", owner.Err())
			}
			slow.Delay(0)
			until(t, "a short lease", func() bool { return left() <= lease })
			if isLost(owner) {
				t.Errorf("it is lost: %v", owner.Err())
			}
		})
	}
}
