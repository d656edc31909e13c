// Package follow schedules the work that keeps a mirror in step with a Source: it
// applies notifications where they are available, and regularly reads the Source's
// documents in any case.
package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"lockstep/destination/internal/inbox"
	"lockstep/destination/internal/writebehind"
	"lockstep/destination/report"
	"lockstep/internal/fetch"
	"lockstep/websub"
)

// Channels by which a Follower receives changes of a set, best first.
const (
	ByHub     = "hub"
	ByEvents  = "events"
	ByPolling = "poll"
)

// turnFor is how long work for one set may take initially while others wait.
const turnFor = 10 * time.Second

// graceAfterCancel is how long an interrupted run may take to record the work it
// has finished.
const graceAfterCancel = 5 * time.Second

// Options configures a [Follower]. All fields are required, unless they say
// otherwise.
type Options struct {
	Poll      time.Duration // between pulls of a set without notifications
	Check     time.Duration // between pulls of a set with notifications
	Pause     time.Duration // first wait after a failure, and minimum time between pulls that notifications or failures cause
	PollMost  time.Duration // the most to which the time between pulls of a set without notifications grows while nothing changes; zero: Poll
	PauseMost time.Duration // the most to which waits after failures grow, also beyond Poll; zero: a minute, or Poll if that is less
	Callback  string        // URL at which hubs reach the Handler; "": not reachable
	Channel   string        // the only channel to use; "": the best available one

	Lease      time.Duration // lease requested from hubs; zero: the hub decides
	RefuseSHA1 bool          // deliveries signed with HMAC-SHA1 count as forged (WS-X-08)

	Client  *fetch.Client
	Log     *slog.Logger
	Journal *writebehind.Journal
	Allow   func(set, uri string) error // returns an error if a stream of a set must not be read

	// Turn is called before each piece of work, and blocks until it may begin. It returns
	// the context of the work and a function that is called when it has ended. If that
	// context ends with [ErrTurn] as its cause, the work is interrupted, and continued
	// after another call. It may be nil.
	Turn func(ctx context.Context, w Work) (context.Context, func())

	// OnSync is called with the result of each pass that applied something or failed.
	// It is never called concurrently. It may be nil.
	OnSync func(report.Report, error)

	// OnPass is called after each pull and each Look. It is never called concurrently. It
	// may be nil.
	OnPass func()
}

// Work is what a Follower has to do.
type Work struct {
	Urgent   bool         // notifications are applied
	Received func() int64 // returns the number of bytes that were received, of this work and before
}

// A Follower keeps a mirror in step with a Source for as long as it runs.
type Follower struct {
	opts     Options
	mirror   Mirror
	inbox    *inbox.Box
	reg      *registry
	channels *channels
	running  atomic.Bool
	ready    atomic.Bool // messages are accepted
	turnFor  time.Duration
}

// New returns a Follower of a mirror. It does not start any work: see
// [Follower.Run].
func New(m Mirror, o Options) (*Follower, error) {
	f := &Follower{opts: o, mirror: m, inbox: inbox.New(o.Journal), turnFor: turnFor}
	f.reg = &registry{opts: &f.opts, journal: o.Journal, inbox: f.inbox, wake: make(chan struct{}, 1), early: map[string][]*inbox.Message{}, limits: defaultLimits}
	f.channels = &channels{opts: &f.opts, reg: f.reg, wiring: make(chan struct{}, lookups)}
	if o.Callback == "" {
		return f, nil
	}
	if u, err := url.Parse(o.Callback); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Fragment != "" || u.User != nil {
		return nil, fmt.Errorf("callback %q: want an http or https URL without fragment", o.Callback)
	}
	var err error
	f.channels.sub, err = websub.NewSubscriber(websub.SubscriberOptions{
		Callback: o.Callback, Client: &Patient{o.Client}, State: Subscriptions{o.Journal},
		Deliver: f.deliver, Rediscover: f.channels.rediscover, OnEvent: f.channels.onSubscription,
		Lease: o.Lease, RetryFirst: o.Pause, RefuseSHA1: o.RefuseSHA1, Logger: o.Log,
	})
	return f, err
}

// SetTurn sets how long work for one set may take while others wait.
func (f *Follower) SetTurn(d time.Duration) { f.turnFor = d }

// SetLimits sets the limits of backlogs.
func (f *Follower) SetLimits(l Limits) {
	f.reg.mu.Lock()
	defer f.reg.mu.Unlock()
	f.reg.limits = l
}

// Handler serves the requests of hubs. It can be used before Run, and returns
// status 503 until then.
func (f *Follower) Handler() http.Handler {
	if f.channels.sub == nil {
		return http.NotFoundHandler()
	}
	handler := f.channels.sub.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !f.ready.Load() {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// deliver accepts a message from a hub: the message is durable when deliver
// returns.
func (f *Follower) deliver(ctx context.Context, d websub.Delivery) error {
	l := inbox.Mail{Set: d.ID, Topic: d.Topic, ID: d.DeliveryID, Type: d.ContentType, Links: d.Links, At: d.At, Body: d.Body}
	err := f.inbox.Put(ctx, l, f.reg.receive)
	if errors.Is(err, inbox.ErrFull) && f.reg.makeRoom() {
		err = f.inbox.Put(ctx, l, f.reg.receive)
	}
	return err
}

// Run brings the mirror into step and keeps it in step until ctx ends, and then
// returns nil soon. It returns an error at its start if the user's request is
// impossible, and later if the mirror cannot be written for a long time. It must
// not be called twice.
func (f *Follower) Run(ctx context.Context) error {
	if !f.running.CompareAndSwap(false, true) {
		return errors.New("the follower has run already")
	}
	ctx, stop := context.WithCancel(ctx)
	defer f.channels.started.Wait()
	defer stop()
	_, done := f.turn(ctx, false)
	err := f.inbox.Load(ctx, f.reg.receive)
	done()
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	if sub := f.channels.sub; sub != nil {
		f.channels.run(func() {
			if err := sub.Run(ctx); err != nil && ctx.Err() == nil {
				f.opts.Log.ErrorContext(ctx, "keep subscriptions", slog.Any("err", err))
			}
		})
	}
	f.ready.Store(true)
	defer f.ready.Store(false)
	err = f.work(ctx)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), graceAfterCancel)
	defer cancel()
	if lerr := f.leave(grace); err == nil {
		err = lerr
	}
	return err
}

// leave saves the state on shutdown.
func (f *Follower) leave(ctx context.Context) error {
	if err := f.mirror.Close(ctx); err != nil {
		return err
	}
	return f.opts.Journal.Flush(ctx)
}
