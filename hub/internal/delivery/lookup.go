package delivery

import (
	"maps"
	"net/url"
	"slices"

	"lockstep/hub/hubstore"
	"lockstep/hub/internal/address"
	"lockstep/websub"
)

// state returns the state of a topic, whatever the spelling of its URL; false
// if the hub does not know it.
func (r *registry) state(uri string) (hubstore.Topic, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.topics[websub.Canonical(uri)]
	if t == nil {
		return hubstore.Topic{}, false
	}
	return t.export(), true
}

func (t *topic) export() hubstore.Topic {
	return hubstore.Topic{URL: t.url, First: t.first, Last: t.last, Bytes: t.bytes, State: t.state}
}

// keys returns the subscriptions of a topic, in no order.
func (r *registry) keys(uri string) []hubstore.Key {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.topics[websub.Canonical(uri)]
	if t == nil {
		return nil
	}
	return slices.Collect(maps.Keys(t.subs))
}

// subscription returns a subscription; false if it does not exist.
func (r *registry) subscription(key hubstore.Key) (hubstore.Subscription, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.find(key)
	if s == nil {
		return hubstore.Subscription{}, false
	}
	return s.Subscription, true
}

// size returns the number of subscriptions.
func (r *registry) size() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}

// subscribed reports whether a topic has subscribers among the subscriptions of
// this hub.
func (r *registry) subscribed(topic string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.topics[websub.Canonical(topic)]
	return t != nil && len(t.subs) > 0
}

// counts returns the number of this hub's subscriptions, in all and with
// callbacks at the host of callback, whatever the port.
func (r *registry) counts(callback *url.URL) (all, atHost int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count, r.names[address.Host(callback)]
}
