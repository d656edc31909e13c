package transfer

import (
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// Shared is what all transfers of a Destination have in common, so that together
// they stay within limits.
type Shared struct {
	hosts     mirrorHosts
	large     atomic.Int32        // large contents under way
	segmented atomic.Int32        // of them those got over several connections
	patching  *semaphore.Weighted // bytes of memory that patches being applied may take
}

func NewShared() *Shared { return &Shared{patching: semaphore.NewWeighted(makingBytes)} }
