package destination

import "time"

// SetTurn says for how long one set is at work while others wait.
func (f *Follower) SetTurn(d time.Duration) { f.turnFor = d }
