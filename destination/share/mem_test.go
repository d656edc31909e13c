package share_test

import (
	"testing"

	"lockstep/destination/share"
	"lockstep/destination/share/sharetest"
)

func TestMem(t *testing.T) {
	t.Parallel()
	sharetest.Run(t, func(*testing.T) share.Table { return new(share.Mem) })
}
