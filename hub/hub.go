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

	"lockstep/hub/hubstore"
	"lockstep/hub/internal/publisher"
	"lockstep/hub/internal/timing"
)

// landing is how long deliveries under way may take to end when the hub shuts
// down.
const landing = 3 * time.Second

var (
	// ErrNotReady reports that the hub has not loaded yet, or is shutting down.
	ErrNotReady = errors.New("hub is not running")
	// ErrFull reports that too many messages of the topic are waiting for delivery.
	// The hub accepts no more until some are delivered.
	ErrFull = errors.New("too many messages of the topic wait for delivery")
	// ErrNoSubscription reports that the subscription does not exist.
	ErrNoSubscription = errors.New("there is no such subscription")
)

// A verification is the part of the hub that asks callbacks to confirm requests.
// Run calls its methods: load before the hub is ready, and whenever the hub has
// gained shards or some of its shards have new requests; unload when it has lost
// some; run once.
type verification interface {
	load(ctx context.Context, shards []int) error
	unload(shards []int)
	run(ctx context.Context) error               // until ctx ends; everything it started has ended when it returns
	deny(s hubstore.Subscription, reason string) // notifies the subscriber that the subscription has ended (WS-V-02); does not wait
}

// A Hub accepts messages and delivers them to the subscribers of their topics.
// [Hub.Run] does the work; all other methods are safe for concurrent use while
// it runs.
//
// A subscription is a small state machine: it is idle, waits for its turn, has
// one delivery under way, or waits for the next attempt. Because only one
// delivery is under way, messages stay in order. A subscription has no goroutine
// of its own, and there is no record of a delivery, only the position of each
// subscription in the log of its topic.
type Hub struct {
	store       hubstore.Store
	sharer      hubstore.Sharer // nil: no other hub uses the store
	opts        Options
	client      *http.Client // for callbacks: no redirects, guarded dialling
	aead        cipher.AEAD
	verifier    verification // nil: none
	in          *accepting   // incoming HTTP requests
	intents     *intents     // the verifier
	pingFetcher *pingFetcher // pinged topics
	appends     *group[*appending]
	saves       *group[*saving]
	ready       chan struct{}
	tally       tally
	started     time.Time

	changed chan struct{} // progress has to be saved
	hurried chan struct{} // progress has to be saved at once
	poked   chan struct{} // there is a new alarm or delivery to wait for
	workers sync.WaitGroup

	mu        sync.Mutex // guards what follows
	registry  registry
	scheduler scheduler
	cache     cache
	flights   []*flight
	dirty     []*subscription       // their Progress has to be saved
	removing  map[hubstore.Key]bool // subscriptions that have ended and whose rows must be deleted
	sharing   sharing
	running   bool // from the end of loading to the end of Run

	saveTook time.Duration // used by keepCursors alone
}

// New returns a Hub that stores its state in s. If s is a [Sharer], other hubs
// may use it at the same time. New returns an error if o is contradictory or
// incomplete.
func New(s hubstore.Store, o Options) (*Hub, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	h := &Hub{
		store: s, opts: o, ready: make(chan struct{}), started: o.Clock(),
		changed: make(chan struct{}, 1), hurried: make(chan struct{}, 1), poked: make(chan struct{}, 1),
		registry: newRegistry(), scheduler: newScheduler(), removing: map[hubstore.Key]bool{}, sharing: newSharing(),
	}
	h.sharer, _ = s.(hubstore.Sharer)
	if h.aead, err = newSeal(o.Secret); err != nil {
		return nil, err
	}
	h.client = newClient(o)
	h.appends = newGroup(h.commitMessages)
	h.saves = newGroup(h.commitChanges)
	var shared publisher.Recorder
	if h.sharer != nil {
		shared = h.sharer
	}
	if h.in, err = newAccepting(o, h.started, shared); err != nil {
		return nil, err
	}
	if h.pingFetcher, err = newPingFetcher(h); err != nil {
		return nil, err
	}
	h.intents = newIntents(h)
	h.verifier = h.intents
	return h, nil
}

// Ready returns a channel that is closed when the hub has loaded. Until then it
// accepts no requests.
func (h *Hub) Ready() <-chan struct{} { return h.ready }

// Run loads the state, verifies requests and delivers messages until ctx ends.
// Then it saves the progress of all subscriptions and returns nil. Call it
// once.
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

// finally saves the remaining progress when all else has ended.
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
	all := make([]int, hubstore.Shards)
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
			h.sharing.changesRead = t.last
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

// loadShards loads the subscriptions of a shard into the registry, or of all
// shards if it is negative.
func (h *Hub) loadShards(ctx context.Context, shard int) error {
	for row, err := range h.store.Subscriptions(ctx, shard) {
		if err != nil {
			return fmt.Errorf("load subscriptions: %w", err)
		}
		h.mu.Lock()
		if h.registry.find(row.Key) == nil {
			h.start(h.registry.add(resumed(row, h.now(), h.opts.RetryMost), &h.scheduler.lanes))
		}
		h.mu.Unlock()
	}
	return nil
}

// now returns the time by the hub's clock.
func (h *Hub) now() time.Time { return timing.Micros(h.opts.Clock()) }

// resumed returns a subscription that an earlier process saved as this process
// continues it. A longer wait than most, the longest, means that the clock was set
// back since: then the next attempt is made now.
func resumed(row hubstore.Subscription, now time.Time, most time.Duration) hubstore.Subscription {
	p := &row.Progress
	row.Expires = timing.Anchored(row.Expires, now)
	p.Failing, p.Next = timing.Anchored(p.Failing, now), timing.Anchored(p.Next, now)
	if p.Next.Sub(now) > timing.Longest(most) {
		p.Next = now
	}
	return row
}
