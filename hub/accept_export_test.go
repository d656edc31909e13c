package hub

import (
	"time"

	"lockstep/hub/internal/limit"
)

// VerifyWaits sets the waits before a callback is asked again. Call it before
// Run.
func (h *Hub) VerifyWaits(d ...time.Duration) { h.intents.waits = d }

// Fetches returns how many fetches of topics found a change, found none, or
// failed.
func (h *Hub) Fetches() (fetched, unchanged, unfetched int64) {
	c := &h.in.counts
	return c.fetched.Load(), c.unchanged.Load(), c.unfetched.Load()
}

// Pending returns how many requests wait, and at how many hosts.
func (h *Hub) Pending() (requests, hosts int) {
	h.intents.mu.Lock()
	defer h.intents.mu.Unlock()
	return len(h.intents.asks), len(h.intents.hosts)
}

// Pinged returns how many topics have a pending or running fetch.
func (h *Hub) Pinged() int {
	h.pingFetcher.mu.Lock()
	defer h.pingFetcher.mu.Unlock()
	return len(h.pingFetcher.topics)
}

// AskRate sets how often one client may subscribe.
func (h *Hub) AskRate(burst, per float64) { h.in.asks.Rate = limit.Rate{Burst: burst, Per: per} }
