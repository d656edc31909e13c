// Package verify asks callbacks to confirm the requests made in their name
// (section 5.3 of the WebSub Recommendation), and notifies subscribers of
// denials.
package verify

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/hub/hubstore"
	"lockstep/hub/internal/address"
	"lockstep/hub/internal/call"
	"lockstep/hub/internal/tally"
	"lockstep/hub/internal/timing"
	"lockstep/hub/status"
	"lockstep/internal/fetch"
	"lockstep/internal/ratelimit"
	"lockstep/websub"
)

const (
	// verifyTime caps how long a callback may take to answer (WS-I-08).
	verifyTime = 10 * time.Second
	// challengeBytes is the number of random bytes of a challenge (WS-I-02), which
	// has 32 characters.
	challengeBytes = 24
	// maxPending caps the requests that wait for verification, in all.
	maxPending = 100_000

	verifyInAll = 512
	verifyAtOne = 32
	checkAtOne  = 4 // of topics at one host
)

// verifyRate limits how often the hub asks a host that does not confirm, or whose topics
// do not name this hub: an answer that does costs nothing (WS-SEC-03).
var verifyRate = ratelimit.Rate{Burst: 100, Per: 10}

// verifyWaits are the waits before a callback that could not be reached is
// asked again: all within five minutes (WS-I-04).
var verifyWaits = []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute}

// Members are the verified subscriptions of a hub.
type Members interface {
	// Subscribe turns a verified request into a subscription, or renews the existing
	// one. The lease runs from sent, when the callback was asked. A new subscription
	// gets the messages after number since, if that is not negative. The request is
	// then complete if settle is true. The subscription exists when within calls
	// join.
	Subscribe(ctx context.Context, r hubstore.Request, sent time.Time, since int64, settle bool, within func(join func())) error
	// End ends the subscription that a request names, if it exists. The request is then
	// complete if settle is true.
	End(ctx context.Context, r hubstore.Request, settle bool) error
	// Has reports whether a subscription exists.
	Has(key hubstore.Key) bool
	// Counts returns the number of subscriptions, in all and with callbacks at the
	// host of callback, whatever the port.
	Counts(callback *url.URL) (all, atHost int)
}

// Shards are what a hub knows of the other hubs on the same store.
type Shards interface {
	// Shared reports whether there may be any.
	Shared() bool
	// Owns reports whether this hub handles a key.
	Owns(key hubstore.Key) bool
	// Save writes requests, and notifies the hubs that own them.
	Save(ctx context.Context, c hubstore.Changes) error
	// Subscribed reports whether a topic has subscribers among those of this hub.
	Subscribed(topic string) bool
	// Newest returns the number of the newest message of a topic; 0 if there is none.
	Newest(ctx context.Context, topic string) (int64, error)
}

// Options are what a [Verifier] needs.
type Options struct {
	Members Members
	Shards  Shards
	Stored  func(ctx context.Context, shard int) iter.Seq2[hubstore.Request, error] // the stored requests of a shard
	Pings   func(ctx context.Context, pings []hubstore.Request) error               // handles those that other hubs have accepted
	Names   func(ctx context.Context, topic string) (bool, error)                   // reports whether a topic names this hub; nil: topics are not checked (WS-SEC-05)
	Own     func(topic *url.URL) bool                                               // reports whether this process publishes a topic, which is not checked then
	Client  *http.Client                                                            // for callbacks: no redirects, guarded dialling
	Tally   *tally.Tally
	Clock   func() time.Time
	Logger  *slog.Logger

	Timeout, RetryFirst          time.Duration
	UserAgent                    string
	MaxSubscriptions, MaxPerHost int
}

// A Verifier asks callbacks to confirm the requests made in their name.
type Verifier struct {
	o       Options
	calls   *call.Scheduler // of callbacks
	checks  *call.Scheduler // of topics
	waits   []time.Duration // see verifyWaits
	denials atomic.Int64    // waiting to be sent
	report  *reporter
	caller  *caller

	mu     sync.Mutex // guards what follows
	asks   map[hubstore.Key]*ask
	hosts  map[string]int // asks that are fresh, by address.Host
	topics map[string]int // asks, by topic
	puts   int            // calls of put
	tasks  sync.WaitGroup // the work started by calls
}

// A pending is a request that waits for its verification.
type pending struct {
	hubstore.Request
	target   *url.URL
	canceled bool // it has no effect, also if the callback confirms it; guarded by Verifier.mu
	checked  bool // its topic names this hub; carry sets it, under Verifier.mu
}

// New returns a Verifier.
func New(o Options) *Verifier {
	timeout := min(verifyTime, o.Timeout)
	return &Verifier{
		report: &reporter{log: o.Logger, timeout: timeout, now: func() time.Time { return timing.Micros(o.Clock()) }},
		caller: &caller{client: o.Client, timeout: timeout, userAgent: o.UserAgent},
		o:      o, waits: verifyWaits, calls: call.New(verifyInAll, verifyAtOne, verifyRate, o.Clock),
		checks: call.New(verifyInAll, checkAtOne, verifyRate, o.Clock),
		asks:   make(map[hubstore.Key]*ask), hosts: make(map[string]int), topics: make(map[string]int),
	}
}

// Waits sets the waits before a callback that could not be reached is asked
// again, for tests. Call it before Run.
func (v *Verifier) Waits(d ...time.Duration) { v.waits = d }

// Failed returns the newest requests that callbacks did not confirm, the newest
// first.
func (v *Verifier) Failed() []status.FailedVerification { return v.report.failures.newest() }

// Pending returns how many requests wait to be verified, and at how many hosts
// that have not confirmed any.
func (v *Verifier) Pending() (requests, hosts int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.asks), len(v.hosts)
}

func (v *Verifier) now() time.Time { return timing.Micros(v.o.Clock()) }

// Accept stores a request durably and schedules its verification. A request to
// end a subscription that does not exist has no effect, and takes as long
// (WS-H-11).
func (v *Verifier) Accept(ctx context.Context, r hubstore.Request, target *url.URL) error {
	a, err := v.hold(ctx, r, target)
	if err != nil {
		return err
	}
	defer v.release(r.Key, a)
	if r.Mode == websub.ModeUnsubscribe && !v.known(r.Key, a) {
		return v.o.Shards.Save(ctx, hubstore.Changes{Settle: []hubstore.Request{r}})
	}
	if err := v.o.Shards.Save(ctx, hubstore.Changes{Ask: []hubstore.Request{r}}); err != nil {
		return err
	}
	if v.o.Shards.Owns(r.Key) { // otherwise the owning hub has been notified
		v.put(a, &pending{Request: r, target: target})
	}
	return nil
}

// put makes p the newest request. A verification under way is completed first:
// the subscriber may have confirmed it already.
func (v *Verifier) put(a *ask, p *pending) {
	v.mu.Lock()
	defer v.mu.Unlock()
	a.newest = p
	v.puts++
	a.put = v.puts
	if a.read != nil && !a.read.At.After(p.At) {
		a.read = nil
	}
	if !a.asking {
		v.schedule(a)
	}
}

// schedule schedules the next step of newest, in place of an earlier one: to ask its
// topic, if that is to be checked, or its callback.
func (v *Verifier) schedule(a *ask) {
	a.round++
	p, round, r := a.newest, a.round, call.Known
	if a.fresh {
		r = call.Unknown
	}
	if topic := v.unchecked(p); topic != nil {
		v.checks.Add(topic, r, p.Next, func(ctx context.Context) { v.carry(ctx, p.Key, a, round, v.check) })
		return
	}
	v.calls.Add(p.target, r, p.Next, func(ctx context.Context) { v.carry(ctx, p.Key, a, round, v.verify) })
}

// Load loads the stored requests of shards, and has pings among them handled.
func (v *Verifier) Load(ctx context.Context, shards []int) error {
	v.mu.Lock()
	puts := v.puts
	v.mu.Unlock()
	var pings []hubstore.Request
	for r, err := range hubstore.OfShards(ctx, shards, v.o.Stored, func(r *hubstore.Request) hubstore.Key { return r.Key }) {
		if err != nil {
			return fmt.Errorf("load requests: %w", err)
		}
		if r.Mode == websub.ModePublish {
			pings = append(pings, r)
			continue
		}
		target, err := url.Parse(r.Callback)
		if err != nil {
			continue // another version of the hub accepted it
		}
		v.take(r, target, puts)
	}
	return v.o.Pings(ctx, pings)
}

// take takes a request that was read from the store after that many calls of put. It is the newest one unless a later
// call has replaced it: hubs that accept requests with the same Key may have different clocks.
func (v *Verifier) take(r hubstore.Request, target *url.URL, puts int) {
	subscribed := v.o.Members.Has(r.Key)
	r.Next = timing.Due(r.Next, v.now(), slices.Max(append([]time.Duration{0}, v.waits...)))
	v.mu.Lock()
	defer v.mu.Unlock()
	a := v.asks[r.Key]
	if a == nil {
		a = v.open(r, address.Host(target), !subscribed)
	}
	switch p := (&pending{Request: r, target: target}); {
	case a.put > puts:
	case a.refs > 0:
		a.read = p
	case a.learn(p) && !a.asking:
		v.schedule(a)
	}
}

// Unload drops the requests of shards that now belong to another hub.
func (v *Verifier) Unload(shards []int) {
	gone := make(map[int]bool, len(shards))
	for _, s := range shards {
		gone[s] = true
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for key, a := range v.asks {
		if gone[key.Shard()] && a.refs == 0 {
			v.close(key, a)
		}
	}
}

// Run verifies requests until ctx ends; everything it started has ended when it
// returns.
func (v *Verifier) Run(ctx context.Context) {
	var checking sync.WaitGroup
	checking.Go(func() { v.checks.Run(ctx) })
	v.calls.Run(ctx)
	checking.Wait()
	v.tasks.Wait()
}

// A verdict is the result of asking a callback, or of asking a topic without success.
type verdict struct {
	sent   time.Time // the lease runs from here (WS-L-02)
	since  int64     // number of the topic's newest message at that time
	err    error     // nil: confirmed
	again  bool      // it may be retried
	unread bool      // the store could not be read, so the callback was not asked
	reason string    // the reason to deny the request with; empty: no denial
}

// carry makes one step of a verification. Writing the verdict is left to a separate
// goroutine, so that the next call to the host can start; without one, the next step follows.
func (v *Verifier) carry(ctx context.Context, key hubstore.Key, a *ask, round int, step func(context.Context, *pending) *verdict) {
	v.mu.Lock()
	p := a.newest
	if p == nil || v.asks[key] != a || a.round != round || a.asking {
		v.mu.Unlock()
		return
	}
	a.asking, a.asked = true, p
	v.mu.Unlock()
	o := step(ctx, p)
	if ctx.Err() != nil {
		return // the hub is shutting down: it asks again after its restart
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if o != nil {
		a.refs++
		v.tasks.Go(func() { v.conclude(ctx, key, a, p, *o) })
		return
	}
	p.checked, a.asking = true, false
	if a.newest != nil {
		v.schedule(a)
	}
}

// conclude writes the result of p. If there is a newer request by now, that
// remains pending.
func (v *Verifier) conclude(ctx context.Context, key hubstore.Key, a *ask, p *pending, o verdict) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timing.SaveTime)
	defer cancel()
	defer v.release(key, a)
	a.turn <- struct{}{}
	v.mu.Lock()
	superseded, canceled := a.newest != p, p.canceled
	v.mu.Unlock()
	done, err := canceled, error(nil)
	if !canceled && v.o.Shards.Owns(key) { // otherwise the hub that owns the shard now asks again
		done, err = v.write(ctx, a, p, o, superseded)
	}
	if err != nil {
		v.o.Logger.ErrorContext(ctx, "a verification is put off, as the store fails", slog.String("err", err.Error()))
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	a.asking = false
	if done && a.newest == p || !v.o.Shards.Owns(key) {
		a.newest = nil
	}
	if done && a.read != nil && a.read.At.Equal(p.At) {
		a.read = nil
	}
	if a.newest != nil {
		v.schedule(a)
	}
}

// write writes the result, and reports whether p is complete.
func (v *Verifier) write(ctx context.Context, a *ask, p *pending, o verdict, superseded bool) (done bool, err error) {
	switch {
	case o.err == nil:
		if a.since != nil { // messages may have been published because the callback had confirmed
			o.since = min(o.since, *a.since)
		}
		if p.Mode == websub.ModeSubscribe {
			a.since = &o.since
			err = v.o.Members.Subscribe(ctx, p.Request, o.sent, o.since, !superseded, func(join func()) {
				v.mu.Lock() // so that v.room counts it exactly once
				defer v.mu.Unlock()
				join()
				v.counted(a)
			})
		} else {
			err = v.o.Members.End(ctx, p.Request, !superseded)
		}
		if err == nil {
			a.since = nil
			v.o.Tally.Verify(true)
			v.report.failures.forget(p.Key)
			v.report.write(slog.LevelDebug, "verified", p.Topic, p.Callback)
			return true, nil
		}
		p.Next = v.now().Add(v.waits[0])
		return false, err
	case superseded:
		return true, nil
	case o.unread: // which is no attempt
		p.Next = v.now().Add(v.waits[0])
		return false, o.err
	case o.again && p.Attempts < len(v.waits):
		p.Next = v.now().Add(timing.Jitter(v.waits[p.Attempts]))
		p.Attempts++
		v.report.fail(p, o.err, p.Attempts, p.Next)
		return false, v.o.Shards.Save(ctx, hubstore.Changes{Ask: []hubstore.Request{p.Request}})
	}
	v.o.Tally.Verify(false)
	v.report.fail(p, o.err, p.Attempts+1, time.Time{})
	if o.reason != "" {
		v.Deny(hubstore.Subscription{Topic: p.Topic, Callback: p.Callback}, o.reason)
	}
	// An existing subscription stays as it is (WS-H-07).
	return true, v.o.Shards.Save(ctx, hubstore.Changes{Settle: []hubstore.Request{p.Request}})
}

// verify asks a callback (WS-I-01).
func (v *Verifier) verify(ctx context.Context, p *pending) *verdict {
	challenge := newChallenge()
	added := url.Values{"hub.mode": {p.Mode}, "hub.topic": {p.Topic}, "hub.challenge": {challenge}}
	if p.Mode == websub.ModeSubscribe {
		added.Set("hub.lease_seconds", strconv.FormatInt(int64(p.Lease/time.Second), 10))
	}
	if p.VerifyToken != "" {
		added.Set("hub.verify_token", p.VerifyToken) // WS-OLD-01
	}
	since, err := v.o.Shards.Newest(ctx, p.Topic)
	if err != nil {
		return &verdict{err: err, unread: true}
	}
	o := &verdict{sent: v.now(), since: since}
	body, err := v.caller.get(ctx, websub.VerificationURL(p.Callback, added), len(challenge)+1)
	switch status := (*statusError)(nil); {
	case err == nil && string(body) == challenge: // WS-I-04: exactly those bytes
		v.calls.Forgive(p.target)
	case err == nil:
		o.err = errWrongChallenge
	case errors.As(err, &status):
		o.err = err
	default:
		var address *fetch.AddressError
		o.err, o.again = err, !errors.As(err, &address)
	}
	return o
}

func newChallenge() string {
	b := make([]byte, challengeBytes)
	rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}
