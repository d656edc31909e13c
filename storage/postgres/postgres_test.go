package postgres_test

import (
	"database/sql"
	"net/url"
	"os"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/catalog/catalogtest"
	"lockstep/destination/journal"
	"lockstep/destination/journal/part"
	"lockstep/destination/journaltest"
	"lockstep/hub/hubstore"
	"lockstep/hub/hubtest"
	"lockstep/intake/harvest/ledger"
	"lockstep/intake/ledgertest"
	"lockstep/storage/postgres"
	"lockstep/storage/postgres/postgrestest"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }

func open(t testing.TB, o postgres.Options, url string) *postgres.DB {
	t.Helper()
	db, err := o.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func TestCatalog(t *testing.T) {
	t.Parallel()
	catalogtest.Run(t, func(t *testing.T) catalog.Catalog {
		return open(t, postgres.Options{}, postgrestest.URL(t)).Catalog()
	})
}

// TestWithoutPreparedStatements: through a connection pool such as PgBouncer, the driver has to
// know the types of parameters by itself.
func TestWithoutPreparedStatements(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			catalogtest.Run(t, func(t *testing.T) catalog.Catalog {
				u, err := url.Parse(postgrestest.URL(t))
				if err != nil {
					t.Fatal(err)
				}
				q := u.Query()
				q.Set("default_query_exec_mode", mode)
				u.RawQuery = q.Encode()
				return open(t, postgres.Options{}, u.String()).Catalog()
			})
		})
	}
}

func TestCatalogClock(t *testing.T) {
	t.Parallel()
	catalogtest.RunClock(t, func(t *testing.T, clock func() time.Time) catalog.Catalog {
		return open(t, postgres.Options{Clock: clock}, postgrestest.URL(t)).Catalog()
	})
}

func TestJournal(t *testing.T) {
	t.Parallel()
	journaltest.Run(t, func(t *testing.T) journal.Journal {
		return open(t, postgres.Options{}, postgrestest.URL(t)).Journal()
	})
}

func TestJournalPart(t *testing.T) {
	t.Parallel()
	journaltest.RunPart(t, func(t *testing.T) part.Whole {
		return open(t, postgres.Options{}, postgrestest.URL(t)).Journal()
	})
}

func TestLedger(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t *testing.T) ledger.Ledger {
		return open(t, postgres.Options{}, postgrestest.URL(t)).Ledger()
	})
}

func TestHub(t *testing.T) {
	t.Parallel()
	hubtest.Run(t, func(t *testing.T) hubstore.Store {
		return open(t, postgres.Options{}, postgrestest.URL(t)).Hub()
	})
}

// again returns functions that open the database at url and close it.
func again(t *testing.T, url string) (open func() *postgres.DB, shut func()) {
	var db *postgres.DB
	return func() *postgres.DB {
			var err error
			if db, err = postgres.Open(t.Context(), url); err != nil {
				t.Fatal(err)
			}
			return db
		}, func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}
}

func TestCatalogReopen(t *testing.T) {
	t.Parallel()
	open, shut := again(t, postgrestest.URL(t))
	catalogtest.RunReopen(t, func() catalog.Catalog { return open().Catalog() }, shut)
}

func TestJournalReopen(t *testing.T) {
	t.Parallel()
	open, shut := again(t, postgrestest.URL(t))
	journaltest.Reopen(t, func() journal.Journal { return open().Journal() }, shut)
}

func TestLedgerReopen(t *testing.T) {
	t.Parallel()
	open, shut := again(t, postgrestest.URL(t))
	ledgertest.RunReopen(t, func() ledger.Ledger { return open().Ledger() }, shut)
}

func TestHubReopen(t *testing.T) {
	t.Parallel()
	open, shut := again(t, postgrestest.URL(t))
	hubtest.RunReopen(t, func() hubstore.Store { return open().Hub() }, shut)
}

// tamper runs a statement without using the store.
func tamper(t testing.TB, url, statement string) {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
}
