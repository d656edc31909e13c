package blob

import (
	"strconv"
	"sync"
)

// reservedNames are the names of temporary files that this process uses. The
// zero value is ready to use.
type reservedNames struct {
	mu     sync.Mutex // guards what follows
	active map[string]struct{}
	most   int    // names in active, since it was made: a map that was large stays large
	next   uint64 // distinguishes the names that are given to several Writers of one blob
}

// reserve reserves base for a Writer, or a similar name if another Writer of
// this process has it.
func (r *reservedNames) reserve(base string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for first := base; !r.try(base); {
		r.next++
		base = first + "-" + strconv.FormatUint(r.next, 36)
	}
	return base
}

// tryReserve reserves base, unless it is taken.
func (r *reservedNames) tryReserve(base string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.try(base)
}

func (r *reservedNames) try(base string) bool {
	if _, taken := r.active[base]; taken {
		return false
	}
	if r.active == nil {
		r.active = make(map[string]struct{})
	}
	r.active[base] = struct{}{}
	r.most = max(r.most, len(r.active))
	return true
}

func (r *reservedNames) release(base string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.active, base)
	if len(r.active) == 0 && r.most > manyNames {
		r.active, r.most = nil, 0
	}
}

// manyNames is how many names a map may have had that is used again.
const manyNames = 32
