package fetch

import (
	"sync/atomic"
	"time"
)

// A divisor is the number of processes that share the limits. The zero value, and nil, are one.
type divisor struct{ n atomic.Int64 }

func (d *divisor) get() int {
	if d == nil {
		return 1
	}
	return int(max(d.n.Load(), 1))
}

// Divide makes the limits of c on concurrent requests, their rate and its own bandwidth those of n
// processes together: c uses one n-th of each, but may always have one request under way.
// Requests under way are not ended.
func Divide(c *Client, n int) {
	c.hosts.divisor.n.Store(int64(n))
	for _, h := range c.hosts.all() {
		h.slots.mu.Lock()
		h.slots.wake() // there may be more room now
		h.slots.mu.Unlock()
	}
}

// Pauses returns the hosts, as [HostOf] names them, that have asked for no requests before a
// time, with that time.
func Pauses(c *Client) map[string]time.Time {
	now := time.Now()
	pauses := map[string]time.Time{}
	for name, h := range c.hosts.all() {
		if until := h.rate.Until(); until.After(now) {
			pauses[name] = until
		}
	}
	return pauses
}

// Pause delays all requests to a host until a time, which is at most [MaxRetryAfter] away, as
// if it had just asked for that.
func Pause(c *Client, host string, until time.Time) {
	if most := time.Now().Add(MaxRetryAfter); until.After(most) {
		until = most
	}
	c.hosts.get(host).rate.Pause(until)
}

// all returns the hosts that are remembered.
func (hs *hosts) all() map[string]*host {
	hs.mu.RLock()
	defer hs.mu.RUnlock()
	all := make(map[string]*host, len(hs.m))
	for name, h := range hs.m {
		all[name] = h
	}
	return all
}
