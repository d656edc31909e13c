package hub

import (
	"context"
	"crypto/cipher"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

var (
	// ErrNotReady reports that the hub has not loaded yet, or is ending.
	ErrNotReady = errors.New("hub is not running")
	// ErrFull reports a topic whose messages wait in such numbers that no more
	// are accepted.
	ErrFull = errors.New("too many messages of the topic wait for delivery")
	// ErrNoSubscription reports that there is no such subscription.
	ErrNoSubscription = errors.New("there is no such subscription")
)

// A verification is the part of the hub that asks callbacks whether they mean
// it. Run calls its methods: load before the hub is ready, and whenever it has
// got more shards, or there are new requests in some that it has; unload when it
// has lost some; run once.
type verification interface {
	load(ctx context.Context, shards []int) error
	unload(shards []int)
	run(ctx context.Context) error      // until ctx ends; all that it starts has ended then
	deny(s Subscription, reason string) // tells the subscriber that it is over (WS-V-02); does not wait
}

// A Hub accepts messages and delivers them to who has subscribed. [Hub.Run] does
// the work; all other methods are safe for concurrent use meanwhile.
//
// A subscription is a small state machine: it has nothing to do, waits for its
// turn, has one delivery under way, or waits for the next attempt. That only one
// is under way is what keeps the order. There is no goroutine for each, and no
// record of a delivery: only how far each subscription has come in the log of
// its topic.
type Hub struct {
	store    Store
	sharer   Sharer // nil: the hub has the store for itself
	opts     Options
	client   *http.Client // for callbacks: no redirects, guarded dialling
	aead     cipher.AEAD
	verifier verification // nil: none
	in       *accepting   // what comes in over HTTP
	intents  *intents     // the verifier
	thin     *thin        // what was pinged
	appends  *group[*appending]
	saves    *group[*saving]
	ready    chan struct{}
	tally    tally

	mu       sync.Mutex // guards what follows
	registry registry
	running  bool // between the end of loading and the end of Run
}

// New returns a Hub that keeps its memory in s. If s is a [Sharer], other hubs
// may use it at the same time.
func New(s Store, o Options) (*Hub, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	h := &Hub{store: s, opts: o, ready: make(chan struct{})}
	h.sharer, _ = s.(Sharer)
	if h.aead, err = newSeal(o.Secret); err != nil {
		return nil, err
	}
	h.client = newClient(o)
	h.appends = newGroup(h.commitMessages)
	h.saves = newGroup(h.commitChanges)
	h.registry = newRegistry()
	if h.in, err = newAccepting(o); err != nil {
		return nil, err
	}
	if h.thin, err = newThin(h); err != nil {
		return nil, err
	}
	h.intents = newIntents(h)
	h.verifier = h.intents
	return h, nil
}

// Ready returns a channel that is closed when the hub has loaded: until then it
// accepts nothing.
func (h *Hub) Ready() <-chan struct{} { return h.ready }

// Run loads, verifies and delivers until ctx ends; then it returns nil, and how
// far all subscriptions have come is saved. It is called once.
func (h *Hub) Run(ctx context.Context) error {
	if err := h.load(ctx); err != nil {
		return err
	}
	if err := h.verifier.load(ctx, allShards()); err != nil {
		return err
	}
	h.mu.Lock()
	h.running = true
	h.mu.Unlock()
	close(h.ready)
	if err := h.verifier.run(ctx); err != nil { // until ctx ends
		return err
	}
	h.mu.Lock()
	h.running = false
	h.mu.Unlock()
	h.appends.close()
	h.saves.close()
	return nil
}

// allShards returns the numbers of all shards.
func allShards() []int {
	all := make([]int, Shards)
	for i := range all {
		all[i] = i
	}
	return all
}

// load fills the registry.
func (h *Hub) load(ctx context.Context) error {
	for t, err := range h.store.Topics(ctx) {
		if err != nil {
			return fmt.Errorf("load topics: %w", err)
		}
		h.mu.Lock()
		h.registry.loadTopic(t)
		h.mu.Unlock()
	}
	for s, err := range h.store.Subscriptions(ctx, -1) {
		if err != nil {
			return fmt.Errorf("load subscriptions: %w", err)
		}
		h.mu.Lock()
		h.registry.put(s)
		h.mu.Unlock()
	}
	return nil
}

// now returns the time as the hub's clock has it, to the microsecond as stores
// keep it.
func (h *Hub) now() time.Time { return h.opts.Clock().Round(0).Truncate(time.Microsecond) }
