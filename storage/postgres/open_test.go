package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/destination/journal"
	"lockstep/hub/hubstore"
	"lockstep/storage/internal/sqldb"
	"lockstep/storage/postgres"
	"lockstep/storage/postgres/postgrestest"
)

// with returns the address with one more parameter.
func with(t testing.TB, address, key, value string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(key, value)
	u.RawQuery = q.Encode()
	return u.String()
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	newer, good := postgrestest.URL(t), postgrestest.URL(t)
	if err := open(t, postgres.Options{}, newer).Close(); err != nil {
		t.Fatal(err)
	}
	tamper(t, newer, `UPDATE schema_version SET version = 99 WHERE name = 'hub'`)
	const secret = "s3cr3t"
	for name, tt := range map[string]struct{ url, want string }{
		"newer":        {newer, "hub schema has version 99, this program knows versions up to 2"},
		"no database":  {strings.Replace(good, "/postgres?", "/none?", 1), `database "none" does not exist`},
		"no user":      {with(t, good, "user", "none"), `role "none" does not exist`},
		"no server":    {"postgres://u:" + secret + "@127.0.0.1:1/db", "127.0.0.1:1/db"},
		"no URL":       {"postgres://u:" + secret + "@:x:/db", ""},
		"no port":      {"postgres://u:" + secret + "@127.0.0.1:99999999/db", ""},
		"odd":          {"postgres://u:" + secret + "@127.0.0.1/db?sslmode=odd", "sslmode"},
		"empty schema": {with(t, good, "search_path", "none"), "no schema has been selected"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := postgres.Open(t.Context(), tt.url)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), secret) {
				t.Errorf("Open = %v, want %q", err, tt.want)
			}
			if errors.Is(err, sqldb.ErrNewer) != (name == "newer") {
				t.Errorf("Open = %v", err)
			}
			t.Log(err)
		})
	}
}

// TestOpenOlder opens a database from before hubs were introduced.
func TestOpenOlder(t *testing.T) {
	t.Parallel()
	address := postgrestest.URL(t)
	if err := open(t, postgres.Options{}, address).Close(); err != nil {
		t.Fatal(err)
	}
	tamper(t, address, `DELETE FROM schema_version WHERE name = 'hub'`)
	for _, table := range []string{"topic", "mark", "message", "subscription", "progress", "request", "owner", "claim", "replay"} {
		tamper(t, address, `DROP TABLE hub_`+table)
	}
	h := open(t, postgres.Options{Migrate: true}, address).Hub()
	if seqs, err := h.Append(t.Context(), []hubstore.Message{{Topic: "t"}}); err != nil || seqs[0] != 1 {
		t.Errorf("Append = %v, %v", seqs, err)
	}
}

// TestOpenAtOnce opens a new database from several handles, which behave like
// processes. They write to the same and to new sets and topics.
func TestOpenAtOnce(t *testing.T) {
	t.Parallel()
	address := postgrestest.URL(t)
	const n = 4
	var g sync.WaitGroup
	for i := range n {
		g.Go(func() {
			db, err := postgres.Open(t.Context(), address)
			if err != nil {
				t.Error(err)
				return
			}
			defer db.Close()
			for j := range 5 {
				u := catalog.Update{Record: catalog.Record{URI: fmt.Sprint(i, j)}}
				for _, set := range []string{"set", fmt.Sprint("set ", j), fmt.Sprint("set of ", i)} {
					if _, err := db.Catalog().Apply(t.Context(), set, []catalog.Update{u}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	g.Wait()
	s, err := open(t, postgres.Options{}, address).Catalog().Status(t.Context(), "set")
	if err != nil || s.Resources != 5*n || s.Last != 5*n {
		t.Errorf("Status = %+v, %v, want %d resources", s, err, 5*n)
	}
}

// TestReadOnly: errors wrap those of the operating system, which callers
// distinguish.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	address := postgrestest.URL(t)
	if err := open(t, postgres.Options{}, address).Close(); err != nil {
		t.Fatal(err)
	}
	address = with(t, address, "default_transaction_read_only", "on")
	db, err := postgres.Open(t.Context(), address)
	if err == nil {
		defer db.Close()
		_, err = db.Hub().Append(t.Context(), []hubstore.Message{{Topic: "t"}})
	}
	if hint := hintOf(err); !errors.Is(err, syscall.EROFS) || !strings.Contains(hint, "primary server") {
		t.Errorf("read-only database: %v, want %v; hint: %s", err, syscall.EROFS, hint)
	}
}

// TestDurable: a transaction waits for the disk even if the server is
// configured not to.
func TestDurable(t *testing.T) {
	t.Parallel()
	db := open(t, postgres.Options{}, with(t, postgrestest.URL(t), "synchronous_commit", "off"))
	var setting string
	if err := db.Update(t.Context(), func(tx *sql.Tx) error {
		return tx.QueryRow(`SELECT current_setting('synchronous_commit')`).Scan(&setting)
	}); err != nil || setting != "on" {
		t.Errorf("synchronous_commit is %q, %v, want on", setting, err)
	}
}

// TestDeadConnections closes all connections on the server: no operation fails.
func TestDeadConnections(t *testing.T) {
	t.Parallel()
	name := fmt.Sprintf("dead-%d", time.Now().UnixNano())
	address := with(t, postgrestest.URL(t), "application_name", name)
	h := open(t, postgres.Options{}, address).Hub()
	use := func() {
		t.Helper()
		var g sync.WaitGroup
		for range 6 { // open several
			g.Go(func() {
				if _, err := h.Append(context.Background(), []hubstore.Message{{Topic: "t"}}); err != nil {
					t.Error(err)
				}
				for _, err := range h.Log(context.Background(), "t", 0) {
					if err != nil {
						t.Error(err)
					}
				}
				for _, err := range h.Topics(context.Background()) {
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		g.Wait()
	}
	use()
	for range 3 {
		tamper(t, with(t, address, "application_name", "other"), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '`+name+`'`)
		use()
	}
	var last int64
	for topic, err := range h.Topics(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		last = topic.Last
	}
	if last != 4*6 {
		t.Errorf("%d messages, want %d", last, 4*6)
	}
}

// TestOpenOlderExplicitly: tables of an earlier version are changed only when that is requested, and can be
// read as they are; a database without any is not one to be read.
func TestOpenOlderExplicitly(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t)
	if _, err := (postgres.Options{ReadOnly: true}).Open(t.Context(), url); !errors.Is(err, postgres.ErrEmpty) {
		t.Errorf("an empty database: %v", err)
	}
	if err := open(t, postgres.Options{}, url).Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	tamper(t, url, `DROP TABLE hub_replay`)
	tamper(t, url, `UPDATE schema_version SET version = 1 WHERE name = 'hub'`)
	if _, err := postgres.Open(t.Context(), url); !errors.Is(err, postgres.ErrOlder) {
		t.Errorf("an earlier version: %v", err)
	}
	read := open(t, postgres.Options{ReadOnly: true}, url)
	if err := read.Check(t.Context()); err != nil {
		t.Errorf("it cannot be read: %v", err)
	}
	write := func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), `UPDATE schema_version SET version = version`)
		return err
	}
	if err := read.Update(t.Context(), write); err == nil {
		t.Error("a reader could write")
	}
	if err := open(t, postgres.Options{Migrate: true}, url).Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := open(t, postgres.Options{}, url).Check(t.Context()); err != nil {
		t.Errorf("after the migration: %v", err)
	}
}

// hintOf returns what an error says is to be done.
func hintOf(err error) string {
	if h, ok := errors.AsType[interface {
		error
		Hint() string
	}](err); ok {
		return h.Hint()
	}
	return ""
}

// TestServerFull: where the server has no space, that is the place to free some, not where the command runs.
func TestServerFull(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t)
	db := open(t, postgres.Options{}, url)
	tamper(t, url, `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$`)
	tamper(t, url, `CREATE TRIGGER full_disk BEFORE INSERT ON journal_held EXECUTE FUNCTION full_disk()`)
	err := db.Journal().Record(t.Context(), journal.Batch{Put: []journal.Held{{URI: "https://example.org/a", Path: "a", Sets: []int{1}}}})
	if hint := hintOf(err); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(hint, "server of the database") || strings.Count(strings.ToLower(err.Error()), "no space left") != 1 {
		t.Errorf("Record = %v, hint: %s", err, hint)
	}
}
