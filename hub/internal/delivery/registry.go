package delivery

import (
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/hub/hubstore"
	"lockstep/hub/internal/address"
	"lockstep/hub/internal/post"
	"lockstep/websub"
)

// A stage is the state of a subscription.
type stage uint8

const (
	idle    stage = iota // has all messages
	queued               // waits for its turn
	sending              // a delivery is under way
	waiting              // waits for the time of the next attempt
	gone                 // removed, or not yet started
)

// A subscription is a [Subscription] with its delivery state.
type subscription struct {
	hubstore.Subscription
	log    *topic
	host   *host
	target *url.URL     // of the callback; nil if the callback is invalid
	secret *post.Secret // nil: no secret
	alarm  alarm        // when its lease ends or the next attempt is due, whichever is first

	stage stage
	slow  uint8 // quick deliveries needed before the endpoint counts as quick again
	dirty bool  // Progress has to be saved
	ended bool  // its row is removed, or has to be
	moved bool  // a replay set the cursor: the delivery under way does not move it
	saved int64 // the cursor in the store, or a lower one
	place int   // index in its topic's list of idle subscriptions
}

// A topic is a log with its subscriptions.
type topic struct {
	url   string
	first int64
	last  int64
	found int64 // step at which the operation began that found last
	since int64 // step of the registry when last was found
	epoch int   // how often messages were lost
	bytes int64
	row   bool // it is in the store
	state []byte
	subs  map[hubstore.Key]*subscription
	idle  []*subscription

	recent window
	pages  []*page
	read   chan struct{} // closed when the page being read is available; nil: none is being read
	whole  int64         // the newest Whole message that is known
	ages   ages
}

// A registry is what the hub holds in memory: all topics, and the subscriptions
// of its own shards.
type registry struct {
	step atomic.Int64 // is raised when an operation of the store begins that shows how long logs are

	mu sync.Mutex // guards what follows, and what other types say it guards

	until  time.Time         // the claims of shards are valid until then; zero: no other hub uses the store
	open   bool              // messages and requests are accepted: from the end of loading to the end of the run
	topics map[string]*topic // by URL as websub.Canonical spells it
	shards [hubstore.Shards]map[hubstore.Key]*subscription
	hosts  map[string]*host
	names  map[string]int // subscriptions, by the name of the host without a port
	count  int            // of subscriptions
	alarms *alarmClock

	changesRead int64                 // number of the last message of changesTopic that was read
	touched     map[hubstore.Key]bool // subscriptions that were set or dropped while Sharing.reload reads; nil: it does not
}

func newRegistry(alarms *alarmClock) *registry {
	r := &registry{alarms: alarms, topics: map[string]*topic{}, hosts: map[string]*host{}, names: map[string]int{}}
	for i := range r.shards {
		r.shards[i] = map[hubstore.Key]*subscription{}
	}
	return r
}

// lapsed reports whether the claims of shards have not been renewed in time. Another hub may have loaded the
// subscriptions then: this one neither delivers to them nor saves anything of them, until Sharing has
// dropped them.
func (r *registry) lapsed() bool { return !r.until.IsZero() && !time.Now().Before(r.until) }

// topic returns the topic at uri and creates it if needed.
func (r *registry) topic(uri string) *topic {
	if t := r.topics[uri]; t != nil {
		return t
	}
	uri = websub.Canonical(uri)
	t := r.topics[uri]
	if t == nil {
		t = &topic{url: uri, first: 1, subs: map[hubstore.Key]*subscription{}}
		r.topics[uri] = t
	}
	return t
}

// find returns the subscription, or nil.
func (r *registry) find(key hubstore.Key) *subscription { return r.shards[key.Shard()][key] }

// add adds a new subscription. Its stage is gone until it is started.
func (r *registry) add(row hubstore.Subscription, lanes *[lanes]lane) *subscription {
	s := &subscription{stage: gone, saved: row.Progress.Cursor, log: r.topic(row.Topic)}
	s.alarm = alarm{sub: s, index: unset}
	s.set(row)
	name, bare := "", ""
	if s.target != nil {
		name, bare = address.HostPort(s.target), address.Host(s.target)
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

// set updates s from row.
func (s *subscription) set(row hubstore.Subscription) {
	s.Subscription, s.secret = row, nil
	if len(row.Secret) > 0 {
		s.secret = post.NewSecret(row.Key, row.Secret)
	}
	s.target, _ = url.Parse(row.Callback) // invalid URLs were refused when they were submitted
}

// touch records that a subscription is about to be set or dropped.
func (r *registry) touch(key hubstore.Key) {
	if r.touched != nil {
		r.touched[key] = true
	}
}

// drop removes a subscription.
func (r *registry) drop(s *subscription) {
	r.touch(s.Key)
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

// clear removes all subscriptions of a shard.
func (r *registry) clear(shard int) {
	for _, s := range r.shards[shard] {
		r.drop(s)
	}
}

// list adds s to the idle subscriptions.
func (t *topic) list(s *subscription) {
	s.stage, s.place = idle, len(t.idle)
	t.idle = append(t.idle, s)
}

// unlist removes s from them, if it is there.
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
