package hub_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"lockstep/hub"
	"lockstep/hub/hubstore"
)

// crowd starts a hub with room for 8 quick and 16 slow deliveries, 4 subscribers
// at each of 15 hosts that answer after the delay hold returns, and one at a host
// of its own that is always quick.
func crowd(t *testing.T, hold func(body string) time.Duration) (r *running, quick *sink, crowd []*sink) {
	over := make(chan struct{})
	slow := func(_ http.ResponseWriter, r *http.Request, body string) {
		select {
		case <-time.After(hold(body)):
		case <-r.Context().Done():
		case <-over:
		}
	}
	r = runWith(t, hubstore.NewMem(), hub.Options{RetryFirst: 10 * time.Millisecond, Timeout: time.Hour}, func(h *hub.Hub) { h.Lanes(8, 16) })
	for range 15 {
		s := newSink(t, slow)
		crowd = append(crowd, s)
		for i := range 4 {
			r.subscribe(fmt.Sprintf("%s/%d", s.URL, i), "")
		}
	}
	t.Cleanup(func() { close(over) }) // before they are closed
	quick = newSink(t, nil)
	r.subscribe(quick.URL+"/quick", "")
	return r, quick, crowd
}

// TestSlowLaneFull: endpoints that never answer, more than the slow lane has
// room for, do not stay in the fast lane (WS-C-13).
func TestSlowLaneFull(t *testing.T) {
	t.Parallel()
	undelayed(t, func(t *testing.T) (got func() bool) {
		r, quick, _ := crowd(t, func(string) time.Duration { return time.Hour })
		r.publish("first")
		time.Sleep(2500 * time.Millisecond) // the slow lane is full
		r.publish("second")
		return func() bool { return len(quick.at("/quick")) == 2 }
	})
}

// TestSlowAtTimes: endpoints that are slow every second time delay a quick one
// until they are known to be slow, but not each time (WS-C-13).
func TestSlowAtTimes(t *testing.T) {
	t.Parallel()
	undelayed(t, quickAfterSlow)
}

// quickAfterSlow publishes to endpoints that become slow and a quick one.
func quickAfterSlow(t *testing.T) (got func() bool) {
	r, quick, crowd := crowd(t, func(body string) time.Duration {
		switch body {
		case "slow 1":
			return 600 * time.Millisecond
		case "slow 2":
			return time.Hour // until the test ends
		}
		return 0
	})
	all := func(n int) {
		t.Helper()
		eventually(t, "all", func() bool {
			for _, s := range crowd {
				for i := range 4 {
					if len(s.at(fmt.Sprintf("/%d", i))) < n {
						return false
					}
				}
			}
			return true
		})
	}
	r.publish("slow 1", "ok")
	all(2)
	r.publish("slow 2")
	return func() bool { return len(quick.at("/quick")) == 3 }
}

// TestSlowHost: one host whose endpoints become slow all at once does not take the whole slow
// lane from endpoints at other hosts (WS-C-13).
func TestSlowHost(t *testing.T) {
	t.Parallel()
	undelayed(t, func(t *testing.T) (got func() bool) {
		over := make(chan struct{})
		r := runWith(t, hubstore.NewMem(), hub.Options{RetryFirst: 10 * time.Millisecond, Timeout: time.Hour}, func(h *hub.Hub) { h.Lanes(256, 128) })
		hanging := newSink(t, func(_ http.ResponseWriter, r *http.Request, body string) {
			if body == "first" {
				return
			}
			select {
			case <-r.Context().Done():
			case <-over:
			}
		})
		t.Cleanup(func() { close(over) }) // before it is closed
		for i := range 400 {
			r.subscribe(fmt.Sprintf("%s/%d", hanging.URL, i), "")
		}
		slow := newSink(t, func(http.ResponseWriter, *http.Request, string) { time.Sleep(600 * time.Millisecond) })
		r.subscribe(slow.URL+"/slow", "")
		r.publish("first") // after which the slow endpoint is known
		eventually(t, "first", func() bool { return len(slow.at("/slow")) == 1 })
		time.Sleep(time.Second)
		r.publish("second")
		time.Sleep(4 * time.Second)
		r.publish("third")
		return func() bool { return len(slow.at("/slow")) == 3 }
	})
}
