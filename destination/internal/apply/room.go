package apply

import (
	"sync"
	"sync/atomic"

	"lockstep/destination/internal/failure"
	"lockstep/destination/internal/transfer"
)

// A room has transfers run side by side until one finds no space in it. The next then
// waits for those under way, which may take the space that it needs and give it back, and
// runs alone; so do the others, until one has found space. It is safe for concurrent use.
type room struct {
	mu       sync.RWMutex // held for writing by a transfer that is alone
	tight    atomic.Bool
	underWay atomic.Int64
}

// isCrowded reports whether o found no space while others were under way.
func (r *room) isCrowded(o *transfer.Outcome) bool {
	return failure.IsFull(o.Err) && r.underWay.Load() > 0
}

// transfer runs do, which must not call transfer.
func (r *room) transfer(do func() transfer.Outcome) transfer.Outcome {
	if r.tight.Load() {
		r.mu.Lock()
		defer r.mu.Unlock()
		o := r.run(do)
		r.tight.Store(failure.IsFull(o.Err))
		return o
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	o := r.run(do)
	if o.Crowded = failure.IsFull(o.Err); o.Crowded {
		r.tight.Store(true)
	}
	return o
}

func (r *room) run(do func() transfer.Outcome) transfer.Outcome {
	r.underWay.Add(1)
	defer r.underWay.Add(-1)
	return do()
}
