package transfer

import (
	"sync"
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
	rests     sync.Map            // by path: the rest, see [transfer.leave]
}

// A rest is what is missing of a resource without a hash.
type rest struct {
	uri, etag string
	from      int64
	total     int64 // length of the whole; 0 if unknown
}

func NewShared() *Shared { return &Shared{patching: semaphore.NewWeighted(makingBytes)} }
