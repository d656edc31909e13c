package delivery

import (
	"context"
	"net/url"
	"time"

	"lockstep/hub/hubstore"
	"lockstep/hub/internal/refusal"
	"lockstep/websub"
)

// Members creates, renews, ends and replays subscriptions.
type Members struct {
	registry  *registry
	saver     *saver
	progress  *progressSaver
	outcomes  *outcomes
	scheduler *scheduler
	deliverer *deliverer
	alarms    *alarmClock
	loader    *loader
	sharing   *Sharing
	now       func() time.Time
}

// Subscribe turns a verified request into a subscription, or renews the existing
// one, which then continues at its position with the new terms (WS-L-04). The
// lease runs from sent, when the hub asked the subscriber (WS-L-02).
//
// A new subscription begins with the messages accepted from now on (WS-C-14) or,
// if since is not negative, with those after message number since, which was the
// newest when the verification began: later ones may have been published because
// the subscriber answered. The request is then complete, unless settle is false
// because a newer one has replaced it. The registry adds the subscription when
// within calls join.
//
// When Subscribe returns nil all that is durable. It returns [refusal.ErrNotReady] if the
// shard of the request now belongs to another hub, which verifies the request
// again.
func (x *Members) Subscribe(ctx context.Context, r hubstore.Request, sent time.Time, since int64, settle bool, within func(join func())) error {
	if err := x.sharing.news(ctx); err != nil {
		return err
	}
	b, err := x.begin(r, sent, since, settle)
	if err != nil {
		return err
	}
	if err := b.saving.wait(ctx); err != nil {
		x.revoke(b)
		return err
	}
	owned := false
	within(func() {
		x.registry.mu.Lock()
		defer x.registry.mu.Unlock()
		owned = x.sharing.has(r.Key)
		if owned && (b.renewed == nil || !b.renewed.ended) {
			x.loader.join(b.row)
		}
	})
	if !owned { // the new owner may have read the row, or not
		return x.sharing.notify(ctx, r.Key)
	}
	return nil
}

// A beginning is a subscription that is being saved.
type beginning struct {
	row     hubstore.Subscription
	saving  *saving
	renewed *subscription // nil: none
	expires time.Time     // of renewed, before
}

// begin enters the row of a new subscription to be saved. One that is renewed does not expire meanwhile.
func (x *Members) begin(r hubstore.Request, sent time.Time, since int64, settle bool) (*beginning, error) {
	x.registry.mu.Lock()
	defer x.registry.mu.Unlock()
	if !x.registry.open || !x.sharing.has(r.Key) {
		return nil, refusal.ErrNotReady
	}
	now := x.now()
	row := hubstore.Subscription{
		Key: r.Key, Topic: r.Topic, Callback: r.Callback, Secret: r.Secret,
		Created: now, Expires: sent.Add(r.Lease),
	}
	s := x.registry.find(r.Key)
	if s != nil && !now.Before(s.Expires) {
		x.outcomes.expire(s)
		s = nil
	}
	if s != nil {
		row.Created, row.Progress = s.Created, s.Progress
	} else {
		if t := x.registry.topics[websub.Canonical(r.Topic)]; t != nil {
			row.Progress.Cursor = t.last
		}
		if since >= 0 {
			row.Progress.Cursor = min(since, row.Progress.Cursor)
		}
	}
	x.progress.keep(r.Key)
	saving := x.saver.enter(hubstore.Changes{Put: []hubstore.Subscription{row}, Settle: settled(r, settle)})
	if saving == nil {
		return nil, refusal.ErrNotReady
	}
	b := &beginning{row: row, saving: saving, renewed: s}
	if s != nil {
		b.expires = s.Expires
		s.Expires = row.Expires
		x.loader.watch(s)
	}
	return b, nil
}

// revoke gives a subscription that could not be renewed its former lease.
func (x *Members) revoke(b *beginning) {
	x.registry.mu.Lock()
	defer x.registry.mu.Unlock()
	if b.renewed != nil && b.renewed.stage != gone {
		b.renewed.Expires = b.expires
		x.loader.watch(b.renewed)
	}
}

func settled(r hubstore.Request, settle bool) []hubstore.Request {
	if !settle {
		return nil
	}
	return []hubstore.Request{r}
}

// End ends the subscription with the Key of r, if it exists: nothing more is
// delivered to it. The request r is complete then if settle is true. When End
// returns nil that is durable.
func (x *Members) End(ctx context.Context, r hubstore.Request, settle bool) error {
	key := r.Key
	x.registry.mu.Lock()
	owned := x.sharing.has(key)
	s := x.registry.find(key)
	if s != nil {
		x.registry.drop(s)
		s.ended = true
	}
	saving := x.saver.enter(hubstore.Changes{Remove: []hubstore.Removal{{Key: key}}, Settle: settled(r, settle)})
	x.registry.mu.Unlock()
	err := saving.wait(ctx)
	if err == nil && owned {
		return x.sharing.notifyOwner(ctx, key)
	}
	if err == nil { // the owner may have read the row before, also if that is this hub by now
		return x.sharing.notify(ctx, key)
	}
	x.registry.mu.Lock()
	defer x.registry.mu.Unlock()
	if s != nil && x.registry.find(key) == nil && x.sharing.has(key) { // its row has to be deleted in any case
		x.progress.remove(s)
	}
	return err
}

// Subscription returns a subscription; false if it does not exist.
func (x *Members) Subscription(key hubstore.Key) (hubstore.Subscription, bool) {
	return x.registry.subscription(key)
}

// Has reports whether a subscription exists.
func (x *Members) Has(key hubstore.Key) bool {
	_, ok := x.registry.subscription(key)
	return ok
}

// Keys returns the subscriptions of a topic, in no order. With several hubs, it
// returns those of this one.
func (x *Members) Keys(topic string) []hubstore.Key { return x.registry.keys(topic) }

// Count returns the number of subscriptions. With several hubs, it counts those
// of this one.
func (x *Members) Count() int { return x.registry.size() }

// Counts returns the number of this hub's subscriptions, in all and with
// callbacks at the host of callback, whatever the port.
func (x *Members) Counts(callback *url.URL) (all, atHost int) { return x.registry.counts(callback) }

// Replay makes a subscription receive the stored messages from the number from
// on, again if necessary, and returns the number it begins with.
func (x *Members) Replay(ctx context.Context, key hubstore.Key, from int64) (int64, error) {
	x.registry.mu.Lock()
	s := x.registry.find(key)
	if s == nil {
		x.registry.mu.Unlock()
		return 0, refusal.ErrNoSubscription
	}
	from = min(max(from, s.log.first), s.log.last+1)
	p := &s.Progress
	p.Cursor, p.Attempts, p.Next, p.Failing, p.LastError = from-1, 0, time.Time{}, time.Time{}, ""
	s.saved, s.moved = min(s.saved, p.Cursor), true
	saving := x.saver.enter(hubstore.Changes{Progress: map[hubstore.Key]hubstore.Progress{key: *p}})
	if s.stage == idle || s.stage == waiting {
		s.log.unlist(s)
		x.alarms.ring(&s.alarm, s.Expires)
		x.scheduler.resume(s)
		x.deliverer.spawn()
	}
	x.registry.mu.Unlock()
	return from, saving.wait(ctx)
}
