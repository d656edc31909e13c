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
		return open(t, sqlite.Options{}, filepath.Join(t.TempDir(), "state.db")).Ledger()
	})
}

func TestLedgerReopen(t *testing.T) {
	t.Parallel()
	open, shut := again(t, filepath.Join(t.TempDir(), "state.db"))
	ledgertest.RunReopen(t, func() intake.Ledger { return open().Ledger() }, shut)
}
