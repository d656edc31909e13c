package hub_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/hub"
	"lockstep/hub/hubstore"
)

// A moment is what is there between two writes of a hub.
type moment struct {
	held     *hubstore.Mem       // what the hub has written
	accepted []string            // messages that publishers know to be accepted
	since    map[string]int      // by callback: number of accepted messages when it knew that it was subscribed
	got      map[string][]string // by callback
}

// A watched store remembers the moment before each write.
type watched struct {
	*hubstore.Mem
	look func() *moment // all but held

	mu      sync.Mutex // held during a write, and guards moments
	moments []*moment
}

func (w *watched) Append(ctx context.Context, m []hubstore.Message) ([]int64, error) {
	defer w.remember(ctx)()
	return w.Mem.Append(ctx, m)
}

func (w *watched) Save(ctx context.Context, c hubstore.Changes) error {
	defer w.remember(ctx)()
	return w.Mem.Save(ctx, c)
}

// remember begins a write.
func (w *watched) remember(ctx context.Context) (end func()) {
	w.mu.Lock()
	time.Sleep(time.Millisecond) // so that an answer or a delivery before its time is noticed
	m := w.look()
	m.held = copyOf(ctx, w.Mem)
	w.moments = append(w.moments, m)
	return w.mu.Unlock
}

// copyOf returns a copy of a store of which nothing was trimmed.
func copyOf(ctx context.Context, s *hubstore.Mem) *hubstore.Mem {
	c, all := hubstore.NewMem(), hubstore.Changes{}
	for topic := range s.Topics(ctx) { // a store in memory has no errors
		var log []hubstore.Message
		for m := range s.Log(ctx, topic.URL, 0) {
			log = append(log, m)
		}
		_, _ = c.Append(ctx, log)
		all.Topics = append(all.Topics, topic)
	}
	for s := range s.Subscriptions(ctx, -1) {
		all.Put = append(all.Put, s)
	}
	for r := range s.Requests(ctx, -1) {
		all.Ask = append(all.Ask, r)
	}
	_ = c.Save(ctx, all)
	return c
}

// TestCutBetweenWrites ends a hub between any two writes, and continues with what it
// had written: whatever publishers know to be accepted by then arrives at every
// subscriber, in order (WS-C-12).
func TestCutBetweenWrites(t *testing.T) {
	t.Parallel()
	var healthy atomic.Bool
	var calls atomic.Int64
	s := newSink(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		if healthy.Load() {
			return
		}
		n := calls.Add(1)
		time.Sleep(time.Duration(n%4) * 2 * time.Millisecond) // so that positions differ
		if n%9 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	var mu sync.Mutex // guards accepted and since
	var accepted []string
	since := map[string]int{}
	store := &watched{Mem: hubstore.NewMem(), look: func() *moment {
		mu.Lock()
		defer mu.Unlock()
		m := &moment{accepted: slices.Clone(accepted), since: maps.Clone(since), got: map[string][]string{}}
		for path := range since {
			m.got[path] = s.at(path)
		}
		return m
	}}
	options := hub.Options{RetryFirst: 2 * time.Millisecond, RetryMost: 10 * time.Millisecond}
	r := run(t, store, options)
	const messages = 60
	for n := range messages {
		if n%12 == 0 {
			path := fmt.Sprint("/cb/", n)
			r.subscribe(s.URL+path, "secret")
			mu.Lock()
			since[path] = len(accepted)
			mu.Unlock()
		}
		body := strconv.Itoa(n)
		r.publish(body)
		mu.Lock()
		accepted = append(accepted, body)
		mu.Unlock()
	}
	eventually(t, "all", func() bool { return r.Stats().Behind == 0 })
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	healthy.Store(true)
	for i, m := range store.moments {
		before := map[string]int{}
		for path := range m.since {
			before[path] = len(s.at(path))
		}
		r := run(t, m.held, options)
		eventually(t, "all after a cut", func() bool { return r.Stats().Behind == 0 })
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		for path, from := range m.since {
			got := append(slices.Clone(m.got[path]), s.at(path)[before[path]:]...)
			if want := m.accepted[from:]; !inOrder(got, want) {
				t.Errorf("cut before write %d: %s got %v and then %v, want all of %v in order", i+1, path, m.got[path], got[len(m.got[path]):], want)
			}
		}
	}
	t.Logf("%d cuts", len(store.moments))
}

// inOrder reports whether got has all of want in this order, whatever else it has and
// however often.
func inOrder(got, want []string) bool {
	next := 0
	for _, body := range got {
		switch i := slices.Index(want, body); {
		case i > next:
			return false
		case i == next:
			next++
		}
	}
	return next == len(want)
}
