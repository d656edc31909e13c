package hub_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/hub"
	"lockstep/hub/hubstore"
)

// A half is a store in memory that two hubs share: each claims every other shard.
type half struct {
	*marked
	*digests
	odd bool
}

// A marked store is one in memory that has numbered its Appends, as a database does.
type marked struct {
	*hubstore.Mem
	mu      sync.Mutex // guards what follows
	appends int64
	last    map[string]int64 // the number of the last one, by topic
}

func newMarked() *marked { return &marked{Mem: hubstore.NewMem(), last: map[string]int64{}} }

func (x *marked) Append(ctx context.Context, messages []hubstore.Message) ([]int64, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	seqs, err := x.Mem.Append(ctx, messages)
	if err != nil {
		return nil, err
	}
	x.appends++
	for i := range messages {
		x.last[messages[i].Topic] = x.appends
	}
	return seqs, nil
}

func (x *marked) News(ctx context.Context, mark int64) (map[string]int64, int64, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	topics := map[string]int64{}
	for t, err := range x.Topics(ctx) {
		if err != nil {
			return nil, 0, err
		}
		if x.last[t.URL] > mark {
			topics[t.URL] = t.Last
		}
	}
	return topics, x.appends, nil
}

// changes is the log through which hubs notify each other.
const changes = "urn:x-lockstep:hub:changes"

// An unsteady store that hubs share fails once, when it is to.
type unsteady struct {
	sharedStore
	next     atomic.Pointer[string] // what fails; nil: nothing
	silent   atomic.Bool            // News fails
	failures atomic.Int64           // calls of News that did
	calls    atomic.Int64           // of News
	deaf     atomic.Bool            // the changes of other hubs cannot be read
	pause    atomic.Pointer[pause]  // of the next reading of the subscriptions of shards, once it has read them; nil: none
	stored   atomic.Pointer[pause]  // of the next Save of a request or a removal, once it is written; nil: none
}

type pause struct{ reached, end chan struct{} }

func newPause() *pause { return &pause{make(chan struct{}), make(chan struct{})} }

func (x *unsteady) News(ctx context.Context, mark int64) (map[string]int64, int64, error) {
	x.calls.Add(1)
	if x.silent.Load() {
		x.failures.Add(1)
		return nil, 0, errCut
	}
	return x.sharedStore.News(ctx, mark)
}

type sharedStore interface {
	hubstore.Store
	hubstore.Sharer
}

// fail has the next reading of the subscriptions of a shard, or of the changes of other hubs, fail.
func (x *unsteady) fail(what string) { x.next.Store(&what) }

func (x *unsteady) failed() bool { return x.next.Load() == nil }

func (x *unsteady) fails(what string) bool {
	next := x.next.Load()
	return next != nil && *next == what && x.next.CompareAndSwap(next, nil)
}

func (x *unsteady) Subscriptions(ctx context.Context, shard int) iter.Seq2[hubstore.Subscription, error] {
	if shard >= 0 && x.fails("subscriptions") {
		return func(yield func(hubstore.Subscription, error) bool) { yield(hubstore.Subscription{}, errCut) }
	}
	if p := x.pause.Swap(nil); p != nil {
		var rows []hubstore.Subscription
		for row := range x.sharedStore.Subscriptions(ctx, shard) {
			rows = append(rows, row)
		}
		close(p.reached)
		<-p.end
		return func(yield func(hubstore.Subscription, error) bool) {
			for _, row := range rows {
				if !yield(row, nil) {
					return
				}
			}
		}
	}
	return x.sharedStore.Subscriptions(ctx, shard)
}

func (x *unsteady) Save(ctx context.Context, c hubstore.Changes) error {
	err := x.sharedStore.Save(ctx, c)
	if len(c.Ask)+len(c.Remove) == 0 {
		return err
	}
	if p := x.stored.Swap(nil); p != nil {
		close(p.reached)
		<-p.end
	}
	return err
}

func (x *unsteady) Log(ctx context.Context, topic string, after int64) iter.Seq2[hubstore.Message, error] {
	if topic == changes && (x.deaf.Load() || x.fails("changes")) {
		return func(yield func(hubstore.Message, error) bool) { yield(hubstore.Message{}, errCut) }
	}
	return x.sharedStore.Log(ctx, topic, after)
}

// digests are the signed publications that any hub has accepted.
type digests struct{ seen sync.Map }

func (d *digests) Remember(_ context.Context, digest [sha256.Size]byte, until time.Time) (bool, error) {
	_, seen := d.seen.LoadOrStore(digest, true)
	return !seen && until.After(time.Now()), nil
}

func (d *digests) Forget(_ context.Context, digest [sha256.Size]byte) error {
	d.seen.Delete(digest)
	return nil
}

func (x half) Claim(context.Context, string, int, time.Duration) (shards []int, owners int, err error) {
	for i := range hubstore.Shards {
		if i%2 == 1 == x.odd {
			shards = append(shards, i)
		}
	}
	return shards, 2, nil
}

func (x half) Release(context.Context, string) error { return nil }

// TestTwoHubs tests that requests, publications and pings accepted by one hub
// are handled by the hub that owns the shard.
func TestTwoHubs(t *testing.T) {
	t.Parallel()
	mem := newMarked()
	one := start(t, half{marked: mem, digests: new(digests)}, nil)
	two := start(t, half{marked: mem, digests: new(digests), odd: true}, func(o *hub.Options) { o.PublicURL = one.url })
	p := publishPage(t, one.url, "text/plain", says("the topic"))
	var subs []*subscriber
	for i := range 20 {
		sub := subscribe(t, nil)
		site := []*site{one, two}[i%2]
		wantStatus(t, site.post(t, "hub.mode", "subscribe", "hub.topic", p.url, "hub.callback", sub.url), 202)
		subs = append(subs, sub)
	}
	for _, sub := range subs {
		sub.nextAsked(t)
	}
	eventually(t, "all subscribed", func() bool { return len(one.subscriptions(t)) == 20 && len(one.requests(t)) == 0 })
	two.publish(t, p.url, "text/plain", "published")
	one.ping(t, p.url)
	for i, sub := range subs {
		got := map[string]bool{string(sub.nextTaken(t).body): true}
		got[string(sub.nextTaken(t).body)] = true
		if want := fmt.Sprint(map[string]bool{"published": true, "the topic": true}); fmt.Sprint(got) != want {
			t.Errorf("subscriber %d got %v, want %s", i, got, want)
		}
	}
	for i, sub := range subs {
		wantStatus(t, []*site{two, one}[i/2%2].post(t, "hub.mode", "unsubscribe", "hub.topic", p.url, "hub.callback", sub.url), 202)
	}
	for _, sub := range subs {
		if q := sub.nextAsked(t); q.Get("hub.mode") != "unsubscribe" {
			t.Errorf("asked %v, want unsubscribe", q)
		}
	}
	eventually(t, "all ended", func() bool { return len(one.subscriptions(t)) == 0 && len(one.requests(t)) == 0 })
	one.publish(t, p.url, "text/plain", "to nobody")
	subs[0].quiet(t)
}

// TestRequestAtAnotherHubAfterAnError: a request that one hub has accepted is verified by the hub
// that owns its shard, also if that could not read it at once.
func TestRequestAtAnotherHubAfterAnError(t *testing.T) {
	t.Parallel()
	mem := newMarked()
	weak := &unsteady{sharedStore: half{marked: mem, digests: new(digests), odd: true}}
	one := start(t, half{marked: mem, digests: new(digests)}, nil)
	start(t, weak, func(o *hub.Options) { o.PublicURL = one.url })
	p := publishPage(t, one.url, "text/plain", says("the topic"))
	sub := subscribe(t, nil)
	for hubstore.KeyOf(p.url, sub.url).Shard()%2 == 0 { // until the other hub owns it
		sub = subscribe(t, nil)
	}
	weak.fail("subscriptions")
	wantStatus(t, one.post(t, "hub.mode", "subscribe", "hub.topic", p.url, "hub.callback", sub.url), 202)
	eventually(t, "the error", weak.failed)
	eventually(t, "the subscription", func() bool { return len(one.subscriptions(t)) == 1 })
}

// TestPublishedDuringVerification: what is published after a callback was asked is delivered to it once it has
// confirmed, whichever hub asks it.
func TestPublishedDuringVerification(t *testing.T) {
	t.Parallel()
	mem := newMarked()
	one := start(t, half{marked: mem, digests: new(digests)}, nil)
	two := start(t, half{marked: mem, digests: new(digests), odd: true}, func(o *hub.Options) { o.PublicURL = one.url })
	alone := start(t, hubstore.NewMem(), nil)
	for i := range 12 {
		asked, publisher := []*site{one, alone}[i%2], []*site{two, alone}[i%2]
		topic := fmt.Sprint(topicA, "/", i)
		sub := subscribe(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				publisher.publish(t, topic, "text/plain", topic)
			}
			echo(w, r)
		})
		wantStatus(t, asked.post(t, "hub.mode", "subscribe", "hub.topic", topic, "hub.callback", sub.url), 202)
		if got := string(sub.nextTaken(t).body); got != topic {
			t.Errorf("got %q, want %q", got, topic)
		}
	}
}

// A full store cannot add subscriptions, for as long as it is to.
type full struct {
	*hubstore.Mem
	is     atomic.Bool
	failed atomic.Int64
}

func (x *full) Save(ctx context.Context, c hubstore.Changes) error {
	if x.is.Load() && len(c.Put) > 0 {
		x.failed.Add(1)
		return errCut
	}
	return x.Mem.Save(ctx, c)
}

// TestPublishedBeforeSaving: what is published after a callback has confirmed is delivered to it, also if that could
// not be saved at once, so that the callback is asked again.
func TestPublishedBeforeSaving(t *testing.T) {
	t.Parallel()
	store := &full{Mem: hubstore.NewMem()}
	store.is.Store(true)
	s := start(t, store, nil)
	s.VerifyWaits(10 * time.Millisecond)
	s.publish(t, topicA, "text/plain", "before")
	sub := subscribe(t, nil)
	wantStatus(t, s.post(t, "hub.mode", "subscribe", "hub.topic", topicA, "hub.callback", sub.url), 202)
	for i := range 3 {
		before := store.failed.Load()
		eventually(t, "a failure", func() bool { return store.failed.Load() > before+1 })
		s.publish(t, topicA, "text/plain", fmt.Sprint(i))
	}
	store.is.Store(false)
	for i := range 3 {
		if got := string(sub.nextTaken(t).body); got != fmt.Sprint(i) {
			t.Errorf("got %q, want %d", got, i)
		}
	}
}

// TestVerifiedOnceTheStoreAnswers: a request is verified as soon as the store can be read again, however often it
// could not be.
func TestVerifiedOnceTheStoreAnswers(t *testing.T) {
	t.Parallel()
	store := &unsteady{sharedStore: &member{shared: newShared()}}
	s := start(t, store, nil)
	s.VerifyWaits(time.Millisecond, time.Millisecond, time.Millisecond)
	sub := subscribe(t, nil)
	store.silent.Store(true)
	wantStatus(t, s.post(t, "hub.mode", "subscribe", "hub.topic", topicA, "hub.callback", sub.url), 202)
	before := store.failures.Load()
	eventually(t, "ten failures", func() bool { return store.failures.Load() >= before+10 })
	sub.quiet(t)
	store.silent.Store(false)
	sub.nextAsked(t)
	eventually(t, "the subscription", func() bool { return len(s.subscriptions(t)) == 1 })
}

// TestReplacedDuringVerification: a request that one hub accepts while another verifies an earlier one of the same
// subscriber is verified afterwards, whatever the clocks of the hubs.
func TestReplacedDuringVerification(t *testing.T) {
	t.Parallel()
	for name, confirms := range map[string]bool{"the earlier one is confirmed": true, "the earlier one is to be asked again": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mem := newMarked()
			owner := &unsteady{sharedStore: half{marked: mem, digests: new(digests), odd: true}}
			one := start(t, half{marked: mem, digests: new(digests)}, func(o *hub.Options) {
				o.Clock = func() time.Time { return time.Now().Add(-time.Hour) }
			})
			two := start(t, owner, func(o *hub.Options) { o.PublicURL = one.url })
			two.VerifyWaits(10*time.Millisecond, 10*time.Millisecond, 10*time.Millisecond)
			var asked atomic.Int64
			answer := func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1) == 1 {
					again := one.post(t, "hub.mode", "subscribe", "hub.topic", topicA, "hub.callback", "http://"+r.Host+"/cb", "hub.lease_seconds", "7200")
					if again.StatusCode != http.StatusAccepted {
						t.Errorf("the second request: %d", again.StatusCode)
					}
					if !confirms {
						panic(http.ErrAbortHandler)
					}
				}
				w.Header().Set("Connection", "close") // on a reused connection the client would retry by itself
				echo(w, r)
			}
			sub := subscribe(t, answer)
			for hubstore.KeyOf(topicA, sub.url).Shard()%2 == 0 { // until that hub owns it
				sub = subscribe(t, answer)
			}
			owner.deaf.Store(true)
			wantStatus(t, two.post(t, "hub.mode", "subscribe", "hub.topic", topicA, "hub.callback", sub.url, "hub.lease_seconds", "3600"), 202)
			sub.nextAsked(t)
			if confirms {
				eventually(t, "the subscription", func() bool { return len(one.subscriptions(t)) == 1 })
			} else {
				sub.nextAsked(t)
			}
			owner.deaf.Store(false)
			eventually(t, "the second request", func() bool {
				all := one.subscriptions(t)
				return len(all) == 1 && time.Until(all[0].Expires) > 90*time.Minute && len(one.requests(t)) == 0
			})
		})
	}
}

// TestChangedDuringReload: what a hub changes in its subscriptions while it reads what others have changed is not undone.
func TestChangedDuringReload(t *testing.T) {
	t.Parallel()
	s, mem := newSink(t, nil), newMarked()
	store := &unsteady{sharedStore: half{marked: mem, digests: new(digests)}}
	r := run(t, store, hub.Options{})
	var key hubstore.Key
	callback := s.URL
	for i := 0; i == 0 || key.Shard()%2 == 1; i++ {
		callback = fmt.Sprint(s.URL, "/", i)
		key = hubstore.KeyOf(topicURL, callback)
	}
	during := func(change func()) {
		p := newPause()
		store.pause.Store(p)
		if _, err := mem.Append(t.Context(), []hubstore.Message{{Topic: changes, ID: "x", Body: []byte(key)}}); err != nil {
			t.Fatal(err)
		}
		<-p.reached
		change()
		before := store.calls.Load()
		close(p.end)
		eventually(t, "the end of the reading", func() bool { return store.calls.Load() > before+1 })
	}
	during(func() { r.subscribe(callback, "") })
	if n := r.Subscriptions(); n != 1 {
		t.Errorf("%d subscriptions, want the new one", n)
	}
	during(func() {
		if err := r.End(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	})
	if n := r.Subscriptions(); n != 0 {
		t.Errorf("%d subscriptions, want none", n)
	}
}

// pageIn publishes a page whose topic is in one of the shards that in accepts.
func pageIn(t *testing.T, hubURL string, body func() string, in func(shard int) bool) *page {
	for {
		if p := publishPage(t, hubURL, "text/plain", body); in(hubstore.KeyOf(p.url, "").Shard()) {
			return p
		}
	}
}

// TestPingsAtSeveralHubs: content that comes back is distributed again, whichever hubs were pinged.
func TestPingsAtSeveralHubs(t *testing.T) {
	t.Parallel()
	mem := newMarked()
	one := start(t, half{marked: mem, digests: new(digests)}, nil)
	two := start(t, half{marked: mem, digests: new(digests), odd: true}, func(o *hub.Options) { o.PublicURL = one.url })
	for _, remainder := range []int{0, 1} {
		var body atomic.Value
		body.Store("")
		p := pageIn(t, one.url, func() string { return body.Load().(string) }, func(shard int) bool { return shard%2 == remainder })
		sub := subscribe(t, nil)
		for hubstore.KeyOf(p.url, sub.url).Shard()%2 == 1 {
			sub = subscribe(t, nil)
		}
		one.subscribed(t, sub, p.url)
		for i, want := range []string{"first", "second", "first", "second", "second again"} {
			body.Store(want)
			[]*site{one, two}[i%2].ping(t, p.url)
			if got := string(sub.nextTaken(t).body); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	}
	eventually(t, "no pings left", func() bool { return len(one.requests(t)) == 0 })
}

// TestPingedHubEnds: a topic is fetched also if the hub that was pinged ends at once.
func TestPingedHubEnds(t *testing.T) {
	t.Parallel()
	mem := newMarked()
	one := start(t, half{marked: mem, digests: new(digests)}, nil)
	two := start(t, half{marked: mem, digests: new(digests), odd: true}, func(o *hub.Options) { o.PublicURL = one.url })
	ended := make(chan struct{})
	p := pageIn(t, one.url, func() string { <-ended; return "content" }, func(shard int) bool { return shard%2 == 0 })
	sub := subscribe(t, nil)
	for hubstore.KeyOf(p.url, sub.url).Shard()%2 == 1 {
		sub = subscribe(t, nil)
	}
	wantStatus(t, one.post(t, "hub.mode", "subscribe", "hub.topic", p.url, "hub.callback", sub.url), 202)
	eventually(t, "the subscription", func() bool { return one.Subscriptions() == 1 })
	two.ping(t, p.url)
	two.stop()
	close(ended)
	if got := string(sub.nextTaken(t).body); got != "content" {
		t.Errorf("got %q", got)
	}
}

// TestPingAfterTakeovers: a hub that takes a topic over knows which content was distributed last, also if it
// distributed another one before.
func TestPingAfterTakeovers(t *testing.T) {
	t.Parallel()
	all := newShared()
	one := start(t, &member{shared: all}, nil)
	var body atomic.Value
	body.Store("first")
	p := pageIn(t, one.url, func() string { return body.Load().(string) }, func(shard int) bool { return shard >= hubstore.Shards/2 })
	sub := subscribe(t, nil)
	one.subscribed(t, sub, p.url)
	pinged := func(want string) {
		t.Helper()
		body.Store(want)
		one.ping(t, p.url)
		if got := string(sub.nextTaken(t).body); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	pinged("first")
	two := start(t, &member{shared: all}, func(o *hub.Options) { o.PublicURL = one.url })
	eventually(t, "division", func() bool { return one.Shards() == 128 && two.Shards() == 128 })
	pinged("second")
	two.stop()
	eventually(t, "the shards", func() bool { return one.Shards() == hubstore.Shards })
	pinged("first")
}
