package ledger_test

import (
	"testing"

	"lockstep/intake/harvest/ledger"
	"lockstep/intake/ledgertest"
)

func TestMemLedger(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(*testing.T) ledger.Ledger { return new(ledger.Mem) })
}
