package hub_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/hub"
	"lockstep/hub/hubstore"
	"lockstep/internal/freeport"
)

// TestRetry: a failed attempt is repeated, with waits that double, until it
// succeeds; order and message ID do not change, and only success counts as
// delivery (WS-C-08, WS-C-09, WS-C-11).
func TestRetry(t *testing.T) {
	t.Parallel()
	const fails, first = 5, 40 * time.Millisecond
	var mu sync.Mutex
	var at []time.Time
	ids := map[string]bool{}
	s := newSink(t, func(w http.ResponseWriter, r *http.Request, body string) {
		mu.Lock()
		defer mu.Unlock()
		if body != "1" {
			return
		}
		ids[r.Header.Get("Hub-Delivery-Id")] = true
		if at = append(at, time.Now()); len(at) <= fails {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	r := run(t, hubstore.NewMem(), hub.Options{RetryFirst: first, RetryMost: 4 * first})
	key := r.subscribe(s.URL+"/cb", "")
	r.publish(numbers(1, 5)...)
	eventually(t, "failure", func() bool {
		row, _ := r.Row(key)
		p := row.Progress
		return p.Attempts > 0 && !p.Failing.IsZero() && p.LastError == "answered 500 Internal Server Error" && p.Cursor == 0
	})
	waits := []time.Duration{first, 2 * first, 4 * first, 4 * first, 4 * first}
	eventually(t, "all", func() bool {
		row, _ := r.Row(key)
		if p := row.Progress; p.Attempts > 0 && time.Until(p.Next) > waits[p.Attempts-1]*12/10+time.Millisecond {
			t.Fatalf("attempt %d is to be repeated in %v, want %v more or less", p.Attempts, time.Until(p.Next), waits[p.Attempts-1])
		}
		return len(s.at("/cb")) == 5 && r.Stats().Delivered == 5 // the hub records it after the subscriber
	})
	if got := s.at("/cb"); !same(got, numbers(1, 5)) || len(ids) != 1 {
		t.Errorf("got %v with ids %v", got, ids)
	}
	for i, wait := range waits {
		if got := at[i+1].Sub(at[i]); got < wait*8/10 || got > 30*time.Second { // at most what is checked above, and the delays of a loaded machine
			t.Errorf("wait %d is %v, want %v more or less", i, got, wait)
		}
	}
	row, _ := r.Row(key)
	if p := row.Progress; p.Attempts != 0 || !p.Failing.IsZero() || p.LastError != "" || p.Taken != 5 || p.Cursor != 5 {
		t.Errorf("in the end: %+v", p)
	}
	if got := r.Stats(); got.Failed != fails || got.Delivered != 5 {
		t.Errorf("%d failed, %d delivered", got.Failed, got.Delivered)
	}
}

// TestFailures: which answers are failures, and that redirects are not followed
// (WS-C-08).
func TestFailures(t *testing.T) {
	t.Parallel()
	var followed atomic.Int32
	s := newSink(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		if r.URL.Path == "/target" {
			followed.Add(1)
			return
		}
		if r.URL.Path == "/hang" {
			<-r.Context().Done()
			return
		}
		if r.URL.Path == "/reset" {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Location", "/target")
		var status int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &status); err != nil {
			t.Error(err)
		}
		w.WriteHeader(status)
	})
	r := run(t, hubstore.NewMem(), hub.Options{RetryFirst: time.Hour, RetryMost: time.Hour, Timeout: 2 * time.Minute})
	keys := map[string]hubstore.Key{}
	for _, path := range []string{"301", "302", "307", "308", "304", "400", "404", "500", "503", "reset"} {
		keys[path] = r.subscribe(s.URL+"/"+path, "")
	}
	for _, path := range []string{"200", "202", "204", "299"} {
		r.subscribe(s.URL+"/"+path, "")
	}
	r.publish("1")
	failed := func(r *running, path string, key hubstore.Key) (p hubstore.Progress) {
		t.Helper()
		eventually(t, path, func() bool {
			row, _ := r.Row(key)
			p = row.Progress
			return p.Attempts == 1
		})
		return p
	}
	for path, key := range keys {
		failed(r, path, key)
	}
	for _, path := range []string{"200", "202", "204", "299"} {
		eventually(t, path, func() bool { return len(s.at("/"+path)) == 1 })
	}
	// A hub of its own, as on a loaded machine the others take longer, too.
	r = run(t, hubstore.NewMem(), hub.Options{RetryFirst: time.Hour, RetryMost: time.Hour, Timeout: 300 * time.Millisecond})
	key := r.subscribe(s.URL+"/hang", "")
	r.publish("1")
	if p := failed(r, "hang", key); p.LastError != "no answer within 300ms" {
		t.Errorf("no answer: %q", p.LastError)
	}
	if followed.Load() > 0 {
		t.Error("a redirect was followed")
	}
}

// TestRetryAfter: the hub honors Retry-After, up to the longest wait (WS-C-09).
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for asked, want := range map[string]struct{ wait, most time.Duration }{"1": {time.Second, time.Hour}, "100000": {1500 * time.Millisecond, 1500 * time.Millisecond}} {
		t.Run(asked, func(t *testing.T) {
			t.Parallel()
			times := make(chan time.Time, 10)
			s := newSink(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
				if times <- time.Now(); len(times) == 1 {
					w.Header().Set("Retry-After", asked)
					w.WriteHeader(http.StatusTooManyRequests)
				}
			})
			r := run(t, hubstore.NewMem(), hub.Options{RetryFirst: 10 * time.Millisecond, RetryMost: want.most})
			key := r.subscribe(s.URL+"/cb", "")
			r.publish("1")
			eventually(t, "delivery", func() bool {
				row, _ := r.Row(key)
				if left := time.Until(row.Progress.Next); left > want.wait*12/10 {
					t.Fatalf("asks again in %v, want %v", left, want.wait)
				}
				return len(s.at("/cb")) == 1
			})
			if got := -(<-times).Sub(<-times); got < want.wait {
				t.Errorf("asked again after %v, want %v", got, want.wait)
			}
		})
	}
}

// TestGone: 410 ends the subscription permanently (WS-C-07).
func TestGone(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	s := newSink(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		asked.Add(1)
		w.WriteHeader(http.StatusGone)
	})
	store := hubstore.NewMem()
	r := run(t, store, hub.Options{RetryFirst: time.Millisecond})
	key := r.subscribe(s.URL+"/cb", "")
	r.publish(numbers(1, 3)...)
	eventually(t, "end", func() bool { _, ok := r.Row(key); return !ok })
	eventually(t, "end of the row", func() bool { return len(rows(t, store)) == 0 })
	r.publish("4")
	time.Sleep(50 * time.Millisecond)
	if n := asked.Load(); n != 1 || r.Stats().Ended != 1 {
		t.Errorf("asked %d times, %d ended", n, r.Stats().Ended)
	}
}

// TestGiveUp: a message that an endpoint has refused for too long is given up
// and counted; the subscription remains, and gets the next message (WS-C-10).
func TestGiveUp(t *testing.T) {
	t.Parallel()
	var well atomic.Bool
	s := newSink(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		if !well.Load() {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	const long = 500 * time.Millisecond
	r := run(t, hubstore.NewMem(), hub.Options{RetryFirst: 5 * time.Millisecond, RetryMost: 20 * time.Millisecond, RetryFor: long, Keep: time.Hour})
	key := r.subscribe(s.URL+"/cb", "")
	began := time.Now()
	r.publish(numbers(1, 100)...)
	row, _ := r.Row(key)
	eventually(t, "giving up", func() bool {
		row, _ = r.Row(key)
		if took := time.Since(began); row.Progress.GivenUp > 0 && took < long {
			t.Fatalf("given up after %v: %+v", took, row.Progress)
		}
		return row.Progress.GivenUp == 100
	})
	if row.Progress.Attempts < 2 {
		t.Errorf("given up before it was tried again: %+v", row.Progress)
	}
	if row.Progress.Cursor != 100 || r.Stats().GivenUp != 100 {
		t.Errorf("%+v, %d in all", row.Progress, r.Stats().GivenUp)
	}
	well.Store(true)
	r.publish("101")
	eventually(t, "the next", func() bool { return len(s.at("/cb")) == 1 })
	if got := s.at("/cb"); !same(got, []string{"101"}) {
		t.Errorf("got %v", got)
	}
}

// TestGiveUpLater: messages that waited because the hub was down still have the
// full time.
func TestGiveUpLater(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	s := newSink(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		if asked.Add(1) <= 2 {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	store := hubstore.NewMem()
	o := hub.Options{RetryFirst: 10 * time.Millisecond, RetryMost: 10 * time.Millisecond, RetryFor: time.Minute}
	r := run(t, store, o)
	r.subscribe(s.URL+"/cb", "")
	_ = r.stop()
	old := hubstore.Message{Topic: topicURL, ID: "a", Body: []byte("old"), At: time.Now().Add(-24 * time.Hour)}
	if _, err := store.Append(context.Background(), []hubstore.Message{old}); err != nil {
		t.Fatal(err)
	}
	run(t, store, o)
	eventually(t, "delivery", func() bool { return len(s.at("/cb")) == 1 })
}

// TestBreaker: deliveries to a host that cannot be reached pause; when it is
// back, every subscription gets everything (WS-C-13).
func TestBreaker(t *testing.T) {
	t.Parallel()
	address, err := freeport.Address(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, hubstore.NewMem(), hub.Options{RetryFirst: 50 * time.Millisecond, RetryMost: 200 * time.Millisecond})
	const subscribers = 200
	for i := range subscribers {
		r.subscribe(fmt.Sprintf("http://%s/cb/%d", address, i), "")
	}
	began := time.Now()
	r.publish(numbers(1, 3)...)
	time.Sleep(time.Second) // in which it would be called too often
	eventually(t, "attempts", func() bool { return r.Stats().Failed >= 3 })
	// 64 may be under way when the first fails; after that about one in 200 ms.
	n, took := r.Stats().Failed, time.Since(began)
	if most := 64 + 20*took.Seconds(); float64(n) > most {
		t.Errorf("%d attempts at a dead host in %v, want at most %.0f", n, took, most)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("the port was taken meanwhile: %v", err)
	}
	s := &sink{got: map[string][]string{}}
	server := &http.Server{Handler: s}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	for i := range subscribers {
		path := fmt.Sprintf("/cb/%d", i)
		eventually(t, path, func() bool { return same(s.at(path), numbers(1, 3)) })
	}
}

// TestDeadHostGivesUp: messages waiting for a dead host are given up, whether or
// not it was this subscription's turn to try.
func TestDeadHostGivesUp(t *testing.T) {
	t.Parallel()
	r := run(t, hubstore.NewMem(), hub.Options{RetryFirst: 50 * time.Millisecond, RetryMost: time.Hour, RetryFor: 500 * time.Millisecond, Keep: 100 * time.Millisecond})
	for i := range 100 {
		r.subscribe(fmt.Sprintf("http://127.0.0.1:1/cb/%d", i), "")
	}
	r.publish(numbers(1, 3)...)
	eventually(t, "giving up", func() bool { return r.Stats().GivenUp == 300 })
	eventually(t, "the log to be trimmed", func() bool { l, _ := r.Log(topicURL); return l.First == 4 })
}

// TestEndlessAnswer: an endless answer delays nothing, and counts by its
// status.
func TestEndlessAnswer(t *testing.T) {
	t.Parallel()
	s := newSink(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		w.WriteHeader(http.StatusOK)
		for r.Context().Err() == nil {
			if _, err := w.Write([]byte(strings.Repeat("x", 1<<10))); err != nil {
				return
			}
		}
	})
	r := run(t, hubstore.NewMem(), hub.Options{Timeout: 5 * time.Second})
	key := r.subscribe(s.URL+"/cb", "")
	r.publish(numbers(1, 20)...)
	eventually(t, "all", func() bool {
		row, _ := r.Row(key)
		return row.Progress.Taken == 20
	})
}
