package delivery

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"lockstep/hub/hubstore"
	"lockstep/hub/internal/refusal"
	"lockstep/hub/internal/tally"
	"lockstep/hub/status"
	"lockstep/websub"
)

// A View shows the state of the delivery to operators.
type View struct {
	registry *registry
	store    hubstore.Store
	sharing  *Sharing
	tally    *tally.Tally
	describe func(t *status.Topic, state []byte) // adds what further state says of a topic
	pending  func() int                          // requests that wait to be verified
}

// Stats returns the state of the hub. It visits every subscription: 100,000
// take some milliseconds.
func (v *View) Stats() status.Stats {
	s := v.tally.Stats()
	for i := range v.registry.shards {
		v.registry.mu.Lock() // in steps: other goroutines wait for it
		s.Topics, s.Subscriptions = len(v.registry.topics), v.registry.count
		for _, sub := range v.registry.shards[i] {
			countSubscription(&s, sub)
		}
		v.registry.mu.Unlock()
	}
	s.Requests = v.pending()
	v.registry.mu.Lock()
	defer v.registry.mu.Unlock()
	for _, topic := range v.registry.topics {
		if topic.url == changesTopic { // internal: between hubs
			s.Topics--
			continue
		}
		s.Kept += topic.bytes
	}
	return s
}

// countSubscription counts a subscription.
func countSubscription(s *status.Stats, sub *subscription) {
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

// selected reports whether s is one of c.
func selected(c status.Selection, s *subscription) bool {
	return (c.Topic == "" || s.log.url == websub.Canonical(c.Topic)) && (!c.Behind || s.lag() > 0 || s.Progress.Attempts > 0)
}

// Topics returns the status of at most limit topics whose URL is above
// after, in order; if there are more, it also returns the last URL it examined.
func (v *View) Topics(after string, limit int) (all []status.Topic, next string) {
	urls := v.topicURLs(after)
	slices.Sort(urls)
	if len(urls) > limit {
		next = urls[limit-1]
	}
	v.registry.mu.Lock()
	defer v.registry.mu.Unlock()
	for _, u := range urls[:min(limit, len(urls))] {
		t := v.registry.topics[u]
		if t == nil {
			continue // removed meanwhile: no subscription needs it
		}
		s := status.Topic{URL: t.url, First: t.first, Last: t.last, Bytes: t.bytes, Subscriptions: len(t.subs)}
		v.describe(&s, t.state)
		for _, sub := range t.subs {
			if lag := sub.lag(); lag > 0 {
				s.Behind++
				s.LagMax = max(s.LagMax, lag)
			}
		}
		all = append(all, s)
	}
	return all, next
}

// topicURLs returns the topics above after, in no order.
func (v *View) topicURLs(after string) (urls []string) {
	v.registry.mu.Lock()
	defer v.registry.mu.Unlock()
	for u := range v.registry.topics {
		if u > after && u != changesTopic {
			urls = append(urls, u)
		}
	}
	return urls
}

// Subscriptions returns the status of at most limit selected subscriptions
// whose Key is above after, in order, and reports whether there are more.
func (v *View) Subscriptions(ctx context.Context, c status.Selection, after hubstore.Key, limit int) (all []status.Subscription, more bool) {
	for shard := after.Shard(); shard < hubstore.Shards && len(all) <= limit; shard++ {
		v.registry.mu.Lock()
		part := v.registry.part(shard, c, after)
		for _, s := range part[:min(len(part), limit+1-len(all))] {
			all = append(all, s.status())
		}
		v.registry.mu.Unlock()
	}
	more = len(all) > limit
	all = all[:min(limit, len(all))]
	v.date(ctx, all)
	return all, more
}

// part returns the selected subscriptions of a shard with a Key above after, in
// order.
func (r *registry) part(shard int, c status.Selection, after hubstore.Key) []*subscription {
	var part []*subscription
	for key, s := range r.shards[shard] {
		if key > after && selected(c, s) {
			part = append(part, s)
		}
	}
	slices.SortFunc(part, func(a, b *subscription) int { return strings.Compare(string(a.Key), string(b.Key)) })
	return part
}

// Worst returns the status of the selected subscriptions that lack the most
// messages, at most limit.
func (v *View) Worst(ctx context.Context, limit int) []status.Subscription {
	all, _ := v.First(ctx, status.Selection{Behind: true}, func(a, b *status.Subscription) int { return cmp.Compare(b.Lag, a.Lag) }, limit)
	return all
}

// First returns the status of the selected subscriptions that come first in an order, at
// most limit, and how many are selected. Those that are equal are in the order of their
// keys. It visits every subscription, and holds a few times limit in memory.
func (v *View) First(ctx context.Context, c status.Selection, order func(a, b *status.Subscription) int, limit int) (all []status.Subscription, selected int) {
	for shard := range hubstore.Shards {
		v.registry.mu.Lock()
		part := v.registry.part(shard, c, "")
		for _, s := range part {
			all = append(all, s.status())
		}
		v.registry.mu.Unlock()
		selected += len(part)
		if len(all) > 4*limit {
			all = firstOf(all, order, limit)
		}
	}
	all = firstOf(all, order, limit)
	v.date(ctx, all)
	return all, selected
}

func firstOf(all []status.Subscription, order func(a, b *status.Subscription) int, limit int) []status.Subscription {
	slices.SortFunc(all, func(a, b status.Subscription) int {
		return cmp.Or(order(&a, &b), strings.Compare(string(a.Key), string(b.Key)))
	})
	return all[:min(limit, len(all))]
}

// status returns the status of s.
func (s *subscription) status() status.Subscription {
	p := &s.Progress
	return status.Subscription{
		Key: s.Key, Topic: s.Topic, Callback: status.Origin(s.Callback), State: s.stage.String(), Signed: len(s.Secret) > 0,
		Created: s.Created, Expires: s.Expires, Cursor: p.Cursor, Lag: s.lag(), Attempts: p.Attempts, Next: p.Next.Truncate(time.Microsecond),
		FailingSince: p.Failing, LastError: hide(p.LastError, s.Callback), LastTaken: p.LastTaken, Taken: p.Taken, GivenUp: p.GivenUp,
	}
}

// String returns the name of the stage for people.
func (s stage) String() string {
	switch s {
	case queued:
		return "queued"
	case sending:
		return "sending"
	case waiting:
		return "waiting"
	}
	return "idle"
}

// hide removes a callback from the text of an error.
func hide(text, callback string) string {
	return strings.ReplaceAll(text, callback, status.Origin(callback))
}

// Subscription returns the status of a subscription.
func (v *View) Subscription(ctx context.Context, key hubstore.Key) (status.Subscription, error) {
	if !v.sharing.Owns(key) {
		return status.Subscription{}, refusal.ErrElsewhere
	}
	v.registry.mu.Lock()
	s := v.registry.find(key)
	if s == nil {
		v.registry.mu.Unlock()
		return status.Subscription{}, refusal.ErrNoSubscription
	}
	all := []status.Subscription{s.status()}
	v.registry.mu.Unlock()
	v.date(ctx, all)
	return all[0], nil
}

// date determines when the first message that each subscription lacks was
// accepted.
func (v *View) date(ctx context.Context, all []status.Subscription) {
	type place struct {
		topic string
		after int64
	}
	known := map[place]time.Time{} // many subscriptions are at the same position
	for i := range all {
		if all[i].Lag == 0 {
			continue
		}
		p := place{websub.Canonical(all[i].Topic), all[i].Cursor}
		at, ok := known[p]
		if !ok {
			for m, err := range v.store.Log(ctx, p.topic, p.after) {
				if err == nil { // otherwise it is unknown
					at = m.At
				}
				break
			}
			known[p] = at
		}
		all[i].Oldest = at
	}
}

// Messages describes at most limit stored messages of a topic, numbered above
// after. known is false if there is no such topic.
func (v *View) Messages(ctx context.Context, topic string, after int64, limit int) (all []status.Message, known bool, err error) {
	if _, known := v.registry.state(topic); !known {
		return nil, false, nil
	}
	for m, err := range v.store.Log(ctx, websub.Canonical(topic), after) {
		if err != nil {
			return nil, true, err
		}
		all = append(all, status.Message{Seq: m.Seq, ID: m.ID, At: m.At, ContentType: m.ContentType, Bytes: len(m.Body), Whole: m.Whole})
		if len(all) == limit {
			break
		}
	}
	return all, true, nil
}
