package hub_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/hub"
	"lockstep/hub/hubstore"
)

// A shared store is one that several hubs use at a time.
type shared struct {
	*marked
	digests
	mu     sync.Mutex // guards what follows
	owners map[string]time.Time
	shards [hubstore.Shards]string
	lapsed int // claims that expired because their owner did not renew them in time
}

func newShared() *shared { return &shared{marked: newMarked(), owners: map[string]time.Time{}} }

// A member is one hub's handle of the shared store.
type member struct {
	*shared
	cut   atomic.Bool                   // all calls fail
	claim atomic.Pointer[chan struct{}] // not nil: claims wait until it is closed
	save  atomic.Pointer[chan struct{}] // not nil: new subscriptions wait until it is closed
	saves atomic.Int64                  // how many do
	lose  atomic.Bool                   // they fail then
}

var errCut = errors.New("the store is out of reach")

func (m *member) Claim(_ context.Context, owner string, want int, ttl time.Duration) (got []int, owners int, err error) {
	if m.cut.Load() {
		return nil, 0, errCut
	}
	if wait := m.claim.Load(); wait != nil {
		<-*wait
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for o, until := range m.owners {
		if until.Before(now) {
			delete(m.owners, o)
			m.lapsed++
		}
	}
	m.owners[owner] = now.Add(ttl)
	for pass := range 2 { // its own first
		for i, o := range m.shards {
			_, alive := m.owners[o]
			mine := o == owner
			switch {
			case mine && pass == 0 && len(got) == want:
				m.shards[i] = ""
			case mine && pass == 0, !mine && !alive && pass == 1 && len(got) < want:
				m.shards[i] = owner
				got = append(got, i)
			}
		}
	}
	return got, len(m.owners), nil
}

func (m *member) Release(_ context.Context, owner string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.owners, owner)
	return nil
}

func (m *member) News(ctx context.Context, mark int64) (map[string]int64, int64, error) {
	if m.cut.Load() {
		return nil, 0, errCut
	}
	return m.marked.News(ctx, mark)
}

func (m *member) Append(ctx context.Context, all []hubstore.Message) ([]int64, error) {
	if m.cut.Load() {
		return nil, errCut
	}
	return m.marked.Append(ctx, all)
}

func (m *member) Save(ctx context.Context, c hubstore.Changes) error {
	if m.cut.Load() {
		return errCut
	}
	if wait := m.save.Load(); wait != nil && len(c.Put) > 0 {
		m.saves.Add(1)
		<-*wait
		if m.lose.Load() {
			return errCut
		}
	}
	return m.Mem.Save(ctx, c)
}

// lapses returns how many claims were not renewed in time.
func (s *shared) lapses() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lapsed
}

// join starts one more hub.
func (s *shared) join(t *testing.T) (*running, *member) {
	t.Helper()
	m := &member{shared: s}
	r := runWith(t, m, hub.Options{}, func(h *hub.Hub) { h.ClaimFor(500 * time.Millisecond) })
	return r, m
}

// subscribeAt subscribes at the hub that owns the shard.
func subscribeAt(t *testing.T, callback string, hubs ...*running) {
	t.Helper()
	for range 6000 { // a minute
		for _, r := range hubs {
			_, err := r.SubscribeVerified(context.Background(), topicURL, callback, "", time.Hour, time.Now())
			if err == nil {
				return
			}
			if !errors.Is(err, hub.ErrNotReady) {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("no hub wants %s", callback)
}

// first returns each element of got once, at its first position.
func first(got []string) (all []string) {
	seen := map[string]bool{}
	for _, s := range got {
		if !seen[s] {
			all = append(all, s)
		}
		seen[s] = true
	}
	return all
}

// TestShare: hubs on one store divide the subscriptions, deliver messages that
// any of them accepts, and take over from a hub that stops, and from one that
// dies.
func TestShare(t *testing.T) {
	t.Parallel()
	s, store := newSink(t, nil), newShared()
	a, _ := store.join(t)
	const subscribers = 40
	for i := range subscribers / 2 {
		subscribeAt(t, fmt.Sprintf("%s/cb/%d", s.URL, i), a)
	}
	b, _ := store.join(t)
	eventually(t, "division by two", func() bool { return a.Shards() == 128 && b.Shards() == 128 })
	c, dying := store.join(t)
	eventually(t, "division by three", func() bool { return a.Shards() < 90 && b.Shards() < 90 && c.Shards() > 80 })
	for i := subscribers / 2; i < subscribers; i++ {
		subscribeAt(t, fmt.Sprintf("%s/cb/%d", s.URL, i), a, b, c)
	}
	complete := func(last int) {
		t.Helper()
		for i := range subscribers {
			path := fmt.Sprintf("/cb/%d", i)
			// The last one may be another: what a hub was sending when it lost its claim.
			eventually(t, path, func() bool { return slices.Contains(s.at(path), strconv.Itoa(last)) })
			if got := first(s.at(path)); !same(got, numbers(1, last)) {
				t.Errorf("%s: %v", path, got)
			}
		}
	}
	for i := range 10 {
		for j, r := range []*running{a, b, c} {
			r.publish(strconv.Itoa(3*i + j + 1))
		}
	}
	complete(30)
	for i := range subscribers { // no hub has ended or died yet
		if store.lapses() > 0 {
			t.Log("the machine was too busy to renew a claim: messages may come twice")
			break
		}
		if got := s.at(fmt.Sprintf("/cb/%d", i)); !same(got, numbers(1, 30)) {
			t.Errorf("subscriber %d: %v", i, got)
		}
	}
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	a.publish(numbers(31, 40)...)
	complete(40)
	dying.cut.Store(true)
	a.publish(numbers(41, 50)...)
	complete(50)
	if n := c.Stats().Subscriptions; n > 0 {
		t.Errorf("a hub out of reach goes on with %d subscriptions", n)
	}
	dying.cut.Store(false) // so that it can end
}

// TestShareLost: a subscription that a hub saves after it lost its shards, without
// knowing that yet, reaches the hub that has taken them over.
func TestShareLost(t *testing.T) {
	t.Parallel()
	s, store := newSink(t, nil), newShared()
	a, slow := store.join(t)
	eventually(t, "all shards", func() bool { return a.Shards() == hubstore.Shards })
	claim, save := make(chan struct{}), make(chan struct{})
	proceed := sync.OnceFunc(func() { close(claim) })
	t.Cleanup(proceed)
	slow.save.Store(&save)
	done := make(chan error, 1)
	go func() {
		_, err := a.SubscribeVerified(context.Background(), topicURL, s.URL+"/cb", "", time.Hour, time.Now())
		done <- err
	}()
	eventually(t, "the saving", func() bool { return slow.saves.Load() == 1 })
	slow.claim.Store(&claim)
	b, _ := store.join(t)
	eventually(t, "takeover", func() bool { return b.Shards() == hubstore.Shards })
	close(save)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	eventually(t, "the subscription at the new owner", func() bool { return b.Stats().Subscriptions == 1 })
	proceed()
	b.publish("1")
	eventually(t, "delivery", func() bool { return len(s.at("/cb")) > 0 })
}

// TestShareEnd: when a subscription is ended at one hub, no other hub delivers
// to it.
func TestShareEnd(t *testing.T) {
	t.Parallel()
	s, store := newSink(t, nil), newShared()
	a, _ := store.join(t)
	b, _ := store.join(t)
	eventually(t, "division", func() bool { return a.Shards() == 128 && b.Shards() == 128 })
	var keys []hubstore.Key
	for i := range 20 {
		callback := fmt.Sprintf("%s/cb/%d", s.URL, i)
		subscribeAt(t, callback, a, b)
		keys = append(keys, hubstore.KeyOf(topicURL, callback))
	}
	for _, key := range keys[1:] {
		if err := a.End(context.Background(), key); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the end", func() bool { return a.Stats().Subscriptions+b.Stats().Subscriptions == 1 })
	b.publish("1")
	eventually(t, "delivery", func() bool { return len(s.at("/cb/0")) == 1 })
	for i := 1; i < 20; i++ {
		if got := s.at(fmt.Sprintf("/cb/%d", i)); len(got) > 0 {
			t.Errorf("%d got %v", i, got)
		}
	}
}

// TestShareEndAfterAnError: a hub that could not read at once what another one has changed reads
// it later.
func TestShareEndAfterAnError(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"subscriptions", "changes"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s, store := newSink(t, nil), newShared()
			a, _ := store.join(t)
			weak := &unsteady{sharedStore: &member{shared: store}}
			b := runWith(t, weak, hub.Options{}, func(h *hub.Hub) { h.ClaimFor(500 * time.Millisecond) })
			eventually(t, "division", func() bool { return a.Shards() == 128 && b.Shards() == 128 })
			var key hubstore.Key
			for i := 0; b.Subscriptions() == 0; i++ {
				callback := fmt.Sprintf("%s/cb/%d", s.URL, i)
				subscribeAt(t, callback, a, b)
				key = hubstore.KeyOf(topicURL, callback)
			}
			weak.fail(what)
			if err := a.End(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the error", weak.failed)
			eventually(t, "the end", func() bool { return b.Subscriptions() == 0 })
		})
	}
}

// TestShareLostDuringVerification: a request whose shard is lost while the result of its verification is to be
// written is dropped by the hub that had the shard, and verified by the one that has it.
func TestShareLostDuringVerification(t *testing.T) {
	t.Parallel()
	answer := make(chan struct{})
	var asked atomic.Int64
	s, all := newSink(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		asked.Add(1)
		<-answer
		_, _ = w.Write([]byte(r.URL.Query().Get("hub.challenge")))
	}), newShared()
	weak, stored := &unsteady{sharedStore: &member{shared: all}}, newPause()
	a := runWith(t, weak, hub.Options{}, func(h *hub.Hub) {
		h.ClaimFor(500 * time.Millisecond)
		h.VerifyWaits(10 * time.Millisecond)
	})
	form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topicURL}, "hub.callback": {inUpperHalf(s.URL)}}
	if status := post(a, form); status != http.StatusAccepted {
		t.Fatalf("subscribe: %d", status)
	}
	eventually(t, "the question", func() bool { return asked.Load() == 1 })
	weak.stored.Store(stored)
	again := make(chan int, 1)
	go func() { again <- post(a, form) }()
	<-stored.reached
	close(answer) // the result waits for the second request
	b, _ := all.join(t)
	eventually(t, "division", func() bool { return a.Shards() == 128 && b.Shards() == 128 })
	close(stored.end)
	if status := <-again; status != http.StatusAccepted {
		t.Errorf("subscribe again: %d", status)
	}
	eventually(t, "the subscription", func() bool { return b.Subscriptions() == 1 })
	eventually(t, "nothing pending", func() bool {
		requests, _ := a.Pending()
		return requests == 0
	})
}

// inUpperHalf returns a callback at a server whose subscription to topicURL is given up when a second hub joins.
func inUpperHalf(server string) string {
	for i := 0; ; i++ {
		callback := fmt.Sprint(server, "/", i)
		if hubstore.KeyOf(topicURL, callback).Shard() >= hubstore.Shards/2 {
			return callback
		}
	}
}

// TestShareEndDuringTakeover: a subscription that is ended at a hub while that loads its shard does not come back.
func TestShareEndDuringTakeover(t *testing.T) {
	t.Parallel()
	all := newShared()
	a, _ := all.join(t)
	callback := inUpperHalf("http://127.0.0.1:1")
	subscribeAt(t, callback, a)
	weak, reading, stored := &unsteady{sharedStore: &member{shared: all}}, newPause(), newPause()
	b := runWith(t, weak, hub.Options{}, func(h *hub.Hub) { h.ClaimFor(500 * time.Millisecond) })
	weak.pause.Store(reading)
	<-reading.reached
	weak.stored.Store(stored)
	ended := make(chan error, 1)
	go func() { ended <- b.End(t.Context(), hubstore.KeyOf(topicURL, callback)) }()
	<-stored.reached
	close(reading.end)
	eventually(t, "the shards", func() bool { return b.Shards() == 128 })
	close(stored.end)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end", func() bool { return a.Subscriptions()+b.Subscriptions() == 0 })
}

// TestEndDuringRenewal: a subscription is in memory after its renewal if, and only if, it is in the store: also if its
// lease ended, or it was ended, while the renewal was being saved.
func TestEndDuringRenewal(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"lease": 1, "ended": 0, "not saved": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &member{shared: newShared()}
			r := runWith(t, store, hub.Options{}, func(*hub.Hub) {})
			const callback, lease = "http://127.0.0.1:1/", 2 * time.Second
			key, err := r.SubscribeVerified(t.Context(), topicURL, callback, "", lease, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			save, renewed, ended := make(chan struct{}), make(chan error, 1), make(chan error, 1)
			store.save.Store(&save)
			go func() {
				_, err := r.SubscribeVerified(context.Background(), topicURL, callback, "", time.Hour, time.Now())
				renewed <- err
			}()
			eventually(t, "the saving", func() bool { return store.saves.Load() == 1 })
			if time.Since(began) > lease {
				t.Skip("the machine is too busy")
			}
			switch name {
			case "lease":
				time.Sleep(2 * lease)
			case "ended":
				go func() { ended <- r.End(context.Background(), key) }()
				eventually(t, "the end", func() bool { return r.Subscriptions() == 0 })
			case "not saved":
				store.lose.Store(true)
			}
			close(save)
			if err := <-renewed; err != nil && name != "not saved" {
				t.Error(err)
			}
			store.lose.Store(false)
			if name == "ended" {
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
			time.Sleep(lease) // whatever has to be saved is saved
			eventually(t, "the rows", func() bool {
				rows := 0
				for range store.Mem.Subscriptions(context.Background(), -1) {
					rows++
				}
				return rows == want && r.Subscriptions() == want
			})
		})
	}
}
