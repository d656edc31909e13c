package destination

import "time"

// SetTurn says for how long one set is at work while others wait.
func (f *Follower) SetTurn(d time.Duration) { f.turnFor = d }

// SetBacklog sets how many notifications, and how many bytes of them, wait at most,
// and for how long.
func (f *Follower) SetBacklog(messages int, bytes int64, age time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.limits = backlogLimits{messages: messages, bytes: bytes, age: age}
}
