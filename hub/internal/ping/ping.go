// Package ping fetches topics that publishers report as changed, and publishes
// their new content (WS-P-03).
package ping

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"lockstep/hub/hubstore"
	"lockstep/hub/internal/call"
	"lockstep/hub/internal/limit"
	"lockstep/hub/internal/tally"
	"lockstep/hub/internal/timing"
	"lockstep/hub/status"
	"lockstep/internal/fetch"
	"lockstep/internal/ratelimit"
	"lockstep/websub"
)

const (
	// fetchTime caps one fetch of a topic.
	fetchTime = time.Minute

	// receiveMost is how many pings of other hubs are handled at a time.
	receiveMost = 1000

	fetchInAll = 32
	fetchAtOne = 4
	// maxReason caps the stored reason for a failed fetch.
	maxReason = 500
)

// fetchRate limits how often topics at one host are fetched.
var fetchRate = ratelimit.Rate{Burst: 200, Per: 100}

// topicState is the state of a topic that is published by pings, stored as JSON
// in Topic.State.
type topicState struct {
	Pinged   time.Time `json:"pinged,omitzero"` // time of the ping whose changes are not fetched yet; zero: none
	Derived  bool      `json:"derived,omitzero"`
	Attempts int       `json:"attempts,omitzero"` // failed attempts to fetch them
	Next     time.Time `json:"next,omitzero"`     // time of the next attempt
	Error    string    `json:"error,omitempty"`   // of the last attempt; empty: it succeeded
	Fetched  time.Time `json:"fetched,omitzero"`  // the last successful fetch
	ETag     string    `json:"etag,omitempty"`
	Modified string    `json:"modified,omitempty"` // Last-Modified, as the topic's server spells it
	Sum      []byte    `json:"sum,omitempty"`      // SHA-256 of the content distributed last
}

// stateOf parses Topic.State. An unreadable state costs one more fetch.
func stateOf(state []byte) topicState {
	var s topicState
	if len(state) > 0 && json.Unmarshal(state, &s) != nil {
		return topicState{}
	}
	return s
}

// Describe adds to t what its stored state says of its fetches.
func Describe(t *status.Topic, state []byte) {
	s := stateOf(state)
	t.Fetched, t.FetchError, t.FetchAttempts, t.NextFetch = s.Fetched, s.Error, s.Attempts, s.Next
}

// Topics are the topics of a hub, and their messages.
type Topics interface {
	// Topics returns the topics; their State is up to date if this hub owns them.
	Topics() []hubstore.Topic
	// Owns reports whether this hub, and no other, handles the pings of a topic.
	Owns(topic string) bool
	// Topic returns a topic; false if the hub does not know it.
	Topic(uri string) (hubstore.Topic, bool)
	// Subscribed reports whether a topic has subscribers, or may have some.
	Subscribed(topic string) bool
	// Append makes a message durable.
	Append(ctx context.Context, m hubstore.Message) (seq int64, err error)
	// Save makes the state of topics durable, and requests, of which it notifies the hubs that
	// own them.
	Save(ctx context.Context, c hubstore.Changes) error
}

// Options are what a [Fetcher] needs.
type Options struct {
	Topics  Topics
	Expects func(topic string) bool    // reports whether a client may be about to subscribe to a topic
	Allowed func(topic *url.URL) error // returns an error unless a topic may be published
	Bodies  *limit.Budget              // for contents of topics
	Client  *http.Client               // for discovery; it follows no redirects
	Tally   *tally.Tally
	Clock   func() time.Time
	Logger  *slog.Logger

	PublicURL, UserAgent                     string
	AllowPrivate                             bool // topics may be at private and loopback addresses
	RootCAs                                  *x509.CertPool
	Timeout, RetryFirst, RetryMost, RetryFor time.Duration
	MaxBody                                  int64
}

// A Fetcher fetches topics that were pinged, and publishes new content.
type Fetcher struct {
	o      Options
	client *fetch.Client
	calls  *call.Scheduler

	pages     *limit.Budget              // for pages that are searched for hubs
	redirects *ratelimit.Buckets[string] // see redirectRate

	mu     sync.Mutex // guards what follows
	topics map[string]*pinged
	shards map[int]bool // shards whose pings are loaded
}

// A pinged is a topic with a pending or running fetch.
type pinged struct {
	turn chan struct{} // its holder may change the state, which it guards
	refs int           // number of holders and waiters of the turn
	url  *url.URL

	state topicState
	saved bool // the ping is in the store

	wanted, begun uint64 // number of pings, and of those before the last fetch began
	fetching      bool
	round         int // counts the calls given to n.calls: only the last one is valid
}

// New returns a Fetcher.
func New(o Options) (*Fetcher, error) {
	client, err := fetch.New(fetch.Options{
		Timeout: o.Timeout, Retries: -1, UserAgent: o.UserAgent, AllowPrivate: o.AllowPrivate, Logger: o.Logger,
		RootCAs: o.RootCAs, Ungated: true, // each topic has a schedule of its own
	})
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	return &Fetcher{
		o: o, client: client, calls: call.New(fetchInAll, fetchAtOne, fetchRate, o.Clock),
		pages: limit.NewBudget(maxPages), redirects: ratelimit.NewBuckets[string](redirectRate, o.Clock),
		topics: make(map[string]*pinged), shards: make(map[int]bool),
	}, nil
}

func (n *Fetcher) now() time.Time { return timing.Micros(n.o.Clock()) }

// Pending returns how many topics have a pending or running fetch.
func (n *Fetcher) Pending() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.topics)
}

// Ping durably records that topics have changed. urls are their addresses.
func (n *Fetcher) Ping(ctx context.Context, topics []string, urls []*url.URL) error {
	errs := make([]error, len(topics))
	var wg sync.WaitGroup
	for i := range topics { // few commits for all of them
		wg.Go(func() { errs[i] = n.pingOne(ctx, topics[i], urls[i], false) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// derivedPing marks the request for a ping that the hub has made itself.
const derivedPing = "derived"

// pass leaves a ping to the hub that owns the topic: only that knows which content was distributed last.
func (n *Fetcher) pass(ctx context.Context, topic string, derived bool) error {
	r := hubstore.Request{Key: hubstore.KeyOf(topic, ""), Mode: websub.ModePublish, Topic: topic, At: n.now()}
	if derived {
		r.VerifyToken = derivedPing
	}
	return n.o.Topics.Save(ctx, hubstore.Changes{Ask: []hubstore.Request{r}})
}

// Receive handles pings of this hub's topics that other hubs have accepted.
func (n *Fetcher) Receive(ctx context.Context, pings []hubstore.Request) error {
	for len(pings) > 0 {
		some := pings[:min(len(pings), receiveMost)]
		pings = pings[len(some):]
		errs := make([]error, len(some))
		var wg sync.WaitGroup
		for i := range some {
			wg.Go(func() { errs[i] = n.receive(ctx, &some[i]) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}

func (n *Fetcher) receive(ctx context.Context, r *hubstore.Request) error {
	if u, err := url.Parse(r.Topic); err == nil {
		if err := n.pingOne(ctx, r.Topic, u, r.VerifyToken == derivedPing); err != nil {
			return err
		}
	}
	return n.o.Topics.Save(ctx, hubstore.Changes{Settle: []hubstore.Request{*r}})
}

func (n *Fetcher) pingOne(ctx context.Context, topic string, u *url.URL, derived bool) error {
	if !n.o.Topics.Owns(topic) {
		return n.pass(ctx, topic, derived)
	}
	p, err := n.hold(ctx, topic, u)
	if err != nil {
		return err
	}
	defer n.release(topic, p)
	if !n.needed(topic) {
		return n.remember(ctx, topic, p) // WS-P-04
	}
	n.mu.Lock()
	p.wanted++
	n.mu.Unlock()
	if !p.saved {
		s := p.state
		s.Pinged, s.Derived, s.Attempts, s.Next = n.now(), derived, 0, time.Time{}
		if err := n.save(ctx, topic, p, s); err != nil {
			return err
		}
	}
	p.state.Derived = p.state.Derived && derived
	at := n.now()
	if p.state.Attempts > 0 { // the topic seems to be available again; but many pings do not speed up its retries
		at = minTime(p.state.Next, p.state.Pinged.Add(n.o.RetryFirst))
	}
	owned := n.o.Topics.Owns(topic)
	n.mu.Lock()
	switch held := n.topics[topic] == p; {
	case !held:
		owned = false
	case !owned:
		delete(n.topics, topic)
	case !p.fetching:
		n.schedule(topic, p, at)
	}
	n.mu.Unlock()
	if !owned { // the hub that owns it now may have loaded it before
		return n.pass(ctx, topic, derived)
	}
	return nil
}

// needed reports whether a topic has subscribers, or may be about to have some. It asks
// for requests first: one stays expected until its subscription exists, so that one that is
// confirmed meanwhile is not missed.
func (n *Fetcher) needed(topic string) bool {
	return n.o.Expects(topic) || n.o.Topics.Subscribed(topic)
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// remember records that the topic's content is no longer what was distributed
// last: if that content comes back, the next subscribers must receive it again.
func (n *Fetcher) remember(ctx context.Context, topic string, p *pinged) error {
	if p.state.Sum == nil || p.saved {
		return nil
	}
	s := p.state
	s.Sum, s.ETag, s.Modified = nil, "", ""
	return n.save(ctx, topic, p, s)
}

// save stores s as the state of the topic.
func (n *Fetcher) save(ctx context.Context, topic string, p *pinged, s topicState) error {
	b, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("state of topic: %w", err)
	}
	if err := n.o.Topics.Save(ctx, hubstore.Changes{Topics: []hubstore.Topic{{URL: topic, State: b}}}); err != nil {
		return err
	}
	p.state, p.saved = s, !s.Pinged.IsZero()
	return nil
}

func (n *Fetcher) hold(ctx context.Context, topic string, u *url.URL) (*pinged, error) {
	known, _ := n.o.Topics.Topic(topic)
	n.mu.Lock()
	p := n.topics[topic]
	if p == nil {
		p = &pinged{turn: make(chan struct{}, 1), url: u, state: stateOf(known.State)}
		n.topics[topic] = p
	}
	p.refs++
	n.mu.Unlock()
	select {
	case p.turn <- struct{}{}:
		return p, nil
	case <-ctx.Done():
		n.mu.Lock()
		defer n.mu.Unlock()
		n.drop(topic, p)
		return nil, ctx.Err()
	}
}

func (n *Fetcher) release(topic string, p *pinged) {
	<-p.turn
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drop(topic, p)
}

func (n *Fetcher) drop(topic string, p *pinged) {
	if p.refs--; p.refs == 0 && p.wanted == p.begun && !p.fetching && n.topics[topic] == p {
		delete(n.topics, topic)
	}
}

// schedule schedules a fetch of a topic, in place of an earlier one.
func (n *Fetcher) schedule(topic string, p *pinged, at time.Time) {
	p.round++
	round := p.round
	n.calls.Add(p.url, call.Known, at, func(ctx context.Context) { n.carry(ctx, topic, p, round) })
}

// Load loads the pings of the topics of shards that no hub has handled yet.
func (n *Fetcher) Load(_ context.Context, shards []int) error {
	fresh := make(map[int]bool)
	n.mu.Lock()
	for _, s := range shards {
		if !n.shards[s] {
			n.shards[s], fresh[s] = true, true
		}
	}
	n.mu.Unlock()
	if len(fresh) == 0 {
		return nil
	}
	for _, t := range n.o.Topics.Topics() {
		s := stateOf(t.State)
		if s.Pinged.IsZero() || !fresh[hubstore.KeyOf(t.URL, "").Shard()] {
			continue
		}
		if u, err := url.Parse(t.URL); err == nil {
			n.take(t.URL, u, s)
		}
	}
	return nil
}

func (n *Fetcher) take(topic string, u *url.URL, s topicState) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.topics[topic] != nil {
		return
	}
	if now := n.now(); s.Pinged.After(now) { // by a clock that was ahead
		s.Pinged = now // the time until the topic is given up runs from here
	}
	s.Next = timing.Due(s.Next, n.now(), n.o.RetryMost)
	p := &pinged{turn: make(chan struct{}, 1), url: u, state: s, saved: true, wanted: 1}
	n.topics[topic] = p
	n.schedule(topic, p, s.Next)
}

// Unload forgets the pings of shards: they belong to another hub, which makes running fetches
// again.
func (n *Fetcher) Unload(shards []int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range shards {
		delete(n.shards, s)
	}
	maps.DeleteFunc(n.topics, func(topic string, _ *pinged) bool { return slices.Contains(shards, hubstore.KeyOf(topic, "").Shard()) })
}

// Run fetches topics until ctx ends; everything it started has ended when it
// returns.
func (n *Fetcher) Run(ctx context.Context) { n.calls.Run(ctx) }

// carry fetches a topic once and writes the result: first a message, then that
// the ping is handled. After a crash between the two the message may be
// delivered twice.
func (n *Fetcher) carry(ctx context.Context, topic string, p *pinged, round int) {
	n.mu.Lock()
	if p.round != round || p.fetching || n.topics[topic] != p {
		n.mu.Unlock()
		return
	}
	p.fetching, p.begun = true, p.wanted
	p.refs++
	n.mu.Unlock()
	p.turn <- struct{}{}
	s := p.state
	<-p.turn

	f := n.fetch(ctx, topic, s)
	p.turn <- struct{}{}
	defer n.release(topic, p)
	defer n.settle(topic, p, f)
	n.mu.Lock()
	owned := n.topics[topic] == p
	n.mu.Unlock()
	if ctx.Err() != nil || !owned {
		f.done()
		return // fetched again when the hub has restarted, or by the hub that owns the topic now
	}
	n.conclude(ctx, topic, p, f)
}

// settle schedules a further fetch if there is more to fetch.
func (n *Fetcher) settle(topic string, p *pinged, f *fetched) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p.fetching = false
	switch {
	case p.saved && f.err == nil && p.wanted > p.begun:
		n.schedule(topic, p, n.now())
	case p.saved:
		p.begun = p.wanted - 1 // still to be fetched
		n.schedule(topic, p, p.state.Next)
	default:
		p.begun = p.wanted
	}
}

// conclude writes the result of a fetch.
func (n *Fetcher) conclude(ctx context.Context, topic string, p *pinged, f *fetched) {
	defer f.done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timing.SaveTime)
	defer cancel()
	s := p.state
	if f.err == nil && f.body != nil {
		m := hubstore.Message{Topic: topic, ContentType: f.contentType, Whole: true, Body: f.body}
		if _, err := n.o.Topics.Append(ctx, m); err != nil {
			f.err = fmt.Errorf("keep the news: %w", err)
		}
	}
	n.mu.Lock()
	more := p.wanted > p.begun // RN-PB-03: any number of pings during a fetch cause one more fetch
	n.mu.Unlock()
	if f.err != nil {
		n.failed(&s, f, more)
	} else {
		n.succeeded(&s, f, more)
	}
	n.report(ctx, topic, &s, f)
	if err := n.save(ctx, topic, p, s); err != nil {
		n.o.Logger.ErrorContext(ctx, "outcome of a fetch not saved", slog.String("err", err.Error()))
		p.state.Next = n.now().Add(n.o.RetryFirst)
	}
	if f.err == nil && f.self != nil && !s.Derived {
		n.follow(ctx, topic, f.self)
	}
}

func (n *Fetcher) succeeded(s *topicState, f *fetched, more bool) {
	s.Attempts, s.Next, s.Error, s.Fetched = 0, time.Time{}, "", n.now()
	if !f.notModified {
		s.ETag, s.Modified, s.Sum = f.etag, f.modified, f.sum
	}
	s.Pinged = time.Time{}
	if more {
		s.Pinged = n.now()
	}
}

// failed schedules a retry (WS-P-05), or gives the topic up.
func (n *Fetcher) failed(s *topicState, f *fetched, more bool) {
	o := &n.o
	s.Attempts++
	s.Error = fetch.Printable(f.err.Error())
	if len(s.Error) > maxReason {
		s.Error = s.Error[:maxReason] + "…"
	}
	wait := o.RetryFirst
	for i := 1; i < s.Attempts && wait < o.RetryMost; i++ {
		wait *= 2
	}
	s.Next = n.now().Add(timing.Jitter(max(min(wait, o.RetryMost), min(f.after, o.RetryMost))))
	if f.final && !more || s.Next.Sub(s.Pinged) > o.RetryFor {
		s.Pinged, s.Next = time.Time{}, time.Time{} // Error remains, for the status
	}
}

func (n *Fetcher) report(ctx context.Context, topic string, s *topicState, f *fetched) {
	switch {
	case f.err == nil && f.body != nil:
		n.o.Tally.Fetch()
		return
	case f.err == nil:
		n.o.Tally.Unchanged()
		return
	}
	n.o.Tally.Unfetched()
	message := "topic not fetched"
	if s.Pinged.IsZero() {
		message = "topic not fetched, given up"
	}
	n.o.Logger.WarnContext(ctx, message, slog.String("topic", fetch.Printable(topic)), slog.Int("attempt", s.Attempts), slog.String("err", s.Error))
}

// follow pings the topic that the fetched one names as its canonical address,
// if anyone needs that. It is then fetched from its own address: a topic
// cannot publish content for another.
func (n *Fetcher) follow(ctx context.Context, topic string, self *url.URL) {
	name := websub.Canonical(self.String())
	if name == topic || !n.needed(name) || n.o.Allowed(self) != nil {
		return
	}
	if err := n.pingOne(ctx, name, self, true); err != nil {
		n.o.Logger.ErrorContext(ctx, "canonical topic not pinged", slog.String("err", err.Error()))
	}
}
