package hub

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/hub/hubstore"
	"lockstep/hub/internal/address"
	"lockstep/hub/internal/call"
	"lockstep/hub/internal/limit"
	"lockstep/hub/internal/timing"
	"lockstep/internal/fetch"
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
)

// verifyRate limits how often the hub asks a host that does not confirm: an
// answer that confirms costs nothing (WS-SEC-03).
var verifyRate = limit.Rate{Burst: 100, Per: 10}

// verifyWaits are the waits before a callback that could not be reached is
// asked again: all within five minutes (WS-I-04).
var verifyWaits = []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute}

// intents asks callbacks to confirm the requests made in their name (section
// 5.3 of the Recommendation). It is the [verification] of a hub.
type intents struct {
	h       *Hub
	calls   *call.Scheduler
	waits   []time.Duration // see verifyWaits
	denials atomic.Int64    // waiting to be sent
	failed  failures        // requests that callbacks did not confirm

	mu     sync.Mutex // guards what follows
	asks   map[hubstore.Key]*ask
	hosts  map[string]int // asks that are fresh, by Host
	topics map[string]int // asks, by topic
	tasks  sync.WaitGroup // the work started by calls
}

// A pending is a request that waits for its verification.
type pending struct {
	hubstore.Request
	target *url.URL
}

func newIntents(h *Hub) *intents {
	return &intents{
		h: h, waits: verifyWaits, calls: call.New(verifyInAll, verifyAtOne, verifyRate, h.opts.Clock),
		asks: make(map[hubstore.Key]*ask), hosts: make(map[string]int), topics: make(map[string]int),
	}
}

// accept stores a request durably and schedules its verification. A request to
// end a subscription that does not exist has no effect, and takes as long
// (WS-H-11).
func (v *intents) accept(ctx context.Context, r hubstore.Request, target *url.URL) error {
	a, err := v.hold(ctx, r, target)
	if err != nil {
		return err
	}
	defer v.release(r.Key, a)
	if r.Mode == websub.ModeUnsubscribe && !v.known(r.Key, a) {
		return v.h.save(ctx, hubstore.Changes{Settle: []hubstore.Key{r.Key}})
	}
	if err := v.h.save(ctx, hubstore.Changes{Ask: []hubstore.Request{r}}); err != nil {
		return err
	}
	if v.h.owns(r.Key) { // otherwise the owning hub has been notified
		v.put(a, &pending{Request: r, target: target})
	}
	return nil
}

// put makes p the newest request. A verification under way is completed first:
// the subscriber may have confirmed it already.
func (v *intents) put(a *ask, p *pending) {
	v.mu.Lock()
	defer v.mu.Unlock()
	a.newest = p
	if !a.asking {
		v.schedule(a)
	}
}

// schedule schedules the verification of newest, in place of an earlier one.
func (v *intents) schedule(a *ask) {
	a.round++
	key, round, r := a.newest.Key, a.round, call.Known
	if a.fresh {
		r = call.Unknown
	}
	v.calls.Add(a.newest.target, r, a.newest.Next, func(ctx context.Context) { v.carry(ctx, key, a, round) })
}

// load loads the stored requests of shards.
func (v *intents) load(ctx context.Context, shards []int) error {
	for _, shard := range shards {
		for r, err := range v.h.store.Requests(ctx, shard) {
			if err != nil {
				return fmt.Errorf("load requests: %w", err)
			}
			target, err := url.Parse(r.Callback)
			if err != nil {
				continue // another version of the hub accepted it
			}
			v.take(r, target)
		}
	}
	return v.h.pingFetcher.load(ctx, shards)
}

func (v *intents) take(r hubstore.Request, target *url.URL) {
	_, subscribed := v.h.subscription(r.Key)
	v.mu.Lock()
	defer v.mu.Unlock()
	a := v.asks[r.Key]
	if a == nil {
		a = v.open(r, address.Host(target), !subscribed)
	}
	if a.refs > 0 || a.newest != nil && !r.At.After(a.newest.At) {
		return
	}
	a.newest = &pending{Request: r, target: target}
	if !a.asking {
		v.schedule(a)
	}
}

// unload drops the requests of shards that now belong to another hub.
func (v *intents) unload(shards []int) {
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
	v.h.pingFetcher.unload(gone)
}

// run verifies requests until ctx ends.
func (v *intents) run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { v.h.pingFetcher.run(ctx) })
	v.calls.Run(ctx)
	v.tasks.Wait()
	wg.Wait()
	return nil
}

// A verdict is the result of asking a callback.
type verdict struct {
	sent   time.Time // the lease runs from here (WS-L-02)
	since  int64     // number of the topic's newest message at that time; negative: unknown
	err    error     // nil: confirmed
	again  bool      // it may be retried
	reason string    // the reason to deny the request with; empty: no denial
}

// carry has a request verified. Writing the result is left to a separate
// goroutine, so that the next call to the host can start.
func (v *intents) carry(ctx context.Context, key hubstore.Key, a *ask, round int) {
	v.mu.Lock()
	p := a.newest
	if p == nil || v.asks[key] != a || a.round != round || a.asking {
		v.mu.Unlock()
		return
	}
	a.asking = true
	v.mu.Unlock()
	o := v.verify(ctx, p)
	if ctx.Err() != nil {
		return // the hub is shutting down: it asks again after its restart
	}
	if o.err == nil {
		v.calls.Forgive(p.target)
	}
	v.mu.Lock()
	a.refs++
	v.mu.Unlock()
	v.tasks.Go(func() { v.conclude(ctx, key, a, p, o) })
}

// conclude writes the result of p. If there is a newer request by now, that
// remains pending.
func (v *intents) conclude(ctx context.Context, key hubstore.Key, a *ask, p *pending, o verdict) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timing.SaveTime)
	defer cancel()
	defer v.release(key, a)
	a.turn <- struct{}{}
	v.mu.Lock()
	superseded := a.newest != p
	v.mu.Unlock()
	done, err := v.write(ctx, a, p, o, superseded)
	if err != nil {
		v.h.opts.Logger.ErrorContext(ctx, "outcome of a verification not saved", slog.String("err", err.Error()))
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	a.asking = false
	if done && a.newest == p {
		a.newest = nil
	}
	if a.newest != nil {
		v.schedule(a)
	}
}

// write writes the result, and reports whether p is complete.
func (v *intents) write(ctx context.Context, a *ask, p *pending, o verdict, superseded bool) (done bool, err error) {
	switch {
	case o.err == nil:
		if p.Mode == websub.ModeSubscribe {
			err = v.h.subscribeSince(ctx, p.Request, o.sent, o.since, !superseded, func(join func()) {
				v.mu.Lock() // so that v.room counts it exactly once
				defer v.mu.Unlock()
				join()
				v.counted(a)
			})
		} else {
			err = v.h.endWith(ctx, p.Key, !superseded)
		}
		if err == nil {
			v.h.tally.verify(true)
			v.failed.forget(p.Key)
			v.log(slog.LevelDebug, "verified", p.Topic, p.Callback)
			return true, nil
		}
		p.Next = v.h.now().Add(v.waits[0])
		return false, err
	case superseded:
		return true, nil
	case o.again && p.Attempts < len(v.waits):
		p.Next = v.h.now().Add(timing.Jitter(v.waits[p.Attempts]))
		p.Attempts++
		v.fail(p, o.err, p.Attempts, p.Next)
		return false, v.h.save(ctx, hubstore.Changes{Ask: []hubstore.Request{p.Request}})
	}
	v.h.tally.verify(false)
	v.fail(p, o.err, p.Attempts+1, time.Time{})
	if o.reason != "" {
		v.deny(hubstore.Subscription{Topic: p.Topic, Callback: p.Callback}, o.reason)
	}
	// An existing subscription stays as it is (WS-H-07).
	return true, v.h.save(ctx, hubstore.Changes{Settle: []hubstore.Key{p.Key}})
}

// verify asks a callback (WS-I-01).
func (v *intents) verify(ctx context.Context, p *pending) verdict {
	if o, ok := v.advertised(ctx, p); !ok {
		return o
	}
	challenge := newChallenge()
	added := url.Values{"hub.mode": {p.Mode}, "hub.topic": {p.Topic}, "hub.challenge": {challenge}}
	if p.Mode == websub.ModeSubscribe {
		added.Set("hub.lease_seconds", strconv.FormatInt(int64(p.Lease/time.Second), 10))
	}
	if p.VerifyToken != "" {
		added.Set("hub.verify_token", p.VerifyToken) // WS-OLD-01
	}
	o := verdict{sent: v.h.now(), since: v.h.newest(p.Topic)}
	body, err := v.get(ctx, websub.VerificationURL(p.Callback, added), len(challenge)+1)
	switch status := (*statusError)(nil); {
	case err == nil && string(body) == challenge: // WS-I-04: exactly those bytes
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

// advertised checks that the topic names this hub, if CheckTopics is set and
// this is the first subscription to it (WS-SEC-05). It reports whether to
// continue.
func (v *intents) advertised(ctx context.Context, p *pending) (verdict, bool) {
	if !v.h.opts.CheckTopics || p.Mode != websub.ModeSubscribe || v.h.subscribed(p.Topic) {
		return verdict{}, true
	}
	if err := v.checkTopic(ctx, p.Topic); err != nil {
		return verdict{err: err, again: err.again, reason: err.text}, false
	}
	return verdict{}, true
}

// newest returns the number of the newest message of a topic. If other hubs may
// have accepted messages that this one does not know yet, it returns -1.
func (h *Hub) newest(topic string) int64 {
	if h.sharer != nil {
		return -1
	}
	t, _ := h.topic(topic)
	return t.Last // 0, if there is none
}

// A statusError reports an answer that confirms nothing.
type statusError struct{ status int }

func (e *statusError) Error() string { return fmt.Sprintf("status %d", e.status) }

// get calls a callback and returns the first most bytes of a 2xx answer. It
// follows no redirects.
func (v *intents) get(ctx context.Context, address string, most int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, min(verifyTime, v.h.opts.Timeout))
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, &statusError{} // not a URL
	}
	r.Header.Set("User-Agent", v.h.opts.UserAgent)
	resp, err := v.h.client.Do(r)
	if err != nil {
		return nil, withoutURL(err)
	}
	defer func() { _ = resp.Body.Close() }() // read as far as needed
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, &statusError{resp.StatusCode}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(most))) // WS-I-08
	return body, err
}

// withoutURL removes the address from an error of the client: paths of
// callbacks and challenges must not be logged (WS-SEC-07).
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

func newChallenge() string {
	b := make([]byte, challengeBytes)
	rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}

// logFailure logs a failed verification, as a warning once it is given up: from
// then on a party that requested messages gets none.
func (v *intents) logFailure(p *pending, reason string, attempts int, next time.Time) {
	level, more := slog.LevelWarn, []slog.Attr{slog.String("mode", p.Mode), slog.Int("attempt", attempts), slog.String("err", reason)}
	if !next.IsZero() {
		level, more = slog.LevelInfo, append(more, slog.Time("next", next))
	}
	v.log(level, "subscription request not verified", p.Topic, p.Callback, more...)
}

// log logs a message that names a callback by its host alone (WS-SEC-07).
func (v *intents) log(level slog.Level, message, topic, callback string, more ...slog.Attr) {
	lg := v.h.opts.Logger
	if !lg.Enabled(context.Background(), level) {
		return
	}
	host := ""
	if u, err := url.Parse(callback); err == nil {
		host = u.Host
	}
	more = append(more, slog.String("topic", fetch.Printable(topic)), slog.String("callback", fetch.Printable(host)))
	lg.LogAttrs(context.Background(), level, message, more...)
}
