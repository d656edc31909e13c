package hub

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"lockstep/hub/hubstore"
	"lockstep/websub"
)

// A TopicStatus describes a topic.
type TopicStatus struct {
	URL           string `json:"url"`
	First         int64  `json:"first"` // number of the oldest stored message; last + 1 if none is stored
	Last          int64  `json:"last"`  // number of the newest message ever; 0: there was none
	Bytes         int64  `json:"bytes"` // of the stored messages
	Subscriptions int    `json:"subscriptions"`
	Behind        int    `json:"behind"`  // subscriptions that lack messages
	LagMax        int64  `json:"lag_max"` // the most messages one of them lacks

	// Only for topics published by pings:
	Fetched       time.Time `json:"fetched,omitzero"`         // the last successful fetch
	FetchError    string    `json:"fetch_error,omitempty"`    // of the last attempt, if it failed
	FetchAttempts int       `json:"fetch_attempts,omitempty"` // failed attempts
	NextFetch     time.Time `json:"next_fetch,omitzero"`      // zero with an error: given up until the next ping
}

// A SubscriptionStatus describes a subscription. It shows only the scheme and
// host of the callback: the full address would allow its reader to forge
// deliveries (WS-SEC-07).
type SubscriptionStatus struct {
	Key          hubstore.Key `json:"key"`
	Topic        string       `json:"topic"`
	Callback     string       `json:"callback"` // scheme and host
	State        string       `json:"state"`    // "idle", "queued", "sending", "waiting"
	Signed       bool         `json:"signed"`
	Created      time.Time    `json:"created"`
	Expires      time.Time    `json:"expires"`                     // of the lease
	Cursor       int64        `json:"cursor"`                      // number of the last message that was delivered or given up
	Lag          int64        `json:"lag"`                         // messages it lacks
	Oldest       time.Time    `json:"oldest_undelivered,omitzero"` // when the first of them was accepted
	Attempts     int          `json:"attempts"`                    // failed attempts to deliver it
	Next         time.Time    `json:"next_try,omitzero"`
	FailingSince time.Time    `json:"failing_since,omitzero"`
	LastError    string       `json:"last_error,omitempty"`
	LastTaken    time.Time    `json:"last_taken,omitzero"` // when a message was last delivered
	Taken        int64        `json:"taken"`
	GivenUp      int64        `json:"given_up"`
}

// A MessageStatus describes a stored message.
type MessageStatus struct {
	Seq         int64     `json:"seq"`
	ID          string    `json:"id"` // as in deliveries
	At          time.Time `json:"at"` // when it was accepted
	ContentType string    `json:"content_type,omitempty"`
	Bytes       int       `json:"bytes"`
	Whole       bool      `json:"whole"` // a newer message of its kind supersedes it
}

// A selection restricts a list of subscriptions.
type selection struct {
	topic  string // "": any
	behind bool   // only those that lack messages, or fail
}

func (c selection) has(s *subscription) bool {
	return (c.topic == "" || s.log.url == websub.Canonical(c.topic)) && (!c.behind || s.lag() > 0 || s.Progress.Attempts > 0)
}

// topicsAfter returns the status of at most limit topics whose URL is above
// after, in order; if there are more, it also returns the last URL it examined.
func (h *Hub) topicsAfter(after string, limit int) (all []TopicStatus, next string) {
	urls := h.topicURLs(after)
	slices.Sort(urls)
	if len(urls) > limit {
		next = urls[limit-1]
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, u := range urls[:min(limit, len(urls))] {
		t := h.registry.topics[u]
		if t == nil {
			continue // removed meanwhile: no subscription needs it
		}
		s := TopicStatus{URL: t.url, First: t.first, Last: t.last, Bytes: t.bytes, Subscriptions: len(t.subs)}
		f := stateOf(t.state)
		s.Fetched, s.FetchError, s.FetchAttempts, s.NextFetch = f.Fetched, f.Error, f.Attempts, f.Next
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
func (h *Hub) topicURLs(after string) (urls []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for u := range h.registry.topics {
		if u > after && u != changesTopic {
			urls = append(urls, u)
		}
	}
	return urls
}

// subscriptionsAfter returns the status of at most limit selected subscriptions
// whose Key is above after, in order, and reports whether there are more.
func (h *Hub) subscriptionsAfter(ctx context.Context, c selection, after hubstore.Key, limit int) (all []SubscriptionStatus, more bool) {
	for shard := after.Shard(); shard < hubstore.Shards && len(all) <= limit; shard++ {
		h.mu.Lock()
		part := h.registry.part(shard, c, after)
		for _, s := range part[:min(len(part), limit+1-len(all))] {
			all = append(all, s.status())
		}
		h.mu.Unlock()
	}
	more = len(all) > limit
	all = all[:min(limit, len(all))]
	h.date(ctx, all)
	return all, more
}

// part returns the selected subscriptions of a shard with a Key above after, in
// order.
func (r *registry) part(shard int, c selection, after hubstore.Key) []*subscription {
	var part []*subscription
	for key, s := range r.shards[shard] {
		if key > after && c.has(s) {
			part = append(part, s)
		}
	}
	slices.SortFunc(part, func(a, b *subscription) int { return strings.Compare(string(a.Key), string(b.Key)) })
	return part
}

// worst returns the status of the selected subscriptions that lack the most
// messages, at most limit.
func (h *Hub) worst(ctx context.Context, limit int) []SubscriptionStatus {
	var all []SubscriptionStatus
	for shard := range hubstore.Shards {
		h.mu.Lock()
		for _, s := range h.registry.part(shard, selection{behind: true}, "") {
			all = append(all, s.status())
		}
		h.mu.Unlock()
		if len(all) > 4*limit {
			all = worstOf(all, limit)
		}
	}
	all = worstOf(all, limit)
	h.date(ctx, all)
	return all
}

func worstOf(all []SubscriptionStatus, limit int) []SubscriptionStatus {
	slices.SortFunc(all, func(a, b SubscriptionStatus) int {
		if a.Lag != b.Lag {
			return int(b.Lag - a.Lag)
		}
		return strings.Compare(string(a.Key), string(b.Key))
	})
	return all[:min(limit, len(all))]
}

// status returns the status of s.
func (s *subscription) status() SubscriptionStatus {
	p := &s.Progress
	return SubscriptionStatus{
		Key: s.Key, Topic: s.Topic, Callback: origin(s.Callback), State: s.stage.String(), Signed: len(s.Secret) > 0,
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

// origin returns scheme and host of a callback.
func origin(callback string) string {
	u, err := url.Parse(callback)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// hide removes a callback from the text of an error.
func hide(text, callback string) string {
	return strings.ReplaceAll(text, callback, origin(callback))
}

// date determines when the first message that each subscription lacks was
// accepted.
func (h *Hub) date(ctx context.Context, all []SubscriptionStatus) {
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
			for m, err := range h.store.Log(ctx, p.topic, p.after) {
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

// messagesAfter describes at most limit stored messages of a topic, numbered
// above after.
func (h *Hub) messagesAfter(ctx context.Context, topic string, after int64, limit int) ([]MessageStatus, error) {
	all := []MessageStatus{}
	for m, err := range h.store.Log(ctx, websub.Canonical(topic), after) {
		if err != nil {
			return nil, err
		}
		all = append(all, MessageStatus{Seq: m.Seq, ID: m.ID, At: m.At, ContentType: m.ContentType, Bytes: len(m.Body), Whole: m.Whole})
		if len(all) == limit {
			break
		}
	}
	return all, nil
}
