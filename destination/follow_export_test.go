package destination

import (
	"time"

	"lockstep/destination/internal/follow"
)

// SetTurn sets how long one set is worked on while others wait.
func (f *Follower) SetTurn(d time.Duration) { f.follower.SetTurn(d) }

// SetBacklog sets how many notifications, and how many bytes of them, wait at most,
// and for how long.
func (f *Follower) SetBacklog(messages int, bytes int64, age time.Duration) {
	f.follower.SetLimits(follow.Limits{Messages: messages, Bytes: bytes, Age: age})
}
