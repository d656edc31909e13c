package memento_test

import (
	"testing"

	"lockstep/memento"
	"lockstep/memento/mementotest"
)

func TestMem(t *testing.T) {
	t.Parallel()
	mementotest.Run(t, func(*testing.T) memento.Store { return memento.NewMem() })
}
