package destination

import (
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// shared is what all transfers of a Destination have in common, so that together
// they stay within limits.
type shared struct {
	hosts     mirrorHosts
	large     atomic.Int32        // large contents under way
	segmented atomic.Int32        // of them those got over several connections
	patching  *semaphore.Weighted // bytes of memory that patches being applied may take
}

func newShared() *shared { return &shared{patching: semaphore.NewWeighted(makingBytes)} }
