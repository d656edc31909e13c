package intake_test

import (
	"testing"

	"lockstep/intake"
	"lockstep/intake/contentstest"
)

func TestMemContents(t *testing.T) {
	t.Parallel()
	contentstest.Run(t, func(*testing.T) intake.Contents { return new(intake.MemContents) })
}
