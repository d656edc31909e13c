package hub

import "time"

// VerifyWaits sets the waits before a callback is asked again, before Run.
func (h *Hub) VerifyWaits(d ...time.Duration) { h.intents.waits = d }

// Fetches returns how often topics were fetched, with news, without and in vain.
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

// Pinged returns how many topics have something under way.
func (h *Hub) Pinged() int {
	h.thin.mu.Lock()
	defer h.thin.mu.Unlock()
	return len(h.thin.topics)
}

// AskRate sets how often one source may ask.
func (h *Hub) AskRate(burst, per float64) { h.in.asks.rate = rate{burst, per} }
