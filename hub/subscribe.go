package hub

import (
	"context"
	"time"
)

// subscribe makes a request that was verified a subscription, or renews the one
// there is: then it goes on where it was, in its new terms (WS-L-04). A new one
// begins with what is accepted from now on (WS-C-14). The lease runs from sent,
// when the subscriber was asked (WS-L-02). The request is settled by it. When
// subscribe returns without an error all that is durable.
func (h *Hub) subscribe(ctx context.Context, r Request, sent time.Time) error {
	row, err := h.begin(r, sent)
	if err != nil {
		return err
	}
	if err := h.save(ctx, Changes{Put: []Subscription{row}, Settle: []Key{r.Key}}); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.join(row)
	return nil
}

// begin returns the row of a subscription that is to be.
func (h *Hub) begin(r Request, sent time.Time) (Subscription, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.running {
		return Subscription{}, ErrNotReady
	}
	row := Subscription{
		Key: r.Key, Topic: r.Topic, Callback: r.Callback, Secret: r.Secret,
		Created: h.now(), Expires: sent.Add(r.Lease),
	}
	if s := h.registry.find(r.Key); s != nil && h.now().Before(s.Expires) {
		row.Created, row.Progress = s.Created, s.Progress
	} else {
		row.Progress.Cursor = h.registry.topic(r.Topic).last
	}
	return row, nil
}

// end ends a subscription, if there is such: nothing more is delivered to it. It
// is durable when end returns without an error.
func (h *Hub) end(ctx context.Context, key Key) error {
	h.mu.Lock()
	if s := h.registry.find(key); s != nil {
		h.registry.drop(s)
	}
	h.mu.Unlock()
	return h.save(ctx, Changes{Remove: []Key{key}, Settle: []Key{key}})
}

// remove ends a subscription and lets the subscriber know (WS-V-02).
func (h *Hub) remove(ctx context.Context, key Key, reason string) error {
	s, ok := h.subscription(key)
	if !ok {
		return ErrNoSubscription
	}
	if err := h.end(ctx, key); err != nil {
		return err
	}
	if h.verifier != nil {
		h.verifier.deny(s, reason)
	}
	return nil
}
