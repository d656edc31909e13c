package localcheck

import "time"

// paceShare limits the share of time that checks take: a Follower waits this many times
// as long as the last check took.
const paceShare = 20

// A Pace spaces the checks of a Follower.
type Pace struct {
	last time.Time     // when the last check ended
	took time.Duration // how long it took
}

// IsDue reports whether to check now, at least every poll if checks are fast.
func (p *Pace) IsDue(poll time.Duration) bool {
	return p.last.IsZero() || time.Since(p.last) >= max(poll, paceShare*p.took)
}

// Done records a check that began at start.
func (p *Pace) Done(start time.Time) { p.last, p.took = time.Now(), time.Since(start) }
