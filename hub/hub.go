package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"lockstep/hub/hubstore"
	"lockstep/hub/internal/accept"
	"lockstep/hub/internal/client"
	"lockstep/hub/internal/delivery"
	"lockstep/hub/internal/ping"
	"lockstep/hub/internal/publisher"
	"lockstep/hub/internal/refusal"
	"lockstep/hub/internal/request"
	"lockstep/hub/internal/seal"
	"lockstep/hub/internal/tally"
	"lockstep/hub/internal/timing"
	"lockstep/hub/internal/verify"
	"lockstep/hub/status"
)

var (
	// ErrNotReady reports that the hub has not loaded yet, or is shutting down.
	ErrNotReady = refusal.ErrNotReady
	// ErrFull reports that too many messages of the topic are waiting for delivery.
	// The hub accepts no more until some are delivered.
	ErrFull = refusal.ErrFull
	// ErrNoSubscription reports that the subscription does not exist.
	ErrNoSubscription = refusal.ErrNoSubscription
)

// A Hub accepts messages and delivers them to the subscribers of their topics.
// [Hub.Run] does the work; all other methods are safe for concurrent use while
// it runs.
type Hub struct {
	store    hubstore.Store
	opts     Options
	client   *http.Client // for callbacks: no redirects, guarded dialling
	seal     *seal.Seal
	ready    chan struct{}
	endpoint *accept.Endpoint // incoming requests
	engine   *delivery.Engine
	verifier *verify.Verifier
	fetcher  *ping.Fetcher // of pinged topics
	control  *control
	status   *status.Server
}

// New returns a Hub that stores its state in s. If s is a [Sharer], other hubs
// may use it at the same time. New returns an error if o is contradictory or
// incomplete.
func New(s Store, o Options) (*Hub, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	h := &Hub{store: s, opts: o, ready: make(chan struct{})}
	if h.seal, err = seal.New(o.Secret); err != nil {
		return nil, err
	}
	rules, err := publishRules(&o)
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	h.client = client.New(client.Options{AllowPrivate: o.AllowPrivate, RootCAs: o.RootCAs, Timeout: o.Timeout, IdlePerHost: delivery.MostPerHost, Logger: o.Logger})
	counts, started := &tally.Tally{}, o.Clock()
	h.engine = delivery.New(s, delivery.Options{
		Transport: h.client.Transport, Unseal: h.seal.Unseal, Describe: ping.Describe, Pending: h.pending,
		Tally: counts, Clock: o.Clock, Logger: o.Logger,
		PublicURL: o.PublicURL, UserAgent: o.UserAgent, Method: o.Method,
		RetryFirst: o.RetryFirst, RetryMost: o.RetryMost, RetryFor: o.RetryFor,
		Keep: o.Keep, Forget: o.Forget, Timeout: o.Timeout, MaxLog: o.MaxLog,
	})
	bodies := accept.Bodies(o.MaxBody)
	h.fetcher, err = ping.New(ping.Options{
		Topics: h.engine.Topics, Expects: h.expects, Allowed: rules.Covers, Bodies: bodies, Client: h.client,
		Tally: counts, Clock: o.Clock, Logger: o.Logger,
		PublicURL: o.PublicURL, UserAgent: o.UserAgent, AllowPrivate: o.AllowPrivate, RootCAs: o.RootCAs,
		Timeout: o.Timeout, RetryFirst: o.RetryFirst, RetryMost: o.RetryMost, RetryFor: o.RetryFor, MaxBody: o.MaxBody,
	})
	if err != nil {
		return nil, err
	}
	var names func(ctx context.Context, topic string) (bool, error)
	if o.CheckTopics {
		names = h.fetcher.Names
	}
	h.verifier = verify.New(verify.Options{
		Members: h.engine.Members, Shards: h.engine.Sharing, Stored: s.Requests, Pings: h.fetcher.Receive, Client: h.client,
		Names: names, Own: func(topic *url.URL) bool { return rules.Foreign(topic) != nil },
		Tally: counts, Clock: o.Clock, Logger: o.Logger,
		Timeout: o.Timeout, RetryFirst: o.RetryFirst, UserAgent: o.UserAgent,
		MaxSubscriptions: o.MaxSubscriptions, MaxPerHost: o.MaxPerHost,
	})
	var shared publisher.Recorder
	if sharer, ok := s.(hubstore.Sharer); ok {
		shared = sharer
	}
	now := func() time.Time { return timing.Micros(o.Clock()) }
	h.endpoint = accept.New(accept.Options{
		Publishers: rules, Signatures: publisher.NewSignatures(rules.Tokens, started, now, shared, o.Logger),
		Append: h.engine.Topics.Append, Request: h.verifier.Accept, Ping: h.fetcher.Ping,
		Known: h.knows, May: o.MaySubscribe, Seal: h.seal.Seal, Ready: h.ready, Bodies: bodies,
		Tally: counts, Clock: o.Clock, Logger: o.Logger,
		PublicURL: o.PublicURL, Terms: o.terms(), TrustedProxies: o.TrustedProxies, MaxBody: o.MaxBody,
	})
	h.control = &control{members: h.engine.Members, sharing: h.engine.Sharing, verifier: h.verifier, tally: counts}
	h.status = &status.Server{
		URL: o.PublicURL, Started: started, Ready: h.ready, Logger: o.Logger,
		State: h.engine.View, Failed: h.verifier.Failed,
		Control: h.control,
	}
	return h, nil
}

// expects reports whether a client may be about to subscribe to a topic.
func (h *Hub) expects(topic string) bool { return h.verifier.Expects(topic) }

// pending returns how many requests wait to be verified.
func (h *Hub) pending() int {
	requests, _ := h.verifier.Pending()
	return requests
}

// knows reports whether messages of a topic were published here.
func (h *Hub) knows(topic string) bool {
	_, known := h.engine.Topics.Topic(topic)
	return known
}

// Ready returns a channel that is closed when the hub has loaded. Until then it
// accepts no requests.
func (h *Hub) Ready() <-chan struct{} { return h.ready }

// Run loads the state, verifies requests and delivers messages until ctx ends.
// Then it saves the progress of all subscriptions and returns nil. Call it
// once.
func (h *Hub) Run(ctx context.Context) error {
	defer h.client.CloseIdleConnections()
	return h.engine.Run(ctx, []delivery.ShardUser{h.verifier, h.fetcher}, func() { close(h.ready) })
}

// ServeHTTP is the hub's endpoint. A POST of a form subscribes, unsubscribes
// (WS-H-01, WS-H-11) or pings a topic (RN-PB-03); a POST of any other media
// type with a Link to itself publishes its body (RN-PB-04). GET describes the
// hub.
//
// A request answered with 202 is durable. No answer waits for a subscriber or
// for a topic (WS-H-03).
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.endpoint.ServeHTTP(w, r) }

// Publish accepts a message from within the process: a fat publication (RN-PB-01) that needs no
// authorization. Content-Type and Link of the header are relayed as if it had come by HTTP; a Link
// with rel=self may be omitted. The message is durable when Publish returns nil. An error with a
// method Permanent that returns true rejects the message; after any other error the caller may
// retry. The caller must not change the body afterwards.
func (h *Hub) Publish(ctx context.Context, topic string, header http.Header, body []byte) error {
	p, err := request.ParsePublicationOf(topic, header, body, h.opts.MaxBody)
	if err == nil {
		_, err = h.engine.Topics.Append(ctx, hubstore.Message{Topic: p.Topic, ContentType: p.ContentType, Links: p.Links, Body: body})
	}
	if err != nil {
		return fmt.Errorf("publish to %s: %w", topic, err)
	}
	return nil
}

// EndSubscriptions ends all subscriptions to a topic, and the requests for some that are
// pending, and notifies the subscribers. It may be called once the hub is ready, and again
// after an error, which it also returns if another hub on the same store may have had some.
func (h *Hub) EndSubscriptions(ctx context.Context, topic, reason string) error {
	if err := h.verifier.Cancel(ctx, topic); err != nil {
		return err
	}
	for _, key := range h.engine.Members.Keys(topic) {
		err := h.control.Remove(ctx, key, reason)
		if err != nil && !errors.Is(err, ErrNoSubscription) {
			return fmt.Errorf("end the subscriptions to %s: %w", topic, err)
		}
	}
	if !h.engine.Sharing.Shared() {
		return nil
	}
	n, err := h.endElsewhere(ctx, topic, reason)
	if err == nil && n > 0 {
		err = fmt.Errorf("%d belonged to another hub, or to one that was killed: call it again", n)
	}
	if err != nil {
		return fmt.Errorf("end the subscriptions to %s: %w", topic, err)
	}
	return nil
}

// endElsewhere ends what the store has of a topic although it is not in memory, and returns how much that was: another
// hub may be about to load it.
func (h *Hub) endElsewhere(ctx context.Context, topic, reason string) (n int, err error) {
	for s, err := range h.store.Subscriptions(ctx, -1) {
		if err == nil && hubstore.KeyOf(s.Topic, "") == hubstore.KeyOf(topic, "") {
			n++
			err = h.control.end(ctx, s, reason)
		}
		if err != nil {
			return n, err
		}
	}
	for r, err := range h.store.Requests(ctx, -1) {
		if err == nil && verify.Subscribes(&r, topic) {
			n++
			err = h.store.Save(ctx, hubstore.Changes{Settle: []hubstore.Request{r}})
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// Subscriptions returns the number of subscriptions. With several hubs, it
// counts those of this one.
func (h *Hub) Subscriptions() int { return h.engine.Members.Count() }

// Stats returns the state of the hub. It visits every subscription: 100,000
// take some milliseconds.
func (h *Hub) Stats() Stats { return h.engine.View.Stats() }

// SubscriptionsBy returns the state of the selected subscriptions that come first in
// an order, at most limit, and how many are selected. It visits every subscription, as
// [Hub.Stats] does.
func (h *Hub) SubscriptionsBy(ctx context.Context, c status.Selection, order func(a, b *status.Subscription) int, limit int) (all []status.Subscription, selected int) {
	return h.engine.View.First(ctx, c, order, limit)
}

// API returns the handler through which programs read the hub's state and manage
// subscriptions: see [status.Server.API].
func (h *Hub) API() http.Handler { return h.status.API() }

// StatusPage returns a web page that shows the hub's state. api is the path at
// which [Hub.API] is served. curl returns the options with which curl reaches
// the API in the same way as a request did; it may be nil. As with the API, the
// caller decides which requests may see the page.
func (h *Hub) StatusPage(api string, curl func(*http.Request) string) http.Handler {
	return h.status.Page(api, curl)
}

// Check returns nil if the hub accepts requests: it has loaded, is not shutting
// down, and its store works. Otherwise the error gives the reason.
func (h *Hub) Check(ctx context.Context) error {
	if err := h.engine.Check(); err != nil {
		return err
	}
	if store, ok := h.store.(hubstore.Checker); ok {
		if err := store.Check(ctx); err != nil {
			return fmt.Errorf("the database does not work: %w", err)
		}
	}
	return nil
}

// CheckSecret reports an error if [Options.Secret] is not the key that
// encrypted the subscribers' secrets: with another key, all signed deliveries
// would fail. It tries one of the secrets.
func (h *Hub) CheckSecret(ctx context.Context) error {
	for s, err := range h.store.Subscriptions(ctx, -1) {
		if err != nil {
			return fmt.Errorf("look at the secrets of subscribers: %w", err)
		}
		if len(s.Secret) == 0 {
			continue
		}
		if _, err := h.seal.Unseal(s.Key, s.Secret); err != nil {
			return fmt.Errorf("look at the secrets of subscribers: %w", err)
		}
		return nil
	}
	return nil
}

// A control manages subscriptions for operators.
type control struct {
	members  *delivery.Members
	sharing  *delivery.Sharing
	verifier *verify.Verifier
	tally    *tally.Tally
}

// Remove ends a subscription and notifies the subscriber (WS-V-02).
func (c *control) Remove(ctx context.Context, key hubstore.Key, reason string) error {
	if !c.sharing.Owns(key) {
		return refusal.ErrElsewhere
	}
	s, ok := c.members.Subscription(key)
	if !ok {
		return ErrNoSubscription
	}
	return c.end(ctx, s, reason)
}

func (c *control) end(ctx context.Context, s hubstore.Subscription, reason string) error {
	if err := c.members.End(ctx, hubstore.Request{Key: s.Key}, false); err != nil {
		return err
	}
	c.tally.Deny()
	c.verifier.Deny(s, reason)
	return nil
}

// Replay delivers the stored messages from a number on again.
func (c *control) Replay(ctx context.Context, key hubstore.Key, from int64) (int64, error) {
	if !c.sharing.Owns(key) {
		return 0, refusal.ErrElsewhere
	}
	return c.members.Replay(ctx, key, from)
}

// Members returns the subscriptions of a topic.
func (c *control) Members(topic string) []hubstore.Key { return c.members.Keys(topic) }
