package delivery_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"iter"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/hub/hubstore"
	"lockstep/hub/internal/delivery"
	"lockstep/hub/internal/refusal"
	"lockstep/hub/internal/tally"
)

// A handedOver is a store whose shards all belong to another hub at first.
type handedOver struct {
	*hubstore.Mem
	ended  atomic.Bool // the other hub has ended
	failed atomic.Int64
}

func (s *handedOver) Claim(context.Context, string, int, time.Duration) (shards []int, owners int, err error) {
	if s.ended.Load() {
		for i := range hubstore.Shards {
			shards = append(shards, i)
		}
	}
	return shards, 1, nil
}

// Subscriptions fails once, for a shard in the middle.
func (s *handedOver) Subscriptions(ctx context.Context, shard int) iter.Seq2[hubstore.Subscription, error] {
	if shard == hubstore.Shards/2 && s.failed.Add(1) == 1 {
		return func(yield func(hubstore.Subscription, error) bool) {
			yield(hubstore.Subscription{}, errors.New("the database does not answer"))
		}
	}
	return s.Mem.Subscriptions(ctx, shard)
}

func (*handedOver) Release(context.Context, string) error { return nil }
func (*handedOver) News(context.Context, int64) (map[string]int64, int64, error) {
	return nil, 0, nil
}
func (*handedOver) Remember(context.Context, [sha256.Size]byte, time.Time) (bool, error) {
	return true, nil
}
func (*handedOver) Forget(context.Context, [sha256.Size]byte) error { return nil }

// A loadedShards is the further work of shards.
type loadedShards struct {
	mu   sync.Mutex // guards what follows
	from map[int]int
	fail bool // the next time
}

func (l *loadedShards) Load(_ context.Context, shards []int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail && len(shards) > 0 {
		l.fail = false
		return errors.New("the database does not answer, either")
	}
	for _, i := range shards {
		l.from[i]++
	}
	return nil
}

func (*loadedShards) Unload([]int)            {}
func (*loadedShards) Run(ctx context.Context) { <-ctx.Done() }

func (l *loadedShards) all() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.from) == hubstore.Shards
}

// TestShardsAreLoadedAfterAnError takes over all shards from a hub that has ended, while
// the store fails: the requests of all shards are loaded, too, in the end.
func TestShardsAreLoadedAfterAnError(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]bool{"subscriptions": false, "subscriptions, then requests": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &handedOver{Mem: hubstore.NewMem()}
			e := delivery.New(store, delivery.Options{
				Tally: new(tally.Tally), Clock: time.Now, Logger: slog.New(slog.DiscardHandler), Transport: http.DefaultTransport,
				RetryFirst: time.Second, RetryMost: time.Second, RetryFor: time.Hour, Keep: time.Hour, Forget: time.Hour, Timeout: time.Second, MaxLog: 1 << 20,
			})
			e.Sharing.ClaimFor(200 * time.Millisecond)
			loaded := &loadedShards{from: map[int]int{}}
			ctx, stop := context.WithCancel(t.Context())
			ended, ready := make(chan error, 1), make(chan struct{})
			go func() { ended <- e.Run(ctx, []delivery.ShardUser{loaded}, func() { close(ready) }) }()
			<-ready
			loaded.mu.Lock()
			loaded.fail = fail
			loaded.mu.Unlock()
			store.ended.Store(true)
			for end := time.Now().Add(time.Minute); !loaded.all(); time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					loaded.mu.Lock()
					t.Errorf("the requests of %d shards are loaded", len(loaded.from))
					loaded.mu.Unlock()
					break
				}
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// A slowStore needs a while to give a hub all shards, for as long as the hub asks.
type slowStore struct {
	handedOver
	takes time.Duration
	reads time.Duration // how long it needs to read subscriptions
	until time.Time     // by which another hub would take over
	late  bool          // it could have
}

func (s *slowStore) Claim(ctx context.Context, _ string, _ int, ttl time.Duration) (shards []int, owners int, err error) {
	select {
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	case <-time.After(s.takes):
	}
	s.late = s.late || !s.until.IsZero() && time.Now().After(s.until)
	s.until = time.Now().Add(ttl)
	return s.handedOver.Claim(ctx, "", 0, ttl)
}

// Subscriptions takes as long for no rows as for many.
func (s *slowStore) Subscriptions(ctx context.Context, shard int) iter.Seq2[hubstore.Subscription, error] {
	time.Sleep(s.reads)
	return s.handedOver.Subscriptions(ctx, shard)
}

// TestSlowStore: a hub gets its shards, and keeps them, where the store needs longer than usual for that.
func TestSlowStore(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]*slowStore{
		"slow answers":       {takes: 18 * time.Second, reads: 2 * time.Second}, // nine statements of 2 s
		"many subscriptions": {takes: time.Millisecond, reads: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { keepShards(t, store) })
		})
	}
}

func keepShards(t *testing.T, store *slowStore) {
	store.Mem = hubstore.NewMem()
	store.ended.Store(true)
	store.failed.Store(1) // not in this test
	e := delivery.New(store, delivery.Options{
		Tally: new(tally.Tally), Clock: time.Now, Logger: slog.New(slog.DiscardHandler), Transport: http.DefaultTransport,
		RetryFirst: time.Second, RetryMost: time.Second, RetryFor: time.Hour, Keep: time.Hour, Forget: time.Hour, Timeout: time.Second, MaxLog: 1 << 20,
	})
	ctx, stop := context.WithCancel(t.Context())
	ended, ready := make(chan error, 1), make(chan struct{})
	go func() { ended <- e.Run(ctx, nil, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	for range 600 {
		if n := e.Sharing.Owned(); n != hubstore.Shards {
			t.Fatalf("the hub has %d shards", n)
		}
		time.Sleep(time.Second)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if store.late {
		t.Error("another hub could have taken over")
	}
}

// A forgetful store has lost messages when its primary server was replaced: its mark is lower than
// one that it has returned. The hub is stopped while it asks.
type forgetful struct {
	handedOver
	stop context.CancelFunc
}

func (s *forgetful) News(_ context.Context, mark int64) (map[string]int64, int64, error) {
	if mark < 9 {
		return nil, 9, nil
	}
	s.stop()
	return nil, 3, nil
}

// TestStopAfterLoss: a hub ends that is stopped while it finds that the store has lost messages.
func TestStopAfterLoss(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	store := &forgetful{handedOver{Mem: hubstore.NewMem()}, stop}
	e := delivery.New(store, delivery.Options{
		Tally: new(tally.Tally), Clock: time.Now, Logger: slog.New(slog.DiscardHandler), Transport: http.DefaultTransport,
		RetryFirst: time.Second, RetryMost: time.Second, RetryFor: time.Hour, Keep: time.Hour, Forget: time.Hour, Timeout: time.Second, MaxLog: 1 << 20,
	})
	if err := e.Run(ctx, nil, func() {}); err != nil {
		t.Error(err)
	}
}

// A slowTakeover is a store that hands all shards over, and needs until proceed is closed to read them.
type slowTakeover struct {
	handedOver
	reading, proceed chan struct{}
}

func (s *slowTakeover) Subscriptions(ctx context.Context, shard int) iter.Seq2[hubstore.Subscription, error] {
	if s.ended.Load() && s.failed.Add(1) == 1 {
		close(s.reading)
		<-s.proceed
	}
	return s.Mem.Subscriptions(ctx, shard)
}

// TestRenewedDuringTakeover: a subscription that is renewed while its hub loads the shards of another one gets all
// messages from before.
func TestRenewedDuringTakeover(t *testing.T) {
	t.Parallel()
	const topic, callback = "https://source.example/topic", "https://subscriber.example/callback"
	store := &slowTakeover{handedOver: handedOver{Mem: hubstore.NewMem()}, reading: make(chan struct{}), proceed: make(chan struct{})}
	key := hubstore.KeyOf(topic, callback)
	row := hubstore.Subscription{Key: key, Topic: topic, Callback: callback, Created: time.Now(), Expires: time.Now().Add(time.Hour)}
	row.Progress.Next = row.Expires // it is not delivered to in this test
	if err := store.Save(t.Context(), hubstore.Changes{Put: []hubstore.Subscription{row}}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Append(t.Context(), []hubstore.Message{{Topic: topic, ID: "1", Body: []byte("x"), At: time.Now()}}); err != nil {
		t.Fatal(err)
	}
	e := delivery.New(store, delivery.Options{
		Tally: new(tally.Tally), Clock: time.Now, Logger: slog.New(slog.DiscardHandler), Transport: http.DefaultTransport,
		RetryFirst: time.Second, RetryMost: time.Hour, RetryFor: time.Hour, Keep: time.Hour, Forget: time.Hour, Timeout: time.Second, MaxLog: 1 << 20,
	})
	e.Sharing.ClaimFor(200 * time.Millisecond)
	ctx, stop := context.WithCancel(t.Context())
	ended, ready := make(chan error, 1), make(chan struct{})
	go func() { ended <- e.Run(ctx, nil, func() { close(ready) }) }()
	<-ready
	store.ended.Store(true)
	<-store.reading
	renew := func() error {
		request := hubstore.Request{Key: key, Mode: "subscribe", Topic: topic, Callback: callback, Lease: 2 * time.Hour, At: time.Now()}
		return e.Members.Subscribe(ctx, request, time.Now(), 1, true, func(join func()) { join() })
	}
	err := renew()
	close(store.proceed)
	for end := time.Now().Add(time.Minute); err != nil; err = renew() {
		if !errors.Is(err, refusal.ErrNotReady) || time.Now().After(end) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for row := range store.Mem.Subscriptions(t.Context(), -1) {
		if row.Progress.Cursor != 0 || time.Until(row.Expires) < time.Hour {
			t.Errorf("the subscription is at message %d and ends at %v", row.Progress.Cursor, row.Expires)
		}
	}
}

// TestLostBeforeJoining: a subscription whose shard is lost just before it is added is left to the new owner.
func TestLostBeforeJoining(t *testing.T) {
	t.Parallel()
	const topic, callback = "https://source.example/topic", "https://subscriber.example/callback"
	store := &handedOver{Mem: hubstore.NewMem()}
	store.ended.Store(true)
	store.failed.Store(1) // not in this test
	e := delivery.New(store, delivery.Options{
		Tally: new(tally.Tally), Clock: time.Now, Logger: slog.New(slog.DiscardHandler), Transport: http.DefaultTransport,
		RetryFirst: time.Second, RetryMost: time.Hour, RetryFor: time.Hour, Keep: time.Hour, Forget: time.Hour, Timeout: time.Second, MaxLog: 1 << 20,
	})
	e.Sharing.ClaimFor(200 * time.Millisecond)
	ctx, stop := context.WithCancel(t.Context())
	ended, ready := make(chan error, 1), make(chan struct{})
	go func() { ended <- e.Run(ctx, nil, func() { close(ready) }) }()
	<-ready
	request := hubstore.Request{Key: hubstore.KeyOf(topic, callback), Mode: "subscribe", Topic: topic, Callback: callback, Lease: time.Hour, At: time.Now()}
	err := e.Members.Subscribe(ctx, request, time.Now(), -1, true, func(join func()) {
		store.ended.Store(false)
		for e.Sharing.Owned() > 0 {
			time.Sleep(time.Millisecond)
		}
		join()
	})
	if err != nil {
		t.Error(err)
	}
	if n := e.Members.Count(); n > 0 {
		t.Errorf("%d subscriptions of another hub", n)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	var heard []string
	for m := range store.Log(t.Context(), "urn:x-lockstep:hub:changes", 0) {
		heard = append(heard, string(m.Body))
	}
	if len(heard) != 1 || heard[0] != string(request.Key) {
		t.Errorf("the new owner was notified of %q", heard)
	}
}

// A pausedStore does not answer claims while the hub is paused.
type pausedStore struct {
	handedOver
	pause atomic.Pointer[chan struct{}]
}

func (s *pausedStore) Claim(ctx context.Context, owner string, want int, ttl time.Duration) (shards []int, owners int, err error) {
	if pause := s.pause.Load(); pause != nil {
		<-*pause
	}
	return s.handedOver.Claim(ctx, owner, want, ttl)
}

// TestLapsedClaims: a hub that could not renew its claims in time does not end a subscription that another hub has
// renewed since, and continues with the state that this one has saved.
func TestLapsedClaims(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const topic, callback = "https://source.example/topic", "https://subscriber.example/callback"
		key := hubstore.KeyOf(topic, callback)
		store := &pausedStore{handedOver: handedOver{Mem: hubstore.NewMem()}}
		store.ended.Store(true)
		store.failed.Store(1) // not in this test
		put := func(lease time.Duration) {
			row := hubstore.Subscription{Key: key, Topic: topic, Callback: callback, Created: time.Now(), Expires: time.Now().Add(lease)}
			if err := store.Save(t.Context(), hubstore.Changes{Put: []hubstore.Subscription{row}}); err != nil {
				t.Fatal(err)
			}
		}
		put(14 * time.Second)
		e := delivery.New(store, delivery.Options{
			Tally: new(tally.Tally), Clock: time.Now, Logger: slog.New(slog.DiscardHandler), Transport: http.DefaultTransport,
			RetryFirst: time.Second, RetryMost: time.Second, RetryFor: time.Hour, Keep: time.Hour, Forget: time.Hour, Timeout: time.Second, MaxLog: 1 << 20,
		})
		ctx, stop := context.WithCancel(t.Context())
		ended, ready := make(chan error, 1), make(chan struct{})
		go func() { ended <- e.Run(ctx, nil, func() { close(ready) }) }()
		<-ready
		pause := make(chan struct{})
		store.pause.Store(&pause)
		time.Sleep(12 * time.Second)
		if e.Sharing.Owns(key) {
			t.Error("the hub owns a shard that another one may have loaded")
		}
		put(time.Hour)
		time.Sleep(4 * time.Second)
		store.pause.Store(nil)
		close(pause)
		time.Sleep(4 * time.Second)
		if s, ok := e.Members.Subscription(key); !ok || time.Until(s.Expires) < 30*time.Minute {
			t.Errorf("the hub has the subscription: %t, %v", ok, s.Expires)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		rows := 0
		for range store.Mem.Subscriptions(t.Context(), -1) {
			rows++
		}
		if rows != 1 {
			t.Error("the subscription was deleted")
		}
	})
}
