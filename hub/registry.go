package hub

import (
	"net/url"
	"strings"
	"time"

	"lockstep/websub"
)

// A stage is what a subscription is doing.
type stage uint8

const (
	idle    stage = iota // has everything there is
	queued               // waits for its turn
	sending              // a delivery is under way
	waiting              // for the time of the next attempt
	gone                 // is no more
)

// A subscription is a [Subscription] at work. What it says of topic, callback,
// secret and lease changes only when it is renewed.
type subscription struct {
	Subscription
	log    *topic
	host   *host
	target *url.URL // of the callback
	alarm  alarm    // when its lease ends, or it is tried again, whichever is first
	signs  signs

	stage stage
	slow  bool  // its endpoint took long, the last time
	dirty bool  // Progress is to be saved
	fresh bool  // the cursor was set by hand meanwhile: what is under way does not move it
	saved int64 // the cursor the store knows, or less
	place int   // in the list its topic has of it
	next  *subscription
}

// A topic is a log at work.
type topic struct {
	url   string
	first int64
	last  int64
	bytes int64
	row   bool // the store has it
	state []byte
	subs  map[Key]*subscription
	idle  []*subscription // those that have everything
	log   window
}

// A registry is what the hub holds in memory: all topics, and the subscriptions
// of the shards that are its own.
type registry struct {
	topics map[string]*topic // by URL as websub.Canonical spells it
	shards [Shards]map[Key]*subscription
	hosts  map[string]*host
	count  int // of subscriptions
	alarms alarms
}

func newRegistry() registry {
	r := registry{topics: map[string]*topic{}, hosts: map[string]*host{}}
	for i := range r.shards {
		r.shards[i] = map[Key]*subscription{}
	}
	return r
}

// topic returns the topic at uri, made if there is none yet.
func (r *registry) topic(uri string) *topic {
	uri = websub.Canonical(uri)
	t := r.topics[uri]
	if t == nil {
		t = &topic{url: uri, first: 1, subs: map[Key]*subscription{}}
		r.topics[uri] = t
	}
	return t
}

// find returns the subscription, or nil.
func (r *registry) find(key Key) *subscription { return r.shards[key.Shard()][key] }

// loadTopic takes in what the store says of a topic.
func (r *registry) loadTopic(row Topic) *topic {
	t := r.topic(row.URL)
	t.row, t.state = true, row.State
	t.first, t.last, t.bytes = row.First, max(t.last, row.Last), row.Bytes
	return t
}

// put takes in a subscription, or what has become of it. The stage of a new one
// is gone: it has yet to be set going.
func (r *registry) put(row Subscription) *subscription {
	s := r.find(row.Key)
	if s == nil {
		s = &subscription{Subscription: row, stage: gone, saved: row.Progress.Cursor, log: r.topic(row.Topic)}
		s.alarm.sub, s.alarm.index = s, unset
		s.log.subs[row.Key] = s
		r.shards[row.Key.Shard()][row.Key] = s
		r.count++
	}
	progress := s.Progress
	s.Subscription = row
	if s.stage != gone {
		s.Progress = progress // this one is newer
	}
	s.signs = signs{}
	s.target, _ = url.Parse(row.Callback) // nil: cannot be delivered to
	r.settle(s)
	return s
}

// settle sees to it that s belongs to the host of its callback.
func (r *registry) settle(s *subscription) {
	name := ""
	if s.target != nil {
		name = hostOf(s.target)
	}
	if s.host != nil {
		return // the same subscription has the same callback, but for its spelling
	}
	x := r.hosts[name]
	if x == nil {
		x = newHost(name)
		r.hosts[name] = x
	}
	x.subs++
	s.host = x
}

// hostOf returns host and port of a URL, as connections are shared by.
func hostOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "80"
		if u.Scheme == "https" {
			port = "443"
		}
	}
	return strings.ToLower(u.Hostname()) + ":" + port
}

// drop forgets a subscription.
func (r *registry) drop(s *subscription) {
	r.alarms.clear(&s.alarm)
	s.log.unlist(s)
	s.stage = gone
	delete(s.log.subs, s.Key)
	delete(r.shards[s.Key.Shard()], s.Key)
	r.count--
	if s.host.subs--; s.host.subs == 0 {
		r.alarms.clear(&s.host.alarm)
		delete(r.hosts, s.host.name)
	}
	if t := s.log; len(t.subs) == 0 && !t.row {
		delete(r.topics, t.url)
	}
}

// list notes that s has everything.
func (t *topic) list(s *subscription) {
	s.stage, s.place = idle, len(t.idle)
	t.idle = append(t.idle, s)
}

// unlist undoes it, if it was.
func (t *topic) unlist(s *subscription) {
	if s.stage != idle {
		return
	}
	end := len(t.idle) - 1
	t.idle[s.place] = t.idle[end]
	t.idle[s.place].place = s.place
	t.idle[end] = nil
	t.idle = t.idle[:end]
}

// ends returns when the lease is over.
func (s *subscription) ends() time.Time { return s.Expires }

// topic returns what the hub knows of a topic, whatever the spelling of its
// URL; false if nothing.
func (h *Hub) topic(uri string) (Topic, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.registry.topics[websub.Canonical(uri)]
	if t == nil {
		return Topic{}, false
	}
	return t.row_(), true
}

// topics returns all topics, in no order.
func (h *Hub) topics() []Topic {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]Topic, 0, len(h.registry.topics))
	for _, t := range h.registry.topics {
		all = append(all, t.row_())
	}
	return all
}

func (t *topic) row_() Topic {
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

// subscription returns one.
func (h *Hub) subscription(key Key) (Subscription, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.registry.find(key)
	if s == nil {
		return Subscription{}, false
	}
	return s.Subscription, true
}

// count returns how many subscriptions there are, in all and with callbacks at
// the host of callback: those that are this hub's.
func (h *Hub) count(callback *url.URL) (all, atHost int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if x := h.registry.hosts[hostOf(callback)]; x != nil {
		atHost = x.subs
	}
	return h.registry.count, atHost
}
