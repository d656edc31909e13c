package catalog_test

import (
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/catalog/catalogtest"
)

func TestMem(t *testing.T) {
	t.Parallel()
	catalogtest.Run(t, func(*testing.T) catalog.Catalog { return catalog.NewMem(nil) })
}

func TestMemClock(t *testing.T) {
	t.Parallel()
	catalogtest.RunClock(t, func(_ *testing.T, clock func() time.Time) catalog.Catalog { return catalog.NewMem(clock) })
}
