package memento

import (
	"context"
	"errors"
	"time"
)

// A Policy says which versions stay: those that one of its fields keeps, and
// the version a resource has now.
type Policy struct {
	All   bool          // all
	Count int           // so many of each resource, the newest
	Age   time.Duration // those that were replaced, or deleted, less than this ago

	// What published documents name (ME-RET-01). All with a Seq above FloorSeq
	// stay, so that the zero Policy keeps all; and of each resource what it was
	// when the set was at one of SnapshotSeqs.
	FloorSeq     int64
	SnapshotSeqs []int64
}

// Retained is what a [Retain] came to.
type Retained struct {
	Kept, Dropped int64     // versions, those that are Gone not counted
	Bytes         int64     // lengths of those kept
	Oldest        time.Time // At of the oldest of them; zero: none
}

// Retain drops the versions of the set that the policy does not keep.
func Retain(ctx context.Context, s Store, set string, p Policy, now time.Time) (Retained, error) {
	return Retained{}, errors.ErrUnsupported
}
