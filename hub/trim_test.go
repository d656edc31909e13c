package hub_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/hub"
	"lockstep/hub/hubstore"
)

// kept returns the bodies of the topic's stored messages.
func kept(t testing.TB, s hubstore.Store) (all []string) {
	t.Helper()
	for m, err := range s.Log(context.Background(), topicURL, 0) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(m.Body))
	}
	return all
}

// TestTrim: messages delivered to all subscribers are kept for Keep, and can be
// replayed until then; messages that a subscriber lacks are kept.
func TestTrim(t *testing.T) {
	t.Parallel()
	var well atomic.Bool
	s := newSink(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		if r.URL.Path == "/ill" && !well.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	store := hubstore.NewMem()
	const keep = 300 * time.Millisecond
	r := run(t, store, hub.Options{Keep: keep, RetryFirst: 20 * time.Millisecond, RetryMost: 20 * time.Millisecond, RetryFor: time.Hour})
	r.subscribe(s.URL+"/well", "")
	published := time.Now()
	r.publish("1", "2")
	eventually(t, "delivery", func() bool { return len(s.at("/well")) == 2 })
	time.Sleep(keep / 3)
	if got := kept(t, store); len(got) != 2 && time.Since(published) < keep {
		t.Errorf("kept, for a while: %v", got)
	}
	eventually(t, "trimming", func() bool { return len(kept(t, store)) == 0 })
	r.subscribe(s.URL+"/ill", "")
	r.publish("3", "4")
	time.Sleep(600 * time.Millisecond)
	if got := kept(t, store); len(got) != 2 {
		t.Errorf("kept for who lacks it: %v", got)
	}
	well.Store(true)
	eventually(t, "delivery", func() bool { return same(s.at("/ill"), []string{"3", "4"}) })
	eventually(t, "trimming", func() bool { return len(kept(t, store)) == 0 })
	eventually(t, "the topic to say so", func() bool { // after the store
		l, _ := r.Log(topicURL)
		return l.First == 5 && l.Last == 4 && l.Bytes == 0
	})
	r.publish("5")
	eventually(t, "numbers to go on", func() bool { return same(s.at("/well"), []string{"1", "2", "3", "4", "5"}) })
}

// TestTrimBefore: messages from before the hub's start are trimmed in the same
// way.
func TestTrimBefore(t *testing.T) {
	t.Parallel()
	store := hubstore.NewMem()
	var old []hubstore.Message
	for i := range 50 {
		old = append(old, hubstore.Message{Topic: topicURL, ID: "x", Body: []byte("x"), At: time.Now().Add(time.Duration(i-40) * time.Hour)})
	}
	if _, err := store.Append(context.Background(), old); err != nil {
		t.Fatal(err)
	}
	run(t, store, hub.Options{Keep: time.Second})
	eventually(t, "trimming", func() bool { n := len(kept(t, store)); return 8 <= n && n <= 10 })
}

// TestForget: messages older than Forget are deleted even if a subscriber lacks
// them, so that a slow subscriber does not retain the log forever.
func TestForget(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	s := newSink(t, func(http.ResponseWriter, *http.Request, string) { <-hang })
	store := hubstore.NewMem()
	const forget = 400 * time.Millisecond
	r := run(t, store, hub.Options{Keep: 100 * time.Millisecond, RetryFor: 100 * time.Millisecond, Forget: forget})
	r.subscribe(s.URL+"/cb", "")
	began := time.Now()
	r.publish(numbers(1, 5)...)
	eventually(t, "forgetting", func() bool {
		got := kept(t, store)
		if took := time.Since(began); len(got) < 5 && took < forget {
			t.Fatalf("forgotten after %v: %v is left", took, got)
		}
		return len(got) == 0
	})
	close(hang)
	r.publish("6")
	eventually(t, "the next", func() bool { g := s.at("/cb"); return len(g) > 0 && g[len(g)-1] == "6" })
}

// TestForgotten: deleted messages that a subscriber lacks count as given up,
// and are skipped.
func TestForgotten(t *testing.T) {
	t.Parallel()
	s := newSink(t, nil)
	store := hubstore.NewMem()
	r := run(t, store, hub.Options{})
	key := r.subscribe(s.URL+"/cb", "")
	_ = r.stop()
	var backlog []hubstore.Message
	for _, n := range numbers(1, 9) {
		backlog = append(backlog, hubstore.Message{Topic: topicURL, ID: n, Body: []byte(n), At: time.Now()})
	}
	if _, err := store.Append(context.Background(), backlog); err != nil {
		t.Fatal(err)
	}
	if err := store.Trim(context.Background(), topicURL, 6); err != nil {
		t.Fatal(err)
	}
	r = run(t, store, hub.Options{})
	eventually(t, "what is left", func() bool { return same(s.at("/cb"), numbers(7, 9)) })
	if row, _ := r.Row(key); row.Progress.GivenUp != 6 || r.Stats().GivenUp != 6 {
		t.Errorf("%+v, %d in all", row.Progress, r.Stats().GivenUp)
	}
}

// TestFull: a topic with too many waiting messages accepts no more until there
// is room (WS-SEC-03).
func TestFull(t *testing.T) {
	t.Parallel()
	var well atomic.Bool
	s := newSink(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		if !well.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	r := run(t, hubstore.NewMem(), hub.Options{Keep: 50 * time.Millisecond, MaxLog: 10_000, RetryFirst: 20 * time.Millisecond, RetryMost: 20 * time.Millisecond})
	r.subscribe(s.URL+"/cb", "")
	body := strings.Repeat("x", 1000)
	for range 10 {
		r.publish(body)
	}
	m := hubstore.Message{Topic: topicURL, Body: []byte(body)}
	if _, err := r.Accept(context.Background(), m); !errors.Is(err, hub.ErrFull) {
		t.Errorf("11,000 bytes of 10,000: %v", err)
	}
	well.Store(true)
	eventually(t, "room", func() bool { _, err := r.Accept(context.Background(), m); return err == nil })
	eventually(t, "all", func() bool { return len(s.at("/cb")) == 11 })
}

// TestFullShared: so does a hub that shares its store, also if another one trims the logs.
func TestFullShared(t *testing.T) {
	t.Parallel()
	mem := newMarked()
	o := hub.Options{Keep: 50 * time.Millisecond, MaxLog: 10_000}
	run(t, half{marked: mem, digests: new(digests)}, o)
	r := run(t, half{marked: mem, digests: new(digests), odd: true}, o) // without shard 0, whose hub trims
	m := hubstore.Message{Topic: topicURL, Body: []byte(strings.Repeat("x", 1000))}
	for range 30 {
		eventually(t, "room", func() bool {
			_, err := r.Accept(context.Background(), m)
			return err == nil
		})
	}
	eventually(t, "the beginning of the log", func() bool {
		l, _ := r.Log(topicURL)
		return l.First == 31 && l.Bytes == 0
	})
}
