// Package delivery is the delivery engine of a hub: it appends messages to the
// logs of their topics, and delivers them to the subscriptions of its shards.
//
// A subscription is a small state machine: it is idle, waits for its turn, has
// one delivery under way, or waits for the next attempt. Because only one
// delivery is under way, messages stay in order. A subscription has no goroutine
// of its own, and there is no record of a delivery, only the position of each
// subscription in the log of its topic.
//
// The parts of the engine share what is in memory, the registry, and its lock:
// one message changes a log, queues, alarms and deliveries at a time, which
// therefore cannot be packages of their own. Each part has one job and knows only
// the parts that it uses:
//
//	appender       stores messages and adds them to the logs in memory, and
//	               goes back where the store has lost messages
//	logs           reads messages, from memory or from the store
//	scheduler      decides which delivery is made next
//	deliverer      makes the deliveries whose turn it is
//	outcomes       records results: progress, retries, messages given up
//	watcher        handles what is due: retries, leases, slow deliveries
//	progressSaver  saves how far each subscription is
//	trimmer        deletes messages that are no longer needed
//	loader         fills the registry from the store
//	Members        creates, ends and replays subscriptions
//	Sharing        divides the subscriptions among several hubs
//	View           shows all this to operators
package delivery

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/hub/hubstore"
	"lockstep/hub/internal/post"
	"lockstep/hub/internal/refusal"
	"lockstep/hub/internal/tally"
	"lockstep/hub/internal/timing"
	"lockstep/hub/status"
)

// landing is how long deliveries under way may take to end when the hub shuts
// down.
const landing = 3 * time.Second

// Options are what an [Engine] needs.
type Options struct {
	Transport http.RoundTripper                                     // for callbacks
	Unseal    func(key hubstore.Key, sealed []byte) ([]byte, error) // decrypts the secret of a subscription
	Describe  func(t *status.Topic, state []byte)                   // adds what the further state of a topic says
	Pending   func() int                                            // requests that wait to be verified, for [View.Stats]
	Tally     *tally.Tally
	Clock     func() time.Time
	Logger    *slog.Logger

	PublicURL, UserAgent            string
	Method                          string // of signatures
	RetryFirst, RetryMost, RetryFor time.Duration
	Keep, Forget, Timeout           time.Duration
	MaxLog                          int64
}

// A ShardUser has work of its own for each shard, such as requests that wait to
// be verified.
type ShardUser interface {
	// Load is called before the engine is ready, and whenever the hub has gained
	// shards or some of its shards have new work.
	Load(ctx context.Context, shards []int) error
	// Unload is called when the hub has lost shards.
	Unload(shards []int)
	// Run works until ctx ends. Everything it started has ended when it returns.
	Run(ctx context.Context)
}

// An Engine accepts and delivers messages. [Engine.Run] does the work; the other
// parts may be used while it runs.
type Engine struct {
	Topics  *Topics
	Members *Members
	Sharing *Sharing
	View    *View

	registry  *registry
	saver     *saver
	progress  *progressSaver
	appender  *appender
	scheduler *scheduler
	deliverer *deliverer
	watcher   *watcher
	trimmer   *trimmer
	loader    *loader
}

// New returns an Engine that stores its state in s. If s is a
// [hubstore.Sharer], other hubs may use it at the same time.
func New(s hubstore.Store, o Options) *Engine {
	now := func() time.Time { return timing.Micros(o.Clock()) }
	grain := min(o.Keep, o.RetryFor) / ageShare
	alarms := newAlarmClock()
	r := newRegistry(alarms)
	e := &Engine{registry: r, scheduler: newScheduler(alarms, now), saver: newSaver(s, r)}
	e.progress = newProgressSaver(r, e.saver, o.Logger)
	results := &outcomes{
		scheduler: e.scheduler, progress: e.progress, alarms: alarms, tally: o.Tally, now: now,
		retry: retryPolicy{first: o.RetryFirst, most: o.RetryMost, patience: o.RetryFor},
	}
	poster := &post.Poster{
		Transport: o.Transport, Unseal: o.Unseal, Method: o.Method, PublicURL: o.PublicURL, UserAgent: o.UserAgent, Now: now,
	}
	messages := &logs{registry: r, store: s, header: poster.Header}
	e.deliverer = &deliverer{
		registry: r, scheduler: e.scheduler, logs: messages, outcomes: results, progress: e.progress, alarms: alarms,
		poster: poster, timeout: o.Timeout, now: now, log: o.Logger,
	}
	e.watcher = &watcher{registry: r, alarms: alarms, scheduler: e.scheduler, outcomes: results, deliverer: e.deliverer, now: now}
	e.appender = newAppender(appender{
		registry: r, store: s, logs: messages, scheduler: e.scheduler, deliverer: e.deliverer, tally: o.Tally,
		progress: e.progress, log: o.Logger, now: now, grain: grain, maxLog: o.MaxLog,
	})
	e.loader = &loader{
		store: s, registry: r, scheduler: e.scheduler, alarms: alarms, deliverer: e.deliverer,
		appender: e.appender, now: now, retryMost: o.RetryMost,
	}
	e.Sharing = newSharing(Sharing{
		store: s, registry: r, saver: e.saver, progress: e.progress, appender: e.appender, loader: e.loader,
		deliverer: e.deliverer, now: now, log: o.Logger,
	})
	e.Members = &Members{
		registry: r, saver: e.saver, progress: e.progress, outcomes: results, scheduler: e.scheduler,
		deliverer: e.deliverer, alarms: alarms, loader: e.loader, sharing: e.Sharing, now: now,
	}
	e.trimmer = &trimmer{
		store: s, registry: r, outcomes: results, sharing: e.Sharing,
		keep: o.Keep, forget: o.Forget, grain: grain, now: now, log: o.Logger,
	}
	e.Topics = &Topics{registry: r, appender: e.appender, saver: e.saver, sharing: e.Sharing}
	e.View = &View{registry: r, store: s, sharing: e.Sharing, tally: o.Tally, describe: o.Describe, pending: o.Pending}
	return e
}

// Lanes sets how many deliveries may be under way on the fast and the slow lane,
// for tests. Call it before Run.
func (e *Engine) Lanes(quick, slowly int) {
	e.scheduler.lanes[fast].limit, e.scheduler.lanes[slow].limit = quick, slowly
}

// Check returns [refusal.ErrNotReady] unless messages are accepted.
func (e *Engine) Check() error {
	e.registry.mu.Lock()
	defer e.registry.mu.Unlock()
	if !e.registry.open {
		return refusal.ErrNotReady
	}
	return nil
}

// Run loads the state, calls ready, and delivers messages until ctx ends. Then it
// saves the progress of all subscriptions and returns nil. users are called for
// the shards that the hub has.
func (e *Engine) Run(ctx context.Context, users []ShardUser, ready func()) error {
	defer e.saver.batches.Close()
	defer e.appender.batches.Close()
	e.Sharing.users = users
	if err := e.load(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, run := range []func(context.Context){e.watcher.run, e.trimmer.run, e.Sharing.run} {
		g.Go(func() error { run(ctx); return nil })
	}
	for _, u := range users {
		g.Go(func() error { u.Run(ctx); return nil })
	}
	keeping, kept := context.WithCancel(context.WithoutCancel(ctx)) // to the very end
	defer kept()
	var keeper sync.WaitGroup
	keeper.Go(func() { e.progress.run(keeping) })
	e.registry.mu.Lock()
	e.registry.open = true
	e.deliverer.spawn()
	e.registry.mu.Unlock()
	ready()

	<-ctx.Done()
	e.registry.mu.Lock()
	e.registry.open = false
	e.registry.mu.Unlock()
	e.appender.batches.Close()
	err := g.Wait()
	e.deliverer.land(landing)
	kept()
	keeper.Wait()
	if errSave := e.progress.finally(); errSave != nil {
		return errors.Join(err, errSave)
	}
	return errors.Join(err, e.Sharing.release())
}

// load fills the registry.
func (e *Engine) load(ctx context.Context) error {
	if err := e.loader.topics(ctx, nil); err != nil {
		return err
	}
	if e.Sharing.Shared() {
		return e.Sharing.start(ctx)
	}
	if err := e.loader.all(ctx); err != nil {
		return err
	}
	return e.Sharing.loadUsers(ctx, allShards())
}

// allShards returns the numbers of all shards.
func allShards() []int {
	all := make([]int, hubstore.Shards)
	for i := range all {
		all[i] = i
	}
	return all
}
