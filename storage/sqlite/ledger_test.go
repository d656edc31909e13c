package sqlite_test

import (
	"path/filepath"
	"testing"

	"lockstep/intake"
	"lockstep/intake/ledgertest"
	"lockstep/storage/sqlite"
)

func TestLedger(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t *testing.T) intake.Ledger {
		db, err := sqlite.Open(filepath.Join(t.TempDir(), "state.db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
		return db.Ledger()
	})
}

func TestLedgerReopen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	var db *sqlite.DB
	ledgertest.Reopen(t, func() intake.Ledger {
		var err error
		if db, err = sqlite.Open(path); err != nil {
			t.Fatal(err)
		}
		return db.Ledger()
	}, func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}
