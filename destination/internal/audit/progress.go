package audit

import "time"

// interval is the shortest time between progress events.
const interval = 100 * time.Millisecond

// A progress counts the resources that were examined.
type progress struct {
	total int64 // resources to be examined, as far as it is known
	done  int64
	last  time.Time // when progress was reported
}

// begin starts with a set that holds resources, and returns the total.
func (p *progress) begin(held int64) int64 {
	p.total = max(p.done, held)
	return p.total
}

// step counts a resource, and returns how many were examined of how many.
func (p *progress) step() (done, total int64) {
	p.done++
	return p.done, max(p.total, p.done)
}

// isDue reports whether progress is to be reported now.
func (p *progress) isDue() bool {
	if p.done%64 != 0 || time.Since(p.last) < interval {
		return false
	}
	p.last = time.Now()
	return true
}
