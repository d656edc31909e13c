package hub

import (
	"context"
	"time"

	"lockstep/hub/hubstore"
	"lockstep/websub"
)

// subscribe turns a verified request into a subscription, or renews the existing
// one, which then continues at its position with the new terms (WS-L-04). A new
// subscription begins with the messages accepted from now on (WS-C-14). The
// lease runs from sent, when the hub asked the subscriber (WS-L-02). The request
// is then complete. When subscribe returns nil all that is durable. It returns
// [ErrNotReady] if the shard of the request now belongs to another hub, which
// verifies the request again.
func (h *Hub) subscribe(ctx context.Context, r hubstore.Request, sent time.Time) error {
	return h.subscribeSince(ctx, r, sent, -1, true, func(join func()) { join() })
}

// subscribeSince is subscribe for a request whose verification began when
// message number since was the newest, if that is not negative. A new
// subscription gets the messages accepted since then: they may have been
// published because the subscriber answered. If settle is false the request
// remains, because a newer one has replaced it. The registry adds the
// subscription when within calls join.
func (h *Hub) subscribeSince(ctx context.Context, r hubstore.Request, sent time.Time, since int64, settle bool, within func(join func())) error {
	if err := h.news(ctx); err != nil {
		return err
	}
	row, saving, err := h.begin(r, sent, since, settle)
	if err != nil {
		return err
	}
	if err := saving.wait(ctx); err != nil {
		return err
	}
	if !h.owns(r.Key) { // no longer: the new owner may have read the row, or not
		return h.notifyOwner(ctx, r.Key)
	}
	within(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.join(row)
	})
	return nil
}

// begin enters the row of a new subscription to be saved.
func (h *Hub) begin(r hubstore.Request, sent time.Time, since int64, settle bool) (hubstore.Subscription, *saving, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.running || h.sharer != nil && !h.sharing.own[r.Key.Shard()] {
		return hubstore.Subscription{}, nil, ErrNotReady
	}
	now := h.now()
	row := hubstore.Subscription{
		Key: r.Key, Topic: r.Topic, Callback: r.Callback, Secret: r.Secret,
		Created: now, Expires: sent.Add(r.Lease),
	}
	s := h.registry.find(r.Key)
	if s != nil && !now.Before(s.Expires) {
		h.expire(s)
		s = nil
	}
	if s != nil {
		row.Created, row.Progress = s.Created, s.Progress
	} else {
		if t := h.registry.topics[websub.Canonical(r.Topic)]; t != nil {
			row.Progress.Cursor = t.last
		}
		if since >= 0 {
			row.Progress.Cursor = min(since, row.Progress.Cursor)
		}
	}
	delete(h.removing, r.Key)
	saving := h.enter(hubstore.Changes{Put: []hubstore.Subscription{row}, Settle: settled(r.Key, settle)})
	if saving == nil {
		return hubstore.Subscription{}, nil, ErrNotReady
	}
	return row, saving, nil
}

func settled(key hubstore.Key, settle bool) []hubstore.Key {
	if !settle {
		return nil
	}
	return []hubstore.Key{key}
}

// join adds a saved subscription to the registry, or updates the one there. The
// caller holds h.mu.
func (h *Hub) join(row hubstore.Subscription) {
	s := h.registry.find(row.Key)
	if s == nil {
		h.start(h.registry.add(row, &h.scheduler.lanes))
		h.spawn()
		return
	}
	row.Progress = s.Progress // deliveries may have continued meanwhile
	s.set(row)
	at := s.Expires
	if s.stage == waiting && s.Progress.Next.Before(at) {
		at = s.Progress.Next
	}
	h.ring(&s.alarm, at)
}

// start starts a subscription that was just added to the registry.
func (h *Hub) start(s *subscription) {
	h.registry.alarms.set(&s.alarm, s.Expires)
	s.stage = idle // only until resume
	h.resume(s)
}

// end ends a subscription, if it exists: nothing more is delivered to it. A
// pending request for it is complete. When end returns nil that is durable.
func (h *Hub) end(ctx context.Context, key hubstore.Key) error { return h.endWith(ctx, key, true) }

// endWith is end, but keeps the request if settle is false: it is a newer one.
func (h *Hub) endWith(ctx context.Context, key hubstore.Key, settle bool) error {
	h.mu.Lock()
	if s := h.registry.find(key); s != nil {
		h.registry.drop(s)
	}
	saving := h.enter(hubstore.Changes{Remove: []hubstore.Key{key}, Settle: settled(key, settle)})
	h.mu.Unlock()
	err := saving.wait(ctx)
	if err == nil {
		return h.notifyOwner(ctx, key)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.registry.find(key) == nil { // the row has to be deleted in any case
		h.removing[key] = true
		wake(h.changed)
	}
	return err
}

// remove ends a subscription and notifies the subscriber (WS-V-02).
func (h *Hub) remove(ctx context.Context, key hubstore.Key, reason string) error {
	s, ok := h.subscription(key)
	if !ok {
		return ErrNoSubscription
	}
	if err := h.end(ctx, key); err != nil {
		return err
	}
	h.tally.deny()
	if h.verifier != nil {
		h.verifier.deny(s, reason)
	}
	return nil
}

// replay makes a subscription receive the stored messages from the number from
// on, again if necessary, and returns the number it begins with.
func (h *Hub) replay(ctx context.Context, key hubstore.Key, from int64) (int64, error) {
	h.mu.Lock()
	s := h.registry.find(key)
	if s == nil {
		h.mu.Unlock()
		return 0, ErrNoSubscription
	}
	from = min(max(from, s.log.first), s.log.last+1)
	p := &s.Progress
	p.Cursor, p.Attempts, p.Next, p.Failing, p.LastError = from-1, 0, time.Time{}, time.Time{}, ""
	s.saved, s.moved = min(s.saved, p.Cursor), true
	saving := h.enter(hubstore.Changes{Progress: map[hubstore.Key]hubstore.Progress{key: *p}})
	if s.stage == idle || s.stage == waiting {
		s.log.unlist(s)
		h.ring(&s.alarm, s.Expires)
		h.resume(s)
		h.spawn()
	}
	h.mu.Unlock()
	return from, saving.wait(ctx)
}
