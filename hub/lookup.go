package hub

import (
	"net/url"

	"lockstep/hub/hubstore"
	"lockstep/hub/internal/address"
	"lockstep/websub"
)

// topic returns the state of a topic, whatever the spelling of its URL; false
// if the hub does not know it.
func (h *Hub) topic(uri string) (hubstore.Topic, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.registry.topics[websub.Canonical(uri)]
	if t == nil {
		return hubstore.Topic{}, false
	}
	return t.export(), true
}

func (t *topic) export() hubstore.Topic {
	return hubstore.Topic{URL: t.url, First: t.first, Last: t.last, Bytes: t.bytes, State: t.state}
}

// subscriptions returns the subscriptions of a topic with their progress, in no
// order. With several hubs, it returns those of this one.
func (h *Hub) subscriptions(uri string) []hubstore.Subscription {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.registry.topics[websub.Canonical(uri)]
	if t == nil {
		return nil
	}
	all := make([]hubstore.Subscription, 0, len(t.subs))
	for _, s := range t.subs {
		all = append(all, s.Subscription)
	}
	return all
}

// subscription returns a subscription; false if it does not exist.
func (h *Hub) subscription(key hubstore.Key) (hubstore.Subscription, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.registry.find(key)
	if s == nil {
		return hubstore.Subscription{}, false
	}
	return s.Subscription, true
}

// Subscriptions returns the number of subscriptions. With several hubs, it
// counts those of this one.
func (h *Hub) Subscriptions() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.registry.count
}

// count returns the number of this hub's subscriptions, in all and with
// callbacks at the host of callback, whatever the port.
func (h *Hub) count(callback *url.URL) (all, atHost int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.registry.count, h.registry.names[address.Host(callback)]
}
