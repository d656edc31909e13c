package transfer

import (
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// Shared contains the limits that apply to all transfers of a Destination together.
// It is safe for concurrent use.
type Shared struct {
	hosts     mirrorHosts
	large     atomic.Int32        // large downloads in progress
	segmented atomic.Int32        // of these, segmented downloads
	patching  *semaphore.Weighted // bytes of memory used by patches being applied
}

func NewShared() *Shared { return &Shared{patching: semaphore.NewWeighted(makingBytes)} }
