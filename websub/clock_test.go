package websub_test

import (
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/faultclock"
	"lockstep/websub"
)

// TestClockSteps: a subscription is renewed in time, and does not expire, whatever
// happens to the system clock.
func TestClockSteps(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				clock := faultclock.Running()
				b, hubs := newTimedBed(t, &keeper{}, func(o *websub.SubscriberOptions) { o.Clock = clock.Now })
				hubs[0].set(func() { hubs[0].lease = "1000" })
				b.want(topic, hubs[0].url)
				sleep(time.Second)
				clock.Step(step)
				sleep(500 * time.Second)
				if n := hubs[0].asked("subscribe"); n != 1 {
					t.Errorf("asked %d times before two thirds of the lease", n)
				}
				sleep(300 * time.Second)
				if n := hubs[0].asked("subscribe"); n != 2 || len(b.told(websub.Renewed)) != 1 || len(b.told(websub.Expired)) != 0 {
					t.Errorf("asked %d times after two thirds of the lease, events %+v", n, b.events)
				}
				b.stop()
			})
		})
	}
}

// TestDenialOfAClockAhead: a denial that was saved by a clock ahead by years is heeded
// for a day at most.
func TestDenialOfAClockAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := faultclock.Running()
		clock.Step(3 * 365 * 24 * time.Hour)
		k := &keeper{}
		b, hubs := newTimedBed(t, k, func(o *websub.SubscriberOptions) { o.Clock = clock.Now })
		hubs[0].set(func() {
			hubs[0].answer = func(w http.ResponseWriter, form url.Values) bool {
				hubs[0].get(websub.VerificationURL(form.Get("hub.callback"), url.Values{"hub.mode": {"denied"}, "hub.topic": {topic}}))
				w.WriteHeader(http.StatusAccepted)
				return true
			}
		})
		b.want(topic, hubs[0].url)
		sleep(time.Minute)
		if st := b.state(); st.State != "denied" {
			t.Fatalf("state %+v", st)
		}
		b.stop()
		b, hubs = newTimedBed(t, k, nil)
		b.want(topic, hubs[0].url)
		sleep(26 * time.Hour)
		if st := b.state(); st.State != "active" {
			t.Errorf("state %+v", st)
		}
		b.stop()
	})
}

// TestLeaseOfAClockAhead: a subscription that was verified by a clock ahead by years is renewed while the hub still
// has it.
func TestLeaseOfAClockAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := faultclock.Running()
		clock.Step(3 * 365 * 24 * time.Hour)
		k := &keeper{}
		b, hubs := newTimedBed(t, k, func(o *websub.SubscriberOptions) { o.Clock = clock.Now })
		hubs[0].set(func() { hubs[0].lease = "1000" })
		b.want(topic, hubs[0].url)
		sleep(time.Minute)
		if st := b.state(); st.State != "active" {
			t.Fatalf("state %+v", st)
		}
		b.stop()
		b, hubs = newTimedBed(t, k, nil)
		sleep(700 * time.Second)
		if n := hubs[0].asked("subscribe"); n != 1 {
			t.Errorf("the hub was asked %d times, want once: %+v", n, b.state())
		}
		b.stop()
	})
}
