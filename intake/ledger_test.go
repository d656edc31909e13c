package intake_test

import (
	"testing"

	"lockstep/intake"
	"lockstep/intake/ledgertest"
)

func TestMemLedger(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(*testing.T) intake.Ledger { return new(intake.MemLedger) })
}
