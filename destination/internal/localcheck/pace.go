package localcheck

import (
	"sync/atomic"
	"time"
)

// paceShare limits the share of time that checks take, to a twentieth.
const paceShare = 20

// A Budget limits the share of time that the checks of all Followers that share it take:
// from one check to the next, each of them waits paceShare times as long as a check by
// each takes. The zero value is ready to use. It is safe for concurrent use.
type Budget struct {
	round atomic.Int64 // nanoseconds that the last check of each Follower took, together
}

// A Pace spaces the checks of a Follower.
type Pace struct {
	budget *Budget
	last   time.Time     // when the last check began
	took   time.Duration // how long it took
}

// NewPace returns a Pace with a share in b; nil: a Budget of its own.
func NewPace(b *Budget) Pace {
	if b == nil {
		b = new(Budget)
	}
	return Pace{budget: b}
}

// IsDue reports whether to check at now: the first time, then at least every poll as far
// as the Budget allows, and every day in any case.
func (p *Pace) IsDue(now time.Time, poll time.Duration) bool {
	wait := max(poll, paceShare*time.Duration(p.budget.round.Load()))
	return p.last.IsZero() || now.Sub(p.last) >= min(wait, max(poll, dailyCheck))
}

// Done records a check from start to end.
func (p *Pace) Done(start, end time.Time) {
	p.spend(end.Sub(start))
	p.last = start
}

// Leave leaves the Budget to the others. The next check is due at once.
func (p *Pace) Leave() {
	p.spend(0)
	p.last = time.Time{}
}

func (p *Pace) spend(took time.Duration) {
	p.budget.round.Add(int64(took - p.took))
	p.took = took
}
