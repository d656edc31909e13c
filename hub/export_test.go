package hub

import (
	"context"
	"time"

	"lockstep/hub/hubstore"
	"lockstep/internal/ratelimit"
)

// SubscribeVerified creates a subscription as if its request had just been
// accepted and verified.
func (h *Hub) SubscribeVerified(ctx context.Context, topic, callback, secret string, lease time.Duration, sent time.Time) (hubstore.Key, error) {
	key := hubstore.KeyOf(topic, callback)
	return key, h.engine.Members.Subscribe(ctx, hubstore.Request{
		Key: key, Mode: "subscribe", Topic: topic, Callback: callback, Secret: h.seal.Seal(key, []byte(secret)), Lease: lease, At: h.opts.Clock(),
	}, sent, -1, true, func(join func()) { join() })
}

// Accept appends a message.
func (h *Hub) Accept(ctx context.Context, m hubstore.Message) (int64, error) {
	return h.engine.Topics.Append(ctx, m)
}

// End, Remove and Replay do what the API and requests do.
func (h *Hub) End(ctx context.Context, key hubstore.Key) error {
	return h.engine.Members.End(ctx, hubstore.Request{Key: key}, false)
}

// Removed ends a subscription for a reason.
func (h *Hub) Removed(ctx context.Context, key hubstore.Key, reason string) error {
	return h.status.Control.Remove(ctx, key, reason)
}

// Replayed sets a subscription back.
func (h *Hub) Replayed(ctx context.Context, key hubstore.Key, from int64) (int64, error) {
	return h.engine.Members.Replay(ctx, key, from)
}

// Row returns a subscription as the hub has it in memory.
func (h *Hub) Row(key hubstore.Key) (hubstore.Subscription, bool) {
	return h.engine.Members.Subscription(key)
}

// Log returns a topic as the hub has it in memory.
func (h *Hub) Log(topic string) (hubstore.Topic, bool) { return h.engine.Topics.Topic(topic) }

// ClaimFor sets for how long a hub claims shards.
func (h *Hub) ClaimFor(d time.Duration) { h.engine.Sharing.ClaimFor(d) }

// Shards returns how many shards the hub owns.
func (h *Hub) Shards() int { return h.engine.Sharing.Owned() }

// Lanes sets how many deliveries may be under way on the fast and the slow
// lane. Call it before Run.
func (h *Hub) Lanes(quick, slowly int) { h.engine.Lanes(quick, slowly) }

// VerifyWaits sets the waits before a callback is asked again. Call it before
// Run.
func (h *Hub) VerifyWaits(d ...time.Duration) { h.verifier.Waits(d...) }

// Fetches returns how many fetches of topics found a change, found none, or
// failed.
func (h *Hub) Fetches() (fetched, unchanged, unfetched int64) {
	s := h.Stats()
	return s.Fetched, s.Unchanged, s.Unfetched
}

// Pending returns how many requests wait, and at how many hosts.
func (h *Hub) Pending() (requests, hosts int) { return h.verifier.Pending() }

// Pinged returns how many topics have a pending or running fetch.
func (h *Hub) Pinged() int { return h.fetcher.Pending() }

// AskRate sets how often one client may subscribe.
func (h *Hub) AskRate(burst, per float64) {
	h.endpoint.AskRate(ratelimit.Rate{Burst: burst, Per: per})
}
