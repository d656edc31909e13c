package http1

import "sync/atomic"

const (
	// unusualCost is how many usual responses compensate for an unusual one, which
	// takes a second request.
	unusualCost = 16
	// mostCost is the cost from which a host gets no more requests from this package.
	mostCost = 64
)

// A Record of the responses of a host shows whether this package should send requests
// to it. It is safe for concurrent use.
type Record struct{ cost atomic.Int32 }

// Add records a response.
func (r *Record) Add(unusual bool) { r.add(unusual, unusualCost) }

func (r *Record) add(unusual bool, cost int32) {
	switch n := r.cost.Load(); {
	case unusual:
		r.cost.Add(cost)
	case n > 0 && n < mostCost:
		r.cost.Add(-1)
	}
}

// Unusual reports whether too many of the responses were unusual. It remains so.
func (r *Record) Unusual() bool { return r.cost.Load() >= mostCost }
