package hub

import (
	"context"
	"time"

	"lockstep/hub/hubstore"
)

// SubscribeVerified creates a subscription as if its request had just been
// accepted and verified.
func (h *Hub) SubscribeVerified(ctx context.Context, topic, callback, secret string, lease time.Duration, sent time.Time) (hubstore.Key, error) {
	key := hubstore.KeyOf(topic, callback)
	return key, h.subscribe(ctx, hubstore.Request{
		Key: key, Mode: "subscribe", Topic: topic, Callback: callback, Secret: h.seal(key, []byte(secret)), Lease: lease, At: h.now(),
	}, sent)
}

// Accept appends a message.
func (h *Hub) Accept(ctx context.Context, m hubstore.Message) (int64, error) { return h.append(ctx, m) }

// End, Remove and Replay do what the API and requests do.
func (h *Hub) End(ctx context.Context, key hubstore.Key) error { return h.end(ctx, key) }

// Removed ends a subscription for a reason.
func (h *Hub) Removed(ctx context.Context, key hubstore.Key, reason string) error {
	return h.remove(ctx, key, reason)
}

// Replayed sets a subscription back.
func (h *Hub) Replayed(ctx context.Context, key hubstore.Key, from int64) (int64, error) {
	return h.replay(ctx, key, from)
}

// Row returns a subscription as the hub has it in memory.
func (h *Hub) Row(key hubstore.Key) (hubstore.Subscription, bool) { return h.subscription(key) }

// Log returns a topic as the hub has it in memory.
func (h *Hub) Log(topic string) (hubstore.Topic, bool) { return h.topic(topic) }

// RetryAfter parses that header field.
var RetryAfter = retryAfter

// ClaimFor sets for how long a hub claims shards.
func (h *Hub) ClaimFor(d time.Duration) { h.sharing.ttl = d }

// Shards returns how many shards the hub owns.
func (h *Hub) Shards() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, own := range h.sharing.own {
		if own {
			n++
		}
	}
	return n
}

// Lanes sets how many deliveries may be under way on the fast and the slow
// lane. Call it before Run.
func (h *Hub) Lanes(quick, slowly int) {
	h.scheduler.lanes[fast].limit, h.scheduler.lanes[slow].limit = quick, slowly
}
