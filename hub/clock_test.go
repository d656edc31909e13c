package hub_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/hub"
	"lockstep/hub/hubstore"
	"lockstep/internal/faultclock"
	"lockstep/websub"
)

// TestClockSteps: a system clock that is set, by an hour, delays no delivery and
// ends no lease.
func TestClockSteps(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			t.Parallel()
			clock := faultclock.Running()
			var failing atomic.Bool
			s := newSink(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
				if failing.Swap(false) {
					clock.Step(step) // before the wait begins, or during it
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			})
			store := hubstore.NewMem()
			r := run(t, store, hub.Options{Clock: clock.Now, RetryFirst: 200 * time.Millisecond})
			if _, err := r.SubscribeVerified(context.Background(), topicURL, s.URL+"/cb", "", 30*time.Minute, clock.Now()); err != nil {
				t.Fatal(err)
			}
			r.publish("1")
			eventually(t, "1", func() bool { return len(s.at("/cb")) == 1 })
			failing.Store(true)
			r.publish("2")
			eventually(t, "a failed attempt", func() bool { return !failing.Load() })
			clock.Step(step)
			eventually(t, "2, again", func() bool { got := s.at("/cb"); return got[len(got)-1] == "2" })
			if all := rows(t, store); len(all) != 1 {
				t.Errorf("rows: %+v, want the lease to last", all)
			}
		})
	}
}

// TestClockSetBackWhileStopped: a hub that is started with an earlier clock than it
// ended with does not wait for the difference.
func TestClockSetBackWhileStopped(t *testing.T) {
	t.Parallel()
	var failing atomic.Bool
	failing.Store(true)
	var attempts atomic.Int64
	s := newSink(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		attempts.Add(1)
		if failing.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	store, clock := hubstore.NewMem(), faultclock.Running()
	clock.Step(48 * time.Hour)
	r := run(t, store, hub.Options{Clock: clock.Now, RetryFirst: 10 * time.Minute})
	if _, err := r.SubscribeVerified(context.Background(), topicURL, s.URL+"/cb", "", time.Hour, clock.Now()); err != nil {
		t.Fatal(err)
	}
	r.publish("1")
	eventually(t, "a failed attempt", func() bool { return attempts.Load() == 1 })
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	failing.Store(false)
	run(t, store, hub.Options{})
	eventually(t, "1, again", func() bool { return len(s.at("/cb")) == 1 })
}

// TestClockOfAnotherHub: the next attempts of a fetch and of a verification that a hub has saved whose clock was ahead
// by days are made when a hub with another clock starts.
func TestClockOfAnotherHub(t *testing.T) {
	t.Parallel()
	store := hubstore.NewMem()
	sub := subscribe(t, nil)
	p := publishPage(t, "http://hub.example/", "text/plain", says("x"))
	ahead := time.Now().Add(48 * time.Hour)
	state := fmt.Sprintf(`{"pinged":%q,"attempts":3,"next":%q,"error":"no answer"}`, ahead.Format(time.RFC3339), ahead.Add(time.Minute).Format(time.RFC3339))
	if err := store.Save(t.Context(), hubstore.Changes{
		Topics: []hubstore.Topic{{URL: p.url, State: []byte(state)}},
		Ask: []hubstore.Request{{
			Key: hubstore.KeyOf(topicA, sub.url), Mode: websub.ModeSubscribe, Topic: topicA, Callback: sub.url,
			Lease: time.Hour, At: ahead, Attempts: 1, Next: ahead.Add(time.Minute),
		}},
	}); err != nil {
		t.Fatal(err)
	}
	s := start(t, store, nil)
	eventually(t, "the topic is fetched", func() bool { n, _, _ := s.Fetches(); return n == 1 })
	eventually(t, "the request is verified", func() bool { return len(s.subscriptions(t)) == 1 })
}
