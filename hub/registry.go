package hub

import (
	"net/url"
	"strings"

	"lockstep/websub"
)

// A stage is what a subscription is doing.
type stage uint8

const (
	idle    stage = iota // has everything there is
	queued               // waits for its turn
	sending              // a delivery is under way
	waiting              // for the time of the next attempt
	gone                 // is no more, or not yet
)

// A subscription is a [Subscription] at work.
type subscription struct {
	Subscription
	log    *topic
	host   *host
	target *url.URL // of the callback; nil if it can not be delivered to
	signer *signing // nil: no secret
	alarm  alarm    // when its lease ends, or it is tried again, whichever is first

	stage stage
	slow  uint8 // how often its endpoint has to be quick to be thought so again
	dirty bool  // Progress is to be saved
	moved bool  // the cursor was set by hand: what is under way does not move it
	saved int64 // the cursor the store knows, or less
	place int   // in the list its topic has of those that are idle
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
	idle  []*subscription

	recent window
	pages  []*page
	read   chan struct{} // closed when the page that is being read is there; nil: none is
	whole  int64         // the newest Whole message there is known to be
	ages   ages
}

// A registry is what the hub holds in memory: all topics, and the subscriptions
// of the shards that are its own.
type registry struct {
	topics map[string]*topic // by URL as websub.Canonical spells it
	shards [Shards]map[Key]*subscription
	hosts  map[string]*host
	names  map[string]int // subscriptions, by the name of the host without a port
	count  int            // of subscriptions
	alarms alarms
}

func newRegistry() registry {
	r := registry{topics: map[string]*topic{}, hosts: map[string]*host{}, names: map[string]int{}}
	for i := range r.shards {
		r.shards[i] = map[Key]*subscription{}
	}
	return r
}

// topic returns the topic at uri, made if there is none yet.
func (r *registry) topic(uri string) *topic {
	if t := r.topics[uri]; t != nil {
		return t
	}
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

// add takes in a subscription that is not there yet. It is gone: it has yet to
// be set going.
func (r *registry) add(row Subscription, lanes *[lanes]lane) *subscription {
	s := &subscription{stage: gone, saved: row.Progress.Cursor, log: r.topic(row.Topic)}
	s.alarm = alarm{sub: s, index: unset}
	s.set(row)
	name, bare := "", ""
	if s.target != nil {
		name, bare = hostOf(s.target), bareHost(s.target)
	}
	x := r.hosts[name]
	if x == nil {
		x = &host{name: name, bare: bare}
		x.alarm = alarm{host: x, index: unset}
		for i := range x.queues {
			x.queues[i] = queue{host: x, lane: &lanes[i]}
		}
		r.hosts[name] = x
	}
	x.subs++
	r.names[bare]++
	s.host = x
	s.log.subs[row.Key] = s
	r.shards[row.Key.Shard()][row.Key] = s
	r.count++
	return s
}

// set makes s what row says.
func (s *subscription) set(row Subscription) {
	s.Subscription, s.signer = row, nil
	if len(row.Secret) > 0 {
		s.signer = &signing{key: row.Key, sealed: row.Secret}
	}
	s.target, _ = url.Parse(row.Callback) // those that are no URLs were refused long ago
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
	if r.names[s.host.bare]--; r.names[s.host.bare] == 0 {
		delete(r.names, s.host.bare)
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

// unlist undoes it, if it was noted.
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

// hostOf returns host and port of a URL, as connections are shared by.
func hostOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "80"
		if strings.EqualFold(u.Scheme, "https") {
			port = "443"
		}
	}
	return strings.ToLower(u.Hostname()) + ":" + port
}
