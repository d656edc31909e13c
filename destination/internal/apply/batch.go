package apply

import (
	"sync/atomic"
	"time"

	"lockstep/destination/internal/transfer"
)

// sealAfter is how many contents of a batch stay open: a batch that small is
// synced file by file.
const sealAfter = 8

// The bounds of a batch. A larger one costs fewer synchronisations of the disk
// and transactions; all of it is fetched again if we are killed before it is
// committed, unless the store can resume what was left. It is committed when it
// has one of these; while the batch before is being committed, it grows.
const (
	batchCount = 1024
	batchBytes = 64 << 20
	batchAge   = 200 * time.Millisecond
)

// The outcomes that wait for the batch before are bounded, too: beyond that,
// fetchers block.
const (
	mostCount = 4 * batchCount
	mostBytes = 2 * batchBytes
	mostRows  = 16 * batchCount
)

// A batch is contents that are to be committed together.
type batch struct {
	outcomes []transfer.Outcome
	size     int // of the batch before
	bytes    int64
	open     int // files of it that are open
	begun    time.Time
	many     atomic.Bool // the store need not have its files open
}

// add adds a content.
func (b *batch) add(o transfer.Outcome) {
	if len(b.outcomes) == 0 {
		b.begun = time.Now()
		b.outcomes = make([]transfer.Outcome, 0, b.size)
	}
	b.outcomes = append(b.outcomes, o)
	b.bytes += o.Held.Length
	if !o.Sealed {
		b.open++
	}
	b.many.Store(len(b.outcomes) > sealAfter)
}

// take empties the batch and returns its contents; those that come next may
// have their files open again.
func (b *batch) take() []transfer.Outcome {
	outcomes := b.drop()
	b.many.Store(false)
	return outcomes
}

// drop empties the batch and returns its contents.
func (b *batch) drop() []transfer.Outcome {
	outcomes := b.outcomes
	b.outcomes, b.size, b.bytes, b.open = nil, len(outcomes), 0, 0
	return outcomes
}
