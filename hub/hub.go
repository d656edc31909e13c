package hub

import (
	"context"
	"crypto/cipher"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// landing is how long deliveries under way have to end when the hub ends.
const landing = 3 * time.Second

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
	started  time.Time

	changed chan struct{} // there is something to save
	hurried chan struct{} // at once
	poked   chan struct{} // there is something to wait for
	workers sync.WaitGroup

	mu        sync.Mutex // guards what follows
	registry  registry
	scheduler scheduler
	cache     cache
	flights   []*flight
	dirty     []*subscription // Progress is to be saved
	removing  map[Key]bool    // subscriptions that are over, their rows are to go
	sharing   sharing
	running   bool // between the end of loading and the end of Run

	saveTook time.Duration // of keepCursors alone
}

// New returns a Hub that keeps its memory in s. If s is a [Sharer], other hubs
// may use it at the same time.
func New(s Store, o Options) (*Hub, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	h := &Hub{
		store: s, opts: o, ready: make(chan struct{}), started: o.Clock(),
		changed: make(chan struct{}, 1), hurried: make(chan struct{}, 1), poked: make(chan struct{}, 1),
		registry: newRegistry(), scheduler: newScheduler(), removing: map[Key]bool{}, sharing: newSharing(),
	}
	h.sharer, _ = s.(Sharer)
	if h.aead, err = newSeal(o.Secret); err != nil {
		return nil, err
	}
	h.client = newClient(o)
	h.appends = newGroup(h.commitMessages)
	h.saves = newGroup(h.commitChanges)
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
	defer h.client.CloseIdleConnections()
	defer h.saves.close()
	defer h.appends.close()
	if err := h.load(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { h.watch(ctx); return nil })
	g.Go(func() error { h.tidy(ctx); return nil })
	if h.sharer != nil {
		g.Go(func() error { h.share(ctx); return nil })
	}
	if h.verifier != nil {
		g.Go(func() error { return h.verifier.run(ctx) })
	}
	keeping, kept := context.WithCancel(context.WithoutCancel(ctx)) // to the very end
	defer kept()
	var keeper sync.WaitGroup
	keeper.Go(func() { h.keepCursors(keeping) })
	h.mu.Lock()
	h.running = true
	h.spawn()
	h.mu.Unlock()
	close(h.ready)

	<-ctx.Done()
	h.mu.Lock()
	h.running = false
	h.mu.Unlock()
	h.appends.close()
	err := g.Wait()
	h.land(landing)
	kept()
	keeper.Wait()
	return errors.Join(err, h.finally())
}

// finally saves what is still to be saved when all else has ended.
func (h *Hub) finally() error {
	for {
		more, err := h.saveCursors()
		if err != nil {
			return fmt.Errorf("save progress: %w", err)
		}
		if !more {
			return h.release()
		}
	}
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
	for row, err := range h.store.Topics(ctx) {
		if err != nil {
			return fmt.Errorf("load topics: %w", err)
		}
		h.mu.Lock()
		t := h.registry.topic(row.URL)
		t.row, t.first, t.last, t.bytes, t.state = true, row.First, row.Last, row.Bytes, row.State
		t.ages.loaded = row.Last
		h.mu.Unlock()
	}
	if h.sharer != nil {
		if t := h.registry.topics[changesTopic]; t != nil {
			h.sharing.told = t.last
		}
		return h.claim(ctx)
	}
	if err := h.loadShards(ctx, -1); err != nil {
		return err
	}
	if h.verifier == nil {
		return nil
	}
	return h.verifier.load(ctx, allShards())
}

// loadShards takes the subscriptions of a shard into the registry, of all if it
// is negative.
func (h *Hub) loadShards(ctx context.Context, shard int) error {
	for row, err := range h.store.Subscriptions(ctx, shard) {
		if err != nil {
			return fmt.Errorf("load subscriptions: %w", err)
		}
		h.mu.Lock()
		if h.registry.find(row.Key) == nil {
			h.start(h.registry.add(row, &h.scheduler.lanes))
		}
		h.mu.Unlock()
	}
	return nil
}

// now returns the time as the hub's clock has it, to the microsecond as stores
// keep it.
func (h *Hub) now() time.Time { return h.opts.Clock().Round(0).Truncate(time.Microsecond) }
