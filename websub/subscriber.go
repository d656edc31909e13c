package websub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// DefaultPending is how long a hub may take to verify (WS-S-11).
	DefaultPending = 10 * time.Minute
	// DefaultRetryFirst is the wait after a failed request to a hub: it may just be
	// restarting.
	DefaultRetryFirst = 5 * time.Second
	// DefaultRetryMost is the longest of such waits, and so the longest time a
	// recovered hub is not used.
	DefaultRetryMost = 10 * time.Minute
	// DefaultMaxBody is the maximum size of a delivery (WS-SEC-03).
	DefaultMaxBody = 5 << 20

	maxHubs = 10 // of one Wish that are tried
)

// A Keeper stores one document, the state of a [Subscriber]. It contains
// secrets: only its owner may be able to read it.
type Keeper interface {
	// Load returns the document, or nil if there is none.
	Load(ctx context.Context) ([]byte, error)
	// Save replaces the document atomically; it is durable when Save returns.
	Save(ctx context.Context, document []byte) error
}

// SubscriberOptions configures a [Subscriber].
type SubscriberOptions struct {
	// Callback is the URL below which hubs reach the Handler. Its query, if any,
	// becomes part of every callback. Required.
	Callback string
	// Client sends requests to hubs, and to topics for discovery; default: an
	// http.Client with a timeout that may connect to any address.
	Client Doer
	State  Keeper // required
	// Deliver handles a message with a valid signature. The message is acknowledged
	// if Deliver returns nil, so it must be durable by then. Deliver may be called
	// concurrently, and repeatedly with the same message. Required.
	Deliver func(ctx context.Context, d Delivery) error
	// Rediscover is called before a renewal, and before failed hubs are tried
	// again, for the current topic and hubs (WS-L-06). A returned Wish without hubs
	// ends the subscription (WS-L-07); an error changes nothing. Default: Discover,
	// of the topic.
	Rediscover func(ctx context.Context, w Wish) (Wish, error)
	// OnEvent is called in order, never concurrently. It must not block, and must
	// not call methods of the Subscriber except Subscriptions. It may be nil.
	OnEvent func(SubscriberEvent)

	Lease         time.Duration // requested, at least a second; default: the hub decides (WS-S-03)
	Pending       time.Duration // how long a hub may take to verify; default DefaultPending
	RetryFirst    time.Duration // wait after a failed request, doubled each time; default DefaultRetryFirst
	RetryMost     time.Duration // longest of those waits; default DefaultRetryMost
	MaxBody       int64         // bytes of a delivery; default DefaultMaxBody
	RefuseSHA1    bool          // reject signatures made with sha1 (WS-X-08)
	NoPlainSecret bool          // send no secret to a hub that is reached without TLS (WS-S-04)
	NewSecrets    bool          // send a new secret with each renewal (WS-X-11)
	FreshCallback int           // change the callback with every nth renewal (WS-L-05); default: never
	KeepTrying    bool          // keep trying to unsubscribe at a hub that does not answer
	OldHubs       bool          // also send parameters of hubs older than the Recommendation (WS-OLD-05)
	UserAgent     string        // default "lockstep"
	Clock         func() time.Time
	Logger        *slog.Logger // default: discards
}

// A Wish is a subscription that a caller requests.
type Wish struct {
	ID    string   // chosen by the caller
	Topic string   // the self URL
	Hubs  []string // tried in this order, those reached over HTTPS first
}

// A Delivery is a message from a hub, with a valid signature if one was
// required. Without TLS only Body can be trusted: the signature covers nothing
// else (WS-X-09).
type Delivery struct {
	ID          string // of the Wish
	Topic       string // as subscribed to
	DeliveryID  string // the hub's ID of the message; "" if it sends none
	ContentType string
	Links       []string // values of the Link header fields
	Body        []byte
	At          time.Time // of receipt
}

// SubscriptionState is the state of a subscription.
type SubscriptionState struct {
	ID         string
	Topic      string
	Hub        string // the current hub; "" if none
	State      string // "active", "pending", "waiting" for a retry, "denied", "ending"
	Verified   time.Time
	Expires    time.Time // if active
	Next       time.Time // renewal, or next attempt
	Attempts   int       // failed, since the last success
	LastError  string    // of those, or the reason for a denial
	Deliveries int64     // accepted since the process started
	Duplicates int64     // acknowledged but not delivered
	Forged     int64
	Delivered  time.Time // time of the last delivery
}

// A Subscriber maintains subscriptions: it sends requests to hubs, confirms
// them, renews them, and verifies deliveries. Its state survives restarts. All
// methods are safe for concurrent use.
type Subscriber struct {
	opts    SubscriberOptions
	client  Doer
	base    *url.URL // of callbacks
	methods []string // accepted signing methods
	memory  atomic.Pointer[memory]
	turn    chan struct{}   // its holder may change the memory
	wake    chan struct{}   // makes Run check again
	seen    map[string]bool // Wishes of this process; guarded by turn

	reporting sync.Mutex // serializes events
	tallies   tallies
	busy      busyNames
	mu        sync.Mutex // guards updates
	updates   []*update  // waiting for their turn
}

// NewSubscriber returns a Subscriber, or an error that explains which option is
// invalid. It does nothing before its methods are called.
func NewSubscriber(o SubscriberOptions) (*Subscriber, error) {
	base, err := parseHTTP(o.Callback)
	if err != nil {
		return nil, fmt.Errorf("callback %s: %w", plain(o.Callback), err)
	}
	if base.User != nil {
		return nil, errors.New("callback: a user and password in the URL would be sent to every hub")
	}
	if o.State == nil || o.Deliver == nil {
		return nil, errors.New("a Subscriber needs State and Deliver")
	}
	if o.Lease < 0 || o.Pending < 0 || o.RetryFirst < 0 || o.RetryMost < 0 || o.MaxBody < 0 || o.FreshCallback < 0 {
		return nil, errors.New("lease, pending, waits, body limit and fresh callback cannot be negative")
	}
	o.Pending = cmp.Or(o.Pending, DefaultPending)
	o.RetryFirst = cmp.Or(o.RetryFirst, DefaultRetryFirst)
	o.RetryMost = max(cmp.Or(o.RetryMost, DefaultRetryMost), o.RetryFirst)
	o.MaxBody = cmp.Or(o.MaxBody, DefaultMaxBody)
	o.UserAgent = cmp.Or(o.UserAgent, defaultUserAgent)
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Subscriber{
		opts:    o,
		client:  doer(o.Client),
		base:    base,
		methods: Methods(),
		turn:    make(chan struct{}, 1),
		wake:    make(chan struct{}, 1),
		seen:    map[string]bool{},
	}
	if o.RefuseSHA1 {
		s.methods = s.methods[1:]
	}
	return s, nil
}

// callback returns the URL of the callback with that name.
func (s *Subscriber) callback(name string) string { return s.base.JoinPath(name).String() }

// Want records the Wish durably; Run fulfills it. A Wish that is already
// fulfilled stays as it is; after a change of topic or hubs, the new
// subscription replaces the old one once it works. The first Want of an ID in a
// process renews the subscription, because the hub may have forgotten it.
func (s *Subscriber) Want(ctx context.Context, w Wish) error {
	w, err := checkWish(w)
	if err != nil {
		return fmt.Errorf("subscribe %s: %w", printable(w.ID), err)
	}
	_, err = s.update(ctx, func(c *change) bool {
		changed := c.want(w)
		if !changed && s.seen[w.ID] {
			return false
		}
		s.seen[w.ID] = true
		c.hurry(w.ID)
		return true
	})
	s.poke()
	return err
}

// Retry rediscovers and asks the hubs of a Wish now, without waiting for the
// next attempt. Use it if there is reason to expect another answer than before.
// It does not touch working subscriptions, and respects a denial (WS-V-03).
func (s *Subscriber) Retry(ctx context.Context, id string) error {
	_, err := s.update(ctx, func(c *change) bool {
		w := c.Wishes[id]
		if w == nil || w.Dropped || w.Denied {
			return false
		}
		w.Next = time.Time{}
		for _, l := range c.of(id) {
			if l.State == pending {
				l.Next, l.Waiting = time.Time{}, false
			}
		}
		return true
	})
	s.poke()
	return err
}

// Renew renews working subscriptions of a Wish now, long before their time. Use
// it if there is reason to think that the hub has forgotten them.
func (s *Subscriber) Renew(ctx context.Context, id string) error {
	_, err := s.update(ctx, func(c *change) bool {
		w := c.Wishes[id]
		if w == nil || w.Dropped {
			return false
		}
		some := false
		for _, l := range c.of(id) {
			if l.State == active && !l.Waiting {
				l.Renew, some = s.opts.Clock(), true
			}
		}
		return some
	})
	s.poke()
	return err
}

// checkWish returns w in canonical form, or an error if it is invalid.
func checkWish(w Wish) (Wish, error) {
	if _, err := parseHTTP(w.Topic); err != nil {
		return w, fmt.Errorf("topic %s: %w", plain(w.Topic), err)
	}
	w.Topic, _, _ = strings.Cut(w.Topic, "#")
	var hubs []string
	for _, h := range w.Hubs {
		if _, err := parseHTTP(h); err != nil {
			return w, fmt.Errorf("hub %s: %w", plain(h), err)
		}
		hubs = appendNew(hubs, h)
	}
	if len(hubs) == 0 {
		return w, ErrNoHub
	}
	w.Hubs = securedFirst(hubs[:min(len(hubs), maxHubs)])
	return w, nil
}

// Drop durably records that a subscription is no longer needed; Run
// unsubscribes. From now on none of its messages are delivered.
func (s *Subscriber) Drop(ctx context.Context, id string) error {
	_, err := s.update(ctx, func(c *change) bool { return c.drop(id) })
	s.poke()
	return err
}

// DropAll calls Drop for every subscription, including those of an earlier
// process. It returns their number.
func (s *Subscriber) DropAll(ctx context.Context) (int, error) {
	n := 0
	_, err := s.update(ctx, func(c *change) bool {
		changed := false
		n = 0
		for id := range c.Wishes {
			n++
			changed = c.drop(id) || changed
			for _, l := range c.of(id) {
				if l.State == ending { // an earlier process did not succeed
					l.Attempts, l.Next, l.Waiting, changed = 0, time.Time{}, false, true
				}
			}
		}
		return changed
	})
	s.poke()
	return n, err
}

// CallbackOf returns the URL below which hubs reach a Subscriber with this state,
// as recorded in its newest subscription; "" if there is none.
func CallbackOf(ctx context.Context, state Keeper) (string, error) {
	document, err := state.Load(ctx)
	if err != nil {
		return "", err
	}
	m, err := readMemory(document)
	if err != nil {
		return "", err
	}
	var newest *subscription
	for _, l := range m.Subscriptions {
		if l.State != ended && l.Callback != "" && (newest == nil || l.Asked.After(newest.Asked)) {
			newest = l
		}
	}
	if newest == nil {
		return "", nil
	}
	u, err := url.Parse(newest.Callback)
	if err != nil {
		return "", fmt.Errorf("read state of subscriptions: %w", err)
	}
	u.Path, u.RawPath = strings.TrimSuffix(u.Path, newest.Name), ""
	return u.String(), nil
}

// Subscriptions returns the states of all subscriptions, ordered by ID; it
// returns none before the first call of another method.
func (s *Subscriber) Subscriptions() []SubscriptionState {
	m := s.memory.Load()
	if m == nil {
		return nil
	}
	var out []SubscriptionState
	for _, id := range slices.Sorted(maps.Keys(m.Wishes)) {
		w := m.Wishes[id]
		st := SubscriptionState{ID: id, Topic: w.Topic, State: "waiting", Next: w.Next, LastError: w.Error}
		if w.Denied {
			st.State = "denied"
		}
		if of := m.of(id); len(of) > 0 {
			l := of[0]
			st.Topic, st.Hub, st.State = l.Topic, l.hub(), l.State
			st.Verified, st.Next, st.Attempts = l.Verified, l.Next, l.Attempts
			st.LastError = cmp.Or(l.Error, w.Error)
			if l.State == active {
				st.Expires, st.Next, st.LastError = l.Expires, later(l.Renew, l.Next), l.Error
			}
		}
		s.tallies.of(id).into(&st)
		out = append(out, st)
	}
	return out
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// poke makes Run check again.
func (s *Subscriber) poke() {
	select {
	case s.wake <- struct{}{}:
	default: // it will anyway
	}
}
