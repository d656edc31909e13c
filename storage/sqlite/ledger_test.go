package sqlite_test

import (
	"path/filepath"
	"testing"

	"lockstep/intake/harvest/ledger"
	"lockstep/intake/ledgertest"
	"lockstep/storage/sqlite"
)

func TestLedger(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t *testing.T) ledger.Ledger {
		return open(t, sqlite.Options{}, filepath.Join(t.TempDir(), "state.db")).Ledger()
	})
}

func TestLedgerReopen(t *testing.T) {
	t.Parallel()
	open, shut := again(t, filepath.Join(t.TempDir(), "state.db"))
	ledgertest.RunReopen(t, func() ledger.Ledger { return open().Ledger() }, shut)
}
