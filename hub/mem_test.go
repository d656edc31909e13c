package hub_test

import (
	"testing"

	"lockstep/hub"
	"lockstep/hub/hubtest"
)

func TestMem(t *testing.T) {
	t.Parallel()
	hubtest.Run(t, func(*testing.T) hub.Store { return hub.NewMem() })
}
