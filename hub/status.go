package hub

// Stats describes the state of a hub, and what it has done since it was
// started. With several hubs on one Store it covers only this one.
type Stats struct {
	Topics        int `json:"topics"`
	Subscriptions int `json:"subscriptions"`
	Idle          int `json:"idle"`     // subscriptions that have all messages
	Queued        int `json:"queued"`   // subscriptions that wait for their turn
	Sending       int `json:"sending"`  // subscriptions with a delivery under way
	Waiting       int `json:"waiting"`  // subscriptions that wait for a retry after failures
	Behind        int `json:"behind"`   // subscriptions that lack messages, for whatever reason
	Requests      int `json:"requests"` // requests that were accepted and wait to be verified

	LagMax int64 `json:"lag_max"`    // the most messages that one subscription lacks
	Kept   int64 `json:"kept_bytes"` // of stored messages

	Accepted       int64 `json:"accepted"` // messages
	AcceptedBytes  int64 `json:"accepted_bytes"`
	Delivered      int64 `json:"delivered"` // messages, each to one subscriber
	DeliveredBytes int64 `json:"delivered_bytes"`
	Failed         int64 `json:"failed"`     // failed attempts
	GivenUp        int64 `json:"given_up"`   // messages that a subscriber did not get in time
	Verified       int64 `json:"verified"`   // requests that callbacks confirmed
	Unverified     int64 `json:"unverified"` // requests that they did not confirm
	Refused        int64 `json:"refused"`    // requests answered with 4xx or 5xx
	Limited        int64 `json:"limited"`    // of them, those beyond a rate limit or quota
	Pings          int64 `json:"pings"`      // topics that were pinged
	Fetched        int64 `json:"fetched"`    // fetched topics that had changed
	Unchanged      int64 `json:"unchanged"`  // fetched topics that had not changed
	Unfetched      int64 `json:"unfetched"`  // topics that could not be fetched
	Ended          int64 `json:"ended"`      // subscriptions that their endpoint ended with 410
	Expired        int64 `json:"expired"`    // subscriptions whose lease expired
	Denied         int64 `json:"denied"`     // subscriptions that the hub ended

	Latency Histogram `json:"-"` // of successful deliveries
}

// Stats returns the state of the hub. It visits every subscription: 100,000
// take some milliseconds.
func (h *Hub) Stats() Stats {
	t, in := &h.tally, &h.in.counts
	s := Stats{
		Accepted: t.accepted.Load(), AcceptedBytes: t.acceptedBytes.Load(),
		Delivered: t.delivered.Load(), DeliveredBytes: t.deliveredBytes.Load(),
		Failed: t.failed.Load(), GivenUp: t.givenUp.Load(),
		Verified: t.verified.Load(), Unverified: t.unverified.Load(), Refused: t.refused.Load(),
		Limited: in.limited.Load(), Pings: in.pings.Load(), Fetched: in.fetched.Load(), Unchanged: in.unchanged.Load(), Unfetched: in.unfetched.Load(),
		Ended: t.ended.Load(), Expired: t.expired.Load(), Denied: t.denied.Load(),
		Latency: t.latency.read(),
	}
	for i := range h.registry.shards {
		h.mu.Lock() // in steps: other goroutines wait for it
		s.Topics, s.Subscriptions = len(h.registry.topics), h.registry.count
		for _, sub := range h.registry.shards[i] {
			s.count(sub)
		}
		h.mu.Unlock()
	}
	s.Requests = h.intents.count()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, topic := range h.registry.topics {
		if topic.url == changesTopic { // internal: between hubs
			s.Topics--
			continue
		}
		s.Kept += topic.bytes
	}
	return s
}

// count returns how many requests wait to be verified.
func (v *intents) count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.asks)
}

// count counts a subscription.
func (s *Stats) count(sub *subscription) {
	switch sub.stage {
	case idle, gone:
		s.Idle++
	case queued:
		s.Queued++
	case sending:
		s.Sending++
	case waiting:
		s.Waiting++
	}
	if lag := sub.lag(); lag > 0 {
		s.Behind++
		s.LagMax = max(s.LagMax, lag)
	}
}

// lag returns how many messages the subscriber lacks. Deleted messages do not
// count: they are no longer available.
func (s *subscription) lag() int64 {
	return max(0, s.log.last-max(s.Progress.Cursor, s.log.first-1))
}
