package websub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	// DefaultRetryFirst is the wait after a request to a hub that failed: it may
	// just be restarting.
	DefaultRetryFirst = 5 * time.Second
	// DefaultRetryMost is the longest of such waits: what a hub that is back may
	// be without us.
	DefaultRetryMost = 10 * time.Minute
	// DefaultMaxBody is what a hub may deliver at a time (WS-SEC-03).
	DefaultMaxBody = 5 << 20

	maxHubs = 10 // of one wish that are tried
)

// A Keeper keeps one document, the memory of a [Subscriber]. It holds secrets:
// keep it where only its owner reads.
type Keeper interface {
	// Load returns the document, or nil if there is none.
	Load(ctx context.Context) ([]byte, error)
	// Save replaces the document; all or nothing, durable when it returns.
	Save(ctx context.Context, document []byte) error
}

// SubscriberOptions configures a [Subscriber].
type SubscriberOptions struct {
	// Callback is the URL below which hubs reach the Handler. It may have a
	// query, which every callback gets. Required.
	Callback string
	// Client sends requests to hubs, and to topics for discovery; default: an
	// http.Client with a timeout and no guard.
	Client Doer
	State  Keeper // required
	// Deliver takes a message whose signature is right; what it returned nil for
	// is acknowledged, so it must be durable by then. It may be called
	// concurrently, and with the same message again. Required.
	Deliver func(ctx context.Context, d Delivery) error
	// Rediscover is asked before a renewal, and before hubs that failed are
	// tried again, for where topic and hubs are now (WS-L-06). A Wish without
	// hubs ends the subscription (WS-L-07); an error changes nothing. Default:
	// Discover, of the topic.
	Rediscover func(ctx context.Context, w Wish) (Wish, error)
	// OnEvent is called in order, never concurrently. It must not block, and
	// calls no method of the Subscriber but Subscriptions. It may be nil.
	OnEvent func(SubscriberEvent)

	Lease         time.Duration // wished for, of at least a second; default: the hub decides (WS-S-03)
	Pending       time.Duration // how long a hub may take to verify; default DefaultPending
	RetryFirst    time.Duration // wait after a request that failed, doubled each time; default DefaultRetryFirst
	RetryMost     time.Duration // longest of those waits; default DefaultRetryMost
	MaxBody       int64         // bytes of a delivery; default DefaultMaxBody
	RefuseSHA1    bool          // count signatures made with sha1 as wrong (WS-X-08)
	NoPlainSecret bool          // send no secret to a hub that is reached without TLS (WS-S-04)
	NewSecrets    bool          // send a new secret with each renewal (WS-X-11)
	FreshCallback int           // change the callback with every so many renewals (WS-L-05); default: never
	KeepTrying    bool          // do not give up ending a subscription at a hub that does not answer
	OldHubs       bool          // send what hubs from before the Recommendation want to see, too (WS-OLD-05)
	UserAgent     string        // default "lockstep"
	Clock         func() time.Time
	Logger        *slog.Logger // default: discards
}

// A Wish is what a caller wants to be subscribed to.
type Wish struct {
	ID    string   // the caller's name for it
	Topic string   // the self URL
	Hubs  []string // tried in this order, those reached over HTTPS first
}

// A Delivery is a message a hub delivered, whose signature was right, if one
// was due. Without TLS nothing but Body can be trusted: the signature covers
// nothing else (WS-X-09).
type Delivery struct {
	ID          string // of the Wish
	Topic       string // that was subscribed to
	DeliveryID  string // the hub's name for the message; "" if it gives none
	ContentType string
	Links       []string // values of the Link header fields
	Body        []byte
	At          time.Time // of receipt
}

// SubscriptionState is how a subscription stands.
type SubscriptionState struct {
	ID         string
	Topic      string
	Hub        string // that it is with; "" if with none
	State      string // "active", "pending", "waiting" to try again, "denied", "ending"
	Verified   time.Time
	Expires    time.Time // of an active one
	Next       time.Time // renewal, or next try
	Attempts   int       // in vain, since the last success
	LastError  string    // of those, or why it was denied
	Deliveries int64     // that were accepted, since the process started
	Duplicates int64     // that were acknowledged and passed over
	Forged     int64
	Delivered  time.Time // the last one
}

// A Subscriber keeps subscriptions: it asks hubs, proves that it meant to,
// renews, and checks what is delivered. Its memory survives restarts. All
// methods are safe for concurrent use.
type Subscriber struct {
	opts    SubscriberOptions
	client  Doer
	base    *url.URL // of callbacks
	methods []string // of signing, that count
	memory  atomic.Pointer[memory]
	turn    chan struct{}   // held by who changes the memory
	wake    chan struct{}   // tells Run to look again
	seen    map[string]bool // wishes of this process; guarded by turn

	telling sync.Mutex        // one event at a time
	mu      sync.Mutex        // guards what follows
	updates []*update         // that wait for their turn
	tallies map[string]*tally // by ID of the wish
	busy    map[string]bool   // subscriptions for which a request is under way, by name
}

// NewSubscriber returns a Subscriber, or an error in words if an option cannot
// be used. It does nothing before its methods are called.
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
		tallies: map[string]*tally{},
		busy:    map[string]bool{},
	}
	if o.RefuseSHA1 {
		s.methods = s.methods[1:]
	}
	return s, nil
}

// callback returns the URL of the callback with that name.
func (s *Subscriber) callback(name string) string { return s.base.JoinPath(name).String() }

// Want records the wish, durably; Run sees to it. What is wanted already
// stays; another topic, or other hubs, take the place of those before once they
// work. The first Want of an ID in a process renews, for nobody knows what the
// hub remembers.
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

// Retry asks the hubs of a wish now, without waiting for its turn, and for
// where they are: for who has reason to think that they answer otherwise than
// before. What works is left alone, and a denial is heeded (WS-V-03).
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

// Renew renews what works of a wish now, long before its time: for who has reason
// to think that the hub has forgotten it.
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

// checkWish returns w as it is used, or why it cannot be.
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

// Drop records, durably, that a subscription is not wanted any more; Run
// unsubscribes. From now on nothing of it is delivered.
func (s *Subscriber) Drop(ctx context.Context, id string) error {
	_, err := s.update(ctx, func(c *change) bool { return c.drop(id) })
	s.poke()
	return err
}

// DropAll is Drop for every subscription there is, also of an earlier process. It
// returns how many there are.
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
// as the newest of its subscriptions has it; "" if there is none.
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

// Subscriptions returns how all subscriptions stand, ordered by ID; nothing
// before the first use of another method.
func (s *Subscriber) Subscriptions() []SubscriptionState {
	m := s.memory.Load()
	if m == nil {
		return nil
	}
	var out []SubscriptionState
	for id, w := range m.Wishes {
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
		s.tallyOf(id).into(&st)
		out = append(out, st)
	}
	slices.SortFunc(out, func(a, b SubscriptionState) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// poke tells Run to look again.
func (s *Subscriber) poke() {
	select {
	case s.wake <- struct{}{}:
	default: // it will
	}
}
