package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/storage/postgres"
	"lockstep/storage/postgres/postgrestest"
)

const shortLease = 500 * time.Millisecond

// take owns a database until the end of the test.
func take(t testing.TB, db *postgres.DB, o postgres.OwnOptions) *postgres.Owner {
	t.Helper()
	owner, err := db.Own(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := owner.Close(); err != nil {
			t.Error(err)
		}
	})
	return owner
}

// createWrites creates the table that write fills.
func createWrites(t testing.TB, url string) {
	t.Helper()
	tamper(t, url, `CREATE TABLE writes (seq BIGSERIAL PRIMARY KEY, owner BYTEA NOT NULL, token BIGINT)`)
}

// write adds a row, and the token that the lease has within the transaction.
func write(ctx context.Context, db *postgres.DB, name string) error {
	return db.Update(ctx, func(tx *sql.Tx) error { return insert(ctx, tx, name) })
}

func insert(ctx context.Context, tx *sql.Tx, name string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO writes (owner, token) SELECT $1, token FROM lease`, name)
	return err
}

// until waits for a condition.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// number returns the number that a query returns.
func number(t testing.TB, url, query string) (n int64) {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow(query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func isLost(owner *postgres.Owner) bool {
	select {
	case <-owner.Lost():
		return true
	default:
		return false
	}
}

func TestOwn(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t)
	a, b := open(t, postgres.Options{}, url), open(t, postgres.Options{}, url)
	createWrites(t, url)
	first := take(t, a, postgres.OwnOptions{Name: "sync on a.example"})
	began := time.Now()
	_, err := b.Own(t.Context(), postgres.OwnOptions{Name: "b"})
	owned, ok := errors.AsType[*postgres.OwnedError](err)
	if !ok || owned.Owner != "sync on a.example" || owned.Since.IsZero() || !owned.Until.After(owned.Since) {
		t.Fatalf("Own = %v, want an OwnedError", err)
	}
	if !strings.Contains(err.Error(), "belongs to sync on a.example, since ") {
		t.Errorf("Own = %v", err)
	}
	if waited := time.Since(began); waited > 5*time.Second {
		t.Errorf("without Wait, Own waited for %v", waited)
	}
	if err := write(t.Context(), a, "a"); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := take(t, b, postgres.OwnOptions{Name: "b"}) // at once: it does not wait
	if err := write(t.Context(), a, "a"); !errors.Is(err, postgres.ErrLost) {
		t.Errorf("a write after Close: %v, want %v", err, postgres.ErrLost)
	}
	if err := write(t.Context(), b, "b"); err != nil {
		t.Error(err)
	}
	if isLost(second) || second.Err() != nil || first.Err() != nil {
		t.Errorf("lost: %v, %v", first.Err(), second.Err())
	}
	if n := number(t, url, `SELECT COUNT(*) FROM writes`); n != 2 {
		t.Errorf("%d rows, want 2", n)
	}
	if token := number(t, url, `SELECT token FROM lease`); token != 2 {
		t.Errorf("token %d, want 2", token)
	}
}

// TestOwnAgain: a process may own its database again after it has given it back.
func TestOwnAgain(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t)
	db := open(t, postgres.Options{}, url)
	createWrites(t, url)
	for range 2 {
		owner := take(t, db, postgres.OwnOptions{})
		if err := write(t.Context(), db, "a"); err != nil {
			t.Error(err)
		}
		if err := owner.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOwnWaits(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t)
	first := take(t, open(t, postgres.Options{}, url), postgres.OwnOptions{Name: "first"})
	b := open(t, postgres.Options{}, url)
	short := 20 * time.Millisecond
	if _, err := b.Own(t.Context(), postgres.OwnOptions{Wait: short}); err == nil || !strings.Contains(err.Error(), "belongs to first") {
		t.Errorf("Own = %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), short)
	defer cancel()
	if _, err := b.Own(ctx, postgres.OwnOptions{Wait: time.Hour}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Own = %v, want %v", err, context.DeadlineExceeded)
	}
	got := make(chan error, 1)
	go func() {
		owner, err := b.Own(t.Context(), postgres.OwnOptions{Wait: time.Minute})
		if err == nil {
			err = owner.Close()
		}
		got <- err
	}()
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// TestOwnLocked: a database that no process owns, and that cannot be taken in time, does
// not belong to anybody.
func TestOwnLocked(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t)
	db := open(t, postgres.Options{}, url)
	other, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	tx, err := other.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Exec(`SELECT token FROM lease FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	_, err = db.Own(t.Context(), postgres.OwnOptions{Name: "a", Lease: 200 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "no process owns the database") || strings.Contains(err.Error(), "belongs to") {
		t.Errorf("Own = %v", err)
	}
}

// expire ends the lease, as if it had not been renewed.
func expire(t testing.TB, url string) { tamper(t, url, `UPDATE lease SET until = 0`) }

// withIsolation returns the address for transactions with an isolation level.
func withIsolation(t testing.TB, url, level string) string {
	t.Helper()
	return strings.ReplaceAll(with(t, url, "default_transaction_isolation", level), "+", "%20") // a space
}

// TestOwnTakeover: a takeover waits for a write transaction under way, and every later
// write of the earlier owner fails.
func TestOwnTakeover(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{"read committed", "repeatable read", "serializable"} {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			url := postgrestest.URL(t)
			a := open(t, postgres.Options{}, withIsolation(t, url, isolation))
			b := open(t, postgres.Options{}, url)
			createWrites(t, url)
			first := take(t, a, postgres.OwnOptions{Name: "a", Lease: time.Hour}) // it is not renewed in this test
			begun, end, written := make(chan bool), make(chan bool), make(chan error, 1)
			go func() {
				written <- a.Update(t.Context(), func(tx *sql.Tx) error {
					close(begun)
					<-end
					return insert(t.Context(), tx, "a")
				})
			}()
			<-begun
			expire(t, url)
			took := make(chan error, 1)
			go func() {
				owner, err := b.Own(t.Context(), postgres.OwnOptions{Name: "b", Wait: time.Minute})
				if err == nil {
					t.Cleanup(func() { _ = owner.Close() }) // the test has its result
					err = write(t.Context(), b, "b")
				}
				took <- err
			}()
			until(t, "the takeover waits", func() bool {
				return number(t, url, `SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'UPDATE lease SET token%'`) > 0
			})
			if err := write(t.Context(), a, "a"); err != nil { // still the owner
				t.Error(err)
			}
			select {
			case err := <-took:
				t.Errorf("Own did not wait for a write transaction: %v", err)
			default:
			}
			close(end)
			if err := <-written; err != nil {
				t.Error(err)
			}
			if err := <-took; err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if err := write(t.Context(), a, "a"); !errors.Is(err, postgres.ErrLost) || !strings.Contains(err.Error(), "belongs to b") {
					t.Errorf("write = %v, want %v", err, postgres.ErrLost)
				}
			}
			if !isLost(first) || !errors.Is(first.Err(), postgres.ErrLost) {
				t.Errorf("Err = %v, want %v", first.Err(), postgres.ErrLost)
			}
			if n := number(t, url, `SELECT COUNT(*) FROM writes WHERE seq > (SELECT seq FROM writes WHERE owner = 'b')`); n > 0 {
				t.Errorf("%d rows after the takeover", n)
			}
		})
	}
}

// TestOwnFenceWaits: a write that begins during a takeover waits for it, and fails.
func TestOwnFenceWaits(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{"read committed", "repeatable read", "serializable"} {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			url := postgrestest.URL(t)
			db := open(t, postgres.Options{}, withIsolation(t, url, isolation))
			createWrites(t, url)
			take(t, db, postgres.OwnOptions{Lease: time.Hour})
			other, err := sql.Open("pgx", url)
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			tx, err := other.Begin()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(`UPDATE lease SET token = token + 1, owner = 'b'`); err != nil {
				t.Fatal(err)
			}
			written := make(chan error, 1)
			go func() { written <- write(t.Context(), db, "a") }()
			until(t, "the write waits", func() bool {
				return number(t, url, `SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%FOR KEY SHARE'`) > 0
			})
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if err := <-written; !errors.Is(err, postgres.ErrLost) {
				t.Errorf("write = %v, want %v", err, postgres.ErrLost)
			}
			if n := number(t, url, `SELECT COUNT(*) FROM writes`); n != 0 {
				t.Errorf("%d rows, want none", n)
			}
		})
	}
}

// TestOwnRenewal: neither a write transaction under way nor dead connections prevent renewals.
func TestOwnRenewal(t *testing.T) {
	t.Parallel()
	name := fmt.Sprintf("renewal-%d", time.Now().UnixNano())
	url := postgrestest.URL(t)
	db := open(t, postgres.Options{}, with(t, url, "application_name", name))
	createWrites(t, url)
	owner := take(t, db, postgres.OwnOptions{Lease: 3 * time.Second})
	ends := func() int64 { return number(t, url, `SELECT until FROM lease`) }
	before := ends()
	if err := db.Update(t.Context(), func(tx *sql.Tx) error {
		until(t, "a renewal during a transaction", func() bool { return ends() > before })
		return insert(t.Context(), tx, "a")
	}); err != nil {
		t.Error(err)
	}
	before = ends()
	tamper(t, url, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '`+name+`'`)
	until(t, "a renewal with a new connection", func() bool { return ends() > before })
	if err := write(t.Context(), db, "a"); err != nil || isLost(owner) {
		t.Errorf("write = %v, lost: %v", err, owner.Err())
	}
}

// TestOwnIdle: the server ends a write transaction in which nothing happens for the
// time of the lease, and it is repeated.
func TestOwnIdle(t *testing.T) {
	t.Parallel()
	name := fmt.Sprintf("idle-%d", time.Now().UnixNano())
	url := postgrestest.URL(t)
	db := open(t, postgres.Options{}, with(t, url, "application_name", name))
	createWrites(t, url)
	take(t, db, postgres.OwnOptions{Lease: 2 * time.Second})
	calls := 0
	err := db.Update(t.Context(), func(tx *sql.Tx) error {
		if calls++; calls == 1 {
			until(t, "the end of the transaction", func() bool {
				return number(t, url, `SELECT COUNT(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND application_name = '`+name+`'`) == 0
			})
		}
		return insert(t.Context(), tx, "a")
	})
	if err != nil || calls < 2 {
		t.Errorf("Update = %v after %d calls", err, calls)
	}
	if n := number(t, url, `SELECT COUNT(*) FROM writes`); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}

func TestOwnRestart(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	url := server.URL
	db := open(t, postgres.Options{}, url)
	createWrites(t, url)
	owner := take(t, db, postgres.OwnOptions{Lease: 10 * time.Second})
	before := number(t, url, `SELECT until FROM lease`)
	server.Restart(t)
	until(t, "a renewal after the restart", func() bool {
		return isLost(owner) || number(t, url, `SELECT until FROM lease`) > before
	})
	if err := write(t.Context(), db, "a"); err != nil || isLost(owner) {
		t.Errorf("write = %v, lost: %v", err, owner.Err())
	}
}

// TestOwnUnrenewed: an owner that cannot renew its lease stops by itself.
func TestOwnUnrenewed(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t)
	db := open(t, postgres.Options{}, url)
	createWrites(t, url)
	owner := take(t, db, postgres.OwnOptions{Lease: shortLease})
	other, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	tx, err := other.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(`SELECT 1 FROM lease FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	<-owner.Lost()
	if err := tx.Rollback(); err != nil {
		t.Error(err)
	}
	if err := write(t.Context(), db, "a"); !errors.Is(err, postgres.ErrLost) || !strings.Contains(err.Error(), "could not be renewed") {
		t.Errorf("write = %v, want %v", err, postgres.ErrLost)
	}
}

// TestOwnHistories: processes that write, pause, give back and lose the database write
// one after the other, in the order of their tokens.
func TestOwnHistories(t *testing.T) {
	t.Parallel()
	for range 4 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			history(t, seed)
		})
	}
}

func history(t *testing.T, seed uint64) {
	const processes, owners = 4, 10
	url := postgrestest.URL(t)
	open(t, postgres.Options{}, url)
	createWrites(t, url)
	ctx, cancel := context.WithCancel(t.Context())
	var g sync.WaitGroup
	for i := range processes {
		g.Go(func() { live(ctx, t, url, fmt.Sprint("process ", i), rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	r := rand.New(rand.NewPCG(seed, processes))
	until(t, "enough owners", func() bool {
		expire(t, url) // the owner does not know
		time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
		return number(t, url, `SELECT COUNT(DISTINCT owner) FROM writes`) >= owners
	})
	cancel()
	g.Wait()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(`SELECT owner, token FROM writes ORDER BY seq`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	tokens := map[string]int64{}
	var last int64
	n := 0
	for ; rows.Next(); n++ {
		var owner string
		var token int64
		if err := rows.Scan(&owner, &token); err != nil {
			t.Fatal(err)
		}
		if had, ok := tokens[owner]; token < last || ok && had != token {
			t.Errorf("row %d: %s wrote with token %d, before it token %d wrote, and its own was %d", n, owner, token, last, had)
		}
		tokens[owner], last = token, token
	}
	if err := rows.Err(); err != nil {
		t.Error(err)
	}
	t.Logf("%d rows of %d owners", n, len(tokens))
}

// live owns the database again and again, with a name of its own each time, until ctx ends.
func live(ctx context.Context, t *testing.T, url, name string, r *rand.Rand) {
	db := open(t, postgres.Options{}, url)
	for i := 0; ctx.Err() == nil; i++ {
		name := fmt.Sprint(name, ", time ", i)
		owner, err := db.Own(ctx, postgres.OwnOptions{Name: name, Lease: 300 * time.Millisecond, Wait: time.Minute})
		if err != nil {
			if ctx.Err() == nil {
				t.Error(err)
			}
			return
		}
		for err == nil && r.IntN(20) > 0 {
			pause := time.Duration(0)
			if r.IntN(4) == 0 {
				pause = time.Duration(r.IntN(400)) * time.Millisecond
			}
			err = db.Update(ctx, func(tx *sql.Tx) error {
				time.Sleep(pause)
				return insert(ctx, tx, name)
			})
		}
		if err != nil && !errors.Is(err, postgres.ErrLost) && ctx.Err() == nil {
			t.Errorf("write = %v", err)
		}
		if err := owner.Close(); err != nil {
			t.Error(err)
		}
	}
}
