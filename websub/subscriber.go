package websub

import (
	"context"
	"log/slog"
	"net/http"
	"time"
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

	Lease         time.Duration // wished for; default DefaultLease
	Pending       time.Duration // how long a hub may take to verify; default DefaultPending
	RetryFirst    time.Duration // wait after a request that failed, doubled each time; default DefaultRetryFirst
	RetryMost     time.Duration // longest of those waits; default DefaultRetryMost
	MaxBody       int64         // bytes of a delivery; default DefaultMaxBody
	RefuseSHA1    bool          // count signatures made with sha1 as wrong (WS-X-08)
	NoPlainSecret bool          // send no secret to a hub that is reached without TLS (WS-S-04)
	NewSecrets    bool          // send a new secret with each renewal (WS-X-11)
	FreshCallback int           // change the callback with every so many renewals (WS-L-05); default: never
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

// An EventKind says what happened to a subscription.
type EventKind string

// The kinds of events.
const (
	Verified EventKind = "verified" // a new subscription came to be
	Renewed  EventKind = "renewed"  // its lease was extended
	Denied   EventKind = "denied"   // the hub denied it, or ended it; Reason says why
	Refused  EventKind = "refused"  // a request was refused, or the hub cannot be reached; Reason says why
	Expired  EventKind = "expired"  // the lease ended, or nobody verified in time
	Ended    EventKind = "ended"    // unsubscribed
	Forged   EventKind = "forged"   // a delivery had no signature or a wrong one
	Weak     EventKind = "weak"     // a delivery was signed with sha1; said once for a subscription and process
	Unknown  EventKind = "unknown"  // something came for a callback that does not exist; nothing else is told
)

// A SubscriberEvent tells what happened to a subscription. It never holds a
// secret or a callback.
type SubscriberEvent struct {
	Kind    EventKind
	ID      string // of the Wish
	Topic   string
	Hub     string
	Reason  string
	Expires time.Time // end of the lease, of Verified and Renewed
	At      time.Time
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
	opts SubscriberOptions
}

// NewSubscriber returns a Subscriber, or an error in words if an option cannot
// be used. It does nothing before its methods are called.
func NewSubscriber(o SubscriberOptions) (*Subscriber, error) {
	return &Subscriber{opts: o}, nil
}

// Want records the wish, durably; Run sees to it. What is wanted already
// stays; another topic, or other hubs, take the place of those before once they
// work. The first Want of an ID in a process renews, for nobody knows what the
// hub remembers.
func (s *Subscriber) Want(ctx context.Context, w Wish) error { return nil }

// Drop records, durably, that a subscription is not wanted any more; Run
// unsubscribes. From now on nothing of it is delivered.
func (s *Subscriber) Drop(ctx context.Context, id string) error { return nil }

// Run asks, asks again, and renews until ctx ends.
func (s *Subscriber) Run(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// Handler answers hubs: verification, denial, delivery. It takes the last
// segment of a path for the name of a callback, whatever stands before it.
func (s *Subscriber) Handler() http.Handler { return http.NotFoundHandler() }

// Subscriptions returns how all subscriptions stand, ordered by ID.
func (s *Subscriber) Subscriptions() []SubscriptionState { return nil }
