package postgres_test

import (
	"database/sql"
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

// TestLeaseFollows: a lease shows that the database has gone back to an earlier state, or was made again.
func TestLeaseFollows(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t)
	db := open(t, postgres.Options{}, url)
	read := func() postgres.Lease {
		t.Helper()
		l, err := db.Lease(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	change := func(statement string) {
		t.Helper()
		conn, err := sql.Open("pgx", url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	none := read()
	change(`UPDATE lease SET token = 1, since = 1000`)
	one := read()
	change(`UPDATE lease SET since = 2000`)
	other := read()
	change(`CREATE TABLE again AS SELECT token + 1 AS token, owner, instance, since, until FROM lease; DROP TABLE lease; ALTER TABLE again RENAME TO lease`)
	again := read()
	for _, tt := range []struct {
		name        string
		now, before postgres.Lease
		want        bool
	}{
		{"nothing has changed", one, one, true},
		{"an owner", one, none, true},
		{"back to no owner", none, one, false},
		{"another owner with the same token", other, one, false},
		{"another table", again, other, false},
	} {
		if got := tt.now.Follows(&tt.before); got != tt.want {
			t.Errorf("%s: %t", tt.name, got)
		}
	}
}
