package hub

import (
	"net/url"

	"lockstep/websub"
)

// topic returns what the hub knows of a topic, whatever the spelling of its
// URL; false if nothing.
func (h *Hub) topic(uri string) (Topic, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.registry.topics[websub.Canonical(uri)]
	if t == nil {
		return Topic{}, false
	}
	return t.export(), true
}

func (t *topic) export() Topic {
	return Topic{URL: t.url, First: t.first, Last: t.last, Bytes: t.bytes, State: t.state}
}

// subscriptions returns the subscriptions of a topic with how far they have
// come, in no order; with several hubs, those that are this one's.
func (h *Hub) subscriptions(uri string) []Subscription {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.registry.topics[websub.Canonical(uri)]
	if t == nil {
		return nil
	}
	all := make([]Subscription, 0, len(t.subs))
	for _, s := range t.subs {
		all = append(all, s.Subscription)
	}
	return all
}

// subscription returns one; false if there is no such.
func (h *Hub) subscription(key Key) (Subscription, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.registry.find(key)
	if s == nil {
		return Subscription{}, false
	}
	return s.Subscription, true
}

// Subscriptions returns how many subscriptions there are; with several hubs,
// those that are this one's.
func (h *Hub) Subscriptions() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.registry.count
}

// count returns how many subscriptions there are, in all and with callbacks at
// the host of callback, whatever the port: those that are this hub's.
func (h *Hub) count(callback *url.URL) (all, atHost int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.registry.count, h.registry.names[bareHost(callback)]
}
