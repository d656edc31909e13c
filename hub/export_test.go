package hub

import (
	"context"
	"time"
)

// SubscribeVerified makes a subscription as if its request had come in, and had
// been verified at that moment.
func (h *Hub) SubscribeVerified(ctx context.Context, topic, callback, secret string, lease time.Duration, sent time.Time) (Key, error) {
	key := KeyOf(topic, callback)
	return key, h.subscribe(ctx, Request{
		Key: key, Mode: "subscribe", Topic: topic, Callback: callback, Secret: h.seal(key, []byte(secret)), Lease: lease, At: h.now(),
	}, sent)
}

// Accept appends a message.
func (h *Hub) Accept(ctx context.Context, m Message) (int64, error) { return h.append(ctx, m) }

// End, Remove and Replay do what the API and requests do.
func (h *Hub) End(ctx context.Context, key Key) error { return h.end(ctx, key) }

// Removed ends a subscription for a reason.
func (h *Hub) Removed(ctx context.Context, key Key, reason string) error {
	return h.remove(ctx, key, reason)
}

// Replayed sets a subscription back.
func (h *Hub) Replayed(ctx context.Context, key Key, from int64) (int64, error) {
	return h.replay(ctx, key, from)
}

// Row returns a subscription as the hub has it.
func (h *Hub) Row(key Key) (Subscription, bool) { return h.subscription(key) }

// Log returns a topic as the hub has it.
func (h *Hub) Log(topic string) (Topic, bool) { return h.topic(topic) }

// RetryAfter is the parser of that header field.
var RetryAfter = retryAfter

// ClaimFor sets for how long a hub claims shards.
func (h *Hub) ClaimFor(d time.Duration) { h.sharing.ttl = d }

// Shards returns how many shards are the hub's.
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

// Lanes bounds how many deliveries are under way on the fast lane and on the
// slow one. It is called before Run.
func (h *Hub) Lanes(quick, slowly int) {
	h.scheduler.lanes[fast].limit, h.scheduler.lanes[slow].limit = quick, slowly
}

// ClientOf is clientOf.
var ClientOf = clientOf
