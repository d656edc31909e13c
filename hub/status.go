package hub

// Stats tell what a hub has done since it was started, and how things stand.
// With several hubs on one Store they are those of this one.
type Stats struct {
	Topics        int
	Subscriptions int
	Idle          int // subscriptions that have everything
	Queued        int // that wait for their turn
	Sending       int // to which a delivery is under way
	Waiting       int // that wait until it is tried again, after failures
	Behind        int // that lack messages, for whatever reason
	Requests      int // that were accepted and wait to be verified

	LagMax int64 // the most messages that one subscription lacks

	Accepted, AcceptedBytes   int64 // messages, and their bodies
	Delivered, DeliveredBytes int64 // each to one subscriber
	Failed                    int64 // attempts in vain
	GivenUp                   int64 // messages that a subscriber did not get in time
	Verified, Unverified      int64 // requests that subscribers said they meant, and others
	Refused                   int64 // requests answered with 4xx or 5xx
	Ended, Expired, Denied    int64 // subscriptions: by the endpoint, by time, by us

	Latency Histogram // of deliveries that were taken
}

// Stats returns how things stand. It looks at every subscription there is:
// 100,000 take some milliseconds.
func (h *Hub) Stats() Stats {
	t := &h.tally
	s := Stats{
		Accepted: t.accepted.Load(), AcceptedBytes: t.acceptedBytes.Load(),
		Delivered: t.delivered.Load(), DeliveredBytes: t.deliveredBytes.Load(),
		Failed: t.failed.Load(), GivenUp: t.givenUp.Load(),
		Verified: t.verified.Load(), Unverified: t.unverified.Load(), Refused: t.refused.Load(),
		Ended: t.ended.Load(), Expired: t.expired.Load(), Denied: t.denied.Load(),
		Latency: t.latency.read(),
	}
	for i := range h.registry.shards {
		h.mu.Lock() // by turns: others wait for it
		s.Topics, s.Subscriptions = len(h.registry.topics), h.registry.count
		for _, sub := range h.registry.shards[i] {
			s.count(sub)
		}
		h.mu.Unlock()
	}
	return s
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

// lag returns how many messages the subscriber lacks. Those that are forgotten
// nobody can get any more.
func (s *subscription) lag() int64 {
	return max(0, s.log.last-max(s.Progress.Cursor, s.log.first-1))
}
