package websub_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/websub"
)

// A wire connects hubs and a Subscriber without sockets, so that the test
// controls time.
type wire map[string]http.Handler // by host

func (w wire) Do(r *http.Request) (*http.Response, error) {
	h := w[r.URL.Host]
	if h == nil {
		return nil, errors.New("connection refused")
	}
	in := httptest.NewRequestWithContext(r.Context(), r.Method, r.URL.String(), r.Body)
	in.Header = r.Header
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, in)
	return rec.Result(), nil
}

func (w wire) RoundTrip(r *http.Request) (*http.Response, error) { return w.Do(r) }

const topic = "http://source/topic"

// newTimedBed returns a Subscriber at http://sub/, and hubs at http://a/hub and
// http://b/hub.
func newTimedBed(t *testing.T, k *keeper, change func(*websub.SubscriberOptions)) (b *bed, hubs [2]*hub) {
	t.Helper()
	b = &bed{t: t, keep: k}
	w := wire{}
	for i, host := range []string{"a", "b"} {
		h := newHub(t)
		h.url = "http://" + host + "/hub"
		h.client = &http.Client{Transport: w}
		w[host], hubs[i] = h, h
	}
	w["sub"] = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { b.front.ServeHTTP(rw, r) })
	o := b.options()
	o.Callback, o.Client = "http://sub/cb", w
	o.RetryFirst, o.RetryMost, o.Pending = 0, 0, 0
	if change != nil {
		change(&o)
	}
	b.start(o)
	return b, hubs
}

// sleep advances the time and waits until all goroutines are idle.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// A subscription is renewed at about two thirds of the granted lease, with the
// same callback and secret (WS-L-03, WS-L-05, WS-OLD-03).
func TestRenewal(t *testing.T) {
	t.Parallel()
	tests := []struct {
		granted string
		lease   time.Duration
	}{
		{"1000", 1000 * time.Second},
		{"2", 2 * time.Second},
		{"", 24 * time.Hour},
		{"0", 24 * time.Hour},
		{"-5", 24 * time.Hour},
		{"soon", 24 * time.Hour},
		{"99999999999999999999", 24 * time.Hour},
		{"9999999999", 30 * 24 * time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.granted, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, hubs := newTimedBed(t, &keeper{}, func(o *websub.SubscriberOptions) { o.Lease = time.Hour })
				hubs[0].set(func() { hubs[0].lease = tt.granted })
				b.want(topic, hubs[0].url)
				sleep(time.Second / 100)
				callback, form := hubs[0].sub()
				if got := form.Get("hub.lease_seconds"); got != "3600" { // WS-S-03
					t.Errorf("wished for %s", got)
				}
				if st := b.state(); st.State != "active" || !st.Expires.Before(st.Verified.Add(tt.lease)) || st.Expires.Before(time.Now().Add(tt.lease*9/10)) {
					t.Errorf("state %+v, lease %v", st, tt.lease)
				}
				sleep(tt.lease * 60 / 100)
				if n := hubs[0].asked("subscribe"); n != 1 {
					t.Errorf("asked %d times before two thirds", n)
				}
				sleep(tt.lease * 10 / 100)
				if n := hubs[0].asked("subscribe"); n != 2 {
					t.Errorf("asked %d times after two thirds", n)
				}
				if again, second := hubs[0].sub(); again != callback || second.Get("hub.secret") != form.Get("hub.secret") {
					t.Error("renewed with another callback or secret")
				}
				if len(b.told(websub.Verified)) != 1 || len(b.told(websub.Renewed)) != 1 || hubs[0].asked("unsubscribe") != 0 {
					t.Errorf("events %+v", b.events)
				}
				if err := b.Renew(t.Context(), "set"); err != nil {
					t.Error(err)
				}
				sleep(time.Second / 100)
				if n := hubs[0].asked("subscribe"); n != 3 || len(b.told(websub.Renewed)) != 2 {
					t.Errorf("asked %d times, want 3: it was to be renewed before its time", n)
				}
				b.stop()
			})
		})
	}
}

// A hub that accepts and never verifies is asked again, then the next one is
// tried (WS-S-11); likewise one that does not answer (WS-D-10).
func TestNextHub(t *testing.T) {
	t.Parallel()
	answers := map[string]func(w http.ResponseWriter, _ url.Values) bool{
		"silent": func(w http.ResponseWriter, _ url.Values) bool { w.WriteHeader(202); return true },
		"busy":   func(w http.ResponseWriter, _ url.Values) bool { w.WriteHeader(503); return true },
		"refuses": func(w http.ResponseWriter, _ url.Values) bool {
			http.Error(w, "not here", http.StatusForbidden)
			return true
		},
	}
	asked := map[string]int{"silent": 2, "busy": 3, "refuses": 1}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, hubs := newTimedBed(t, &keeper{}, nil)
				hubs[0].set(func() { hubs[0].answer = answer })
				b.want(topic, hubs[0].url, hubs[1].url)
				sleep(time.Hour)
				if st := b.state(); st.State != "active" || st.Hub != hubs[1].url {
					t.Errorf("state %+v", st)
				}
				if n := hubs[0].asked("subscribe"); n != asked[name] {
					t.Errorf("the first hub was asked %d times, want %d", n, asked[name])
				}
				e := b.told(websub.Refused)
				if len(e) != 1 || e[0].Hub != hubs[0].url || name == "refuses" && !strings.HasSuffix(e[0].Reason, "status 403: not here") {
					t.Errorf("events %+v", e)
				}
				first, second := hubs[0].requests[0], hubs[1].requests[0]
				if first.Get("hub.callback") == second.Get("hub.callback") || first.Get("hub.secret") == second.Get("hub.secret") { // WS-S-05
					t.Error("two hubs know the same callback or secret")
				}
				b.stop()
			})
		})
	}
}

// TestRetry asks hubs that refused without waiting for a day, but not hubs that
// denied (WS-V-03).
func TestRetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, hubs := newTimedBed(t, &keeper{}, nil)
		hubs[0].set(func() {
			hubs[0].answer = func(w http.ResponseWriter, _ url.Values) bool {
				http.Error(w, "not here", http.StatusForbidden)
				return true
			}
		})
		b.want(topic, hubs[0].url)
		sleep(time.Minute)
		if st := b.state(); st.State != "waiting" || hubs[0].asked("subscribe") != 1 {
			t.Errorf("state %+v, want one that waits", st)
		}
		hubs[0].set(func() { hubs[0].answer = nil })
		if err := b.Retry(context.Background(), "nobody"); err != nil {
			t.Error(err)
		}
		if err := b.Retry(context.Background(), "set"); err != nil {
			t.Error(err)
		}
		sleep(time.Minute)
		if st := b.state(); st.State != "active" {
			t.Errorf("state %+v, want an active one", st)
		}
		n := hubs[0].asked("subscribe")
		if err := b.Retry(context.Background(), "set"); err != nil {
			t.Error(err)
		}
		if sleep(time.Minute); hubs[0].asked("subscribe") != n {
			t.Error("what works was asked for again")
		}
		b.stop()
	})
}

// If no hub works, they are retried later: about every ten minutes if that may help,
// according to Retry-After, or once a day if they refused (WS-S-10).
func TestNoHubWorks(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		status      int
		after       string
		least, most int // requests within 5 days
	}{
		{"down", 500, "", 1200, 1800},
		{"busy", 429, "1800", 400, 500},
		{"says no", 400, "", 8, 14},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, hubs := newTimedBed(t, &keeper{}, nil)
				for _, h := range hubs {
					h.set(func() {
						h.answer = func(w http.ResponseWriter, _ url.Values) bool {
							if tt.after != "" {
								w.Header().Set("Retry-After", tt.after)
							}
							w.WriteHeader(tt.status)
							return true
						}
					})
				}
				b.want(topic, hubs[0].url, hubs[1].url)
				sleep(5 * 24 * time.Hour)
				n := hubs[0].asked("subscribe") + hubs[1].asked("subscribe")
				if n < tt.least || n > tt.most {
					t.Errorf("asked %d times in 5 days, want %d to %d", n, tt.least, tt.most)
				}
				hubs[1].set(func() { hubs[1].answer = nil })
				sleep(27 * time.Hour)
				if st := b.state(); st.State != "active" || st.Hub != hubs[1].url {
					t.Errorf("state %+v", st)
				}
				if n := len(b.keep.doc); n > 64<<10 {
					t.Errorf("the document has grown to %d bytes", n)
				}
				b.stop()
			})
		})
	}
}

// A lease that cannot be renewed ends; then a new subscription is requested.
func TestLeaseEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, hubs := newTimedBed(t, &keeper{}, nil)
		hubs[0].set(func() { hubs[0].lease = "3600" })
		b.want(topic, hubs[0].url)
		sleep(time.Second / 100)
		callback, form := hubs[0].sub()
		hubs[0].set(func() {
			hubs[0].answer = func(w http.ResponseWriter, _ url.Values) bool { w.WriteHeader(500); return true }
		})
		sleep(50 * time.Minute)
		if st := b.state(); st.State != "active" || st.LastError == "" {
			t.Errorf("state %+v", st)
		}
		if status := hubs[0].deliver(callback, "x", signed(t, "sha256", form.Get("hub.secret"), "x")...); status != 202 {
			t.Errorf("before the lease ends: status %d", status)
		}
		sleep(11 * time.Minute)
		if len(b.told(websub.Expired)) != 1 {
			t.Errorf("events %+v", b.events)
		}
		if status := hubs[0].deliver(callback, "y", signed(t, "sha256", form.Get("hub.secret"), "y")...); status != 410 { // WS-C-07
			t.Errorf("after the lease ended: status %d", status)
		}
		hubs[0].set(func() { hubs[0].answer, hubs[0].subs = nil, map[string]url.Values{} })
		sleep(90 * time.Minute)
		if again, _ := hubs[0].sub(); again == callback {
			t.Error("the retired callback is used again")
		}
		b.stop()
	})
}

// A denial ends a subscription in any state; it is retried once a day
// (WS-V-03).
func TestDenial(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, hubs := newTimedBed(t, &keeper{}, nil)
		h := hubs[0]
		deny := func(callback string) {
			status, _, body := h.get(websub.VerificationURL(callback, url.Values{"hub.mode": {"denied"}, "hub.topic": {topic}, "hub.reason": {"not\x1b[1m for you"}}))
			if status != 200 || body != "" {
				t.Errorf("answer to the denial: %d, %q", status, body)
			}
		}
		h.set(func() {
			h.answer = func(w http.ResponseWriter, form url.Values) bool { // before verification
				deny(form.Get("hub.callback"))
				w.WriteHeader(202)
				return true
			}
		})
		b.want(topic, h.url)
		sleep(20 * time.Hour)
		if n := h.asked("subscribe"); n != 1 {
			t.Errorf("asked %d times within a day", n)
		}
		st := b.state()
		if st.State != "denied" || strings.Contains(st.LastError, "\x1b") || !strings.HasSuffix(st.LastError, "for you") {
			t.Errorf("state %+v", st)
		}
		b.want(topic, h.url) // changes nothing
		sleep(time.Hour)
		if n := h.asked("subscribe"); n != 1 {
			t.Errorf("asked %d times within a day", n)
		}
		h.set(func() { h.answer = nil })
		sleep(8 * time.Hour)
		callback, form := h.sub()
		if st := b.state(); st.State != "active" || st.LastError != "" {
			t.Errorf("state %+v", st)
		}
		deny(callback) // of an active subscription
		deny(callback) // again, because the answer may have been lost
		sleep(time.Second / 100)
		if status := h.deliver(callback, "x", signed(t, "sha256", form.Get("hub.secret"), "x")...); status != 410 {
			t.Errorf("delivery after the denial: status %d", status)
		}
		if st := b.state(); st.State != "denied" || len(b.told(websub.Denied)) != 2 || len(b.delivered()) != 0 {
			t.Errorf("state %+v, events %+v", st, b.told(websub.Denied))
		}
		if h.verify(callback, "subscribe", topic, "60") {
			t.Error("a retired callback was confirmed")
		}
		if h.verify(callback, "unsubscribe", topic, "") {
			t.Error("confirmed to unsubscribe what was denied")
		}
		b.stop()
	})
}

// Unsubscribing (WS-S-12): same callback and topic, confirmed when the hub
// asks, again within ten minutes (WS-I-06); after Drop nothing is delivered
// (WS-C-07).
func TestDrop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, hubs := newTimedBed(t, &keeper{}, nil)
		h := hubs[0]
		b.want(topic, h.url)
		sleep(time.Second / 100)
		callback, form := h.sub()
		h.set(func() { h.silent = true })
		if err := b.Drop(context.Background(), "set"); err != nil {
			t.Fatal(err)
		}
		sleep(time.Second / 100)
		if status := h.deliver(callback, "x", signed(t, "sha256", form.Get("hub.secret"), "x")...); status != 410 {
			t.Errorf("delivery: status %d", status)
		}
		last := h.requests[len(h.requests)-1]
		if last.Get("hub.mode") != "unsubscribe" || last.Get("hub.callback") != callback || last.Get("hub.topic") != topic || last.Has("hub.secret") {
			t.Errorf("asked for %v", last)
		}
		if h.verify(callback, "subscribe", topic, "60") {
			t.Error("confirmed a subscription that is not wanted")
		}
		if !h.verify(callback, "unsubscribe", topic, "60") || !h.verify(callback, "unsubscribe", topic, "") {
			t.Error("unsubscribing was not confirmed")
		}
		sleep(11 * time.Minute)
		if h.verify(callback, "unsubscribe", topic, "") {
			t.Error("unsubscribing was confirmed long after")
		}
		if len(b.Subscriptions()) != 0 || len(b.told(websub.Ended)) != 1 || h.asked("unsubscribe") != 1 {
			t.Errorf("left: %+v, %+v", b.Subscriptions(), b.events)
		}
		if err := b.Drop(context.Background(), "set"); err != nil { // nothing to do
			t.Error(err)
		}
		b.want(topic, h.url)
		h.set(func() { h.silent = false })
		sleep(time.Hour)
		if st := b.state(); st.State != "active" {
			t.Errorf("wanted again: %+v", st)
		}
		b.stop()
	})
}

// Unsubscribing at a hub that does not answer is not retried forever.
func TestDropAtDeadHub(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, hubs := newTimedBed(t, &keeper{}, nil)
		b.want(topic, hubs[0].url)
		sleep(time.Second / 100)
		hubs[0].set(func() {
			hubs[0].answer = func(w http.ResponseWriter, _ url.Values) bool { w.WriteHeader(503); return true }
		})
		if err := b.Drop(context.Background(), "set"); err != nil {
			t.Fatal(err)
		}
		sleep(2 * time.Hour)
		if n := hubs[0].asked("unsubscribe"); n != 4 || len(b.Subscriptions()) != 0 {
			t.Errorf("asked %d times; left: %+v", n, b.Subscriptions())
		}
		b.stop()
	})
}

// Renewal starts with discovery (WS-L-06): a moved topic is subscribed to at
// its new address, then the old subscription is ended; both deliver until then.
func TestMoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var moved atomic.Value // of a func(websub.Wish) websub.Wish
		b, hubs := newTimedBed(t, &keeper{}, func(o *websub.SubscriberOptions) {
			o.Rediscover = func(_ context.Context, w websub.Wish) (websub.Wish, error) {
				return moved.Load().(func(websub.Wish) websub.Wish)(w), nil
			}
		})
		moved.Store(func(w websub.Wish) websub.Wish {
			return websub.Wish{ID: w.ID, Topic: topic + "2", Hubs: []string{hubs[1].url}}
		})
		hubs[0].set(func() { hubs[0].lease = "3600" })
		hubs[1].set(func() { hubs[1].silent = true })
		b.want(topic, hubs[0].url)
		sleep(time.Second / 100)
		old, form := hubs[0].sub()
		sleep(42 * time.Minute)
		if status := hubs[0].deliver(old, "x", signed(t, "sha256", form.Get("hub.secret"), "x")...); status != 202 {
			t.Errorf("until the new one works: status %d", status)
		}
		fresh := hubs[1].requests[0].Get("hub.callback")
		if hubs[0].asked("subscribe") != 1 || fresh == old || hubs[0].asked("unsubscribe") != 0 {
			t.Errorf("asked %v", hubs[0].requests)
		}
		if !hubs[1].verify(fresh, "subscribe", topic+"2", "3600") {
			t.Error("the new hub was not answered")
		}
		sleep(time.Second / 100)
		if hubs[0].asked("unsubscribe") != 1 {
			t.Error("the old subscription was not ended")
		}
		if status := hubs[0].deliver(old, "y", signed(t, "sha256", form.Get("hub.secret"), "y")...); status != 410 {
			t.Errorf("after it ended: status %d", status)
		}
		if st := b.state(); st.Hub != hubs[1].url || st.Topic != topic+"2" {
			t.Errorf("state %+v", st)
		}
		if len(b.told(websub.Ended)) != 0 { // because another one replaced it
			t.Errorf("events %+v", b.events)
		}
		moved.Store(func(websub.Wish) websub.Wish { return websub.Wish{} }) // the channel is gone: WS-L-07
		sleep(42 * time.Minute)
		if hubs[1].asked("unsubscribe") == 0 {
			t.Error("a channel that is gone was not unsubscribed from")
		}
		if len(b.told(websub.Ended)) != 1 {
			t.Errorf("events %+v", b.events)
		}
		b.stop()
	})
}

// FreshCallback changes the callback with every other renewal; both deliver
// until the old one has ended, each message once (WS-L-05).
func TestFreshCallback(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, hubs := newTimedBed(t, &keeper{}, func(o *websub.SubscriberOptions) { o.FreshCallback = 2 })
		h := hubs[0]
		h.set(func() { h.lease = "3600" })
		b.want(topic, h.url)
		sleep(time.Second / 100)
		old, form := h.sub()
		sleep(42 * time.Minute)
		if again, _ := h.sub(); again != old {
			t.Error("the first renewal changed the callback")
		}
		same := signed(t, "sha256", form.Get("hub.secret"), "same")
		if status := h.deliver(old, "same", same...); status != 202 {
			t.Errorf("status %d", status)
		}
		h.set(func() { // the old one remains for a while
			h.answer = func(w http.ResponseWriter, f url.Values) bool {
				if f.Get("hub.mode") == "unsubscribe" {
					w.WriteHeader(202)
				}
				return f.Get("hub.mode") == "unsubscribe"
			}
		})
		sleep(42 * time.Minute)
		var both []string
		for callback := range h.subs {
			both = append(both, callback)
		}
		if len(both) != 2 {
			t.Fatalf("subscriptions: %d, want the old one and the new one", len(both))
		}
		send := func(callback, body, id string) {
			secret := h.subs[callback].Get("hub.secret")
			fields := append(signed(t, "sha256", secret, body), "Hub-Delivery-Id", id)
			if status := h.deliver(callback, body, fields...); status != 202 {
				t.Errorf("status %d", status)
			}
		}
		for i, body := range []string{"one", "two", "one"} {
			for _, callback := range both {
				send(callback, body, fmt.Sprint(i, callback))
			}
		}
		for _, callback := range both {
			if callback != old { // a message that the old one delivered before the new one existed is a different message
				send(callback, "same", "")
			}
		}
		if got := b.delivered(); !slices.Equal(got, []string{"same", "one", "two", "one", "same"}) {
			t.Errorf("delivered %q", got)
		}
		if st := b.state(); st.Duplicates != 3 {
			t.Errorf("state %+v", st)
		}
		if form.Get("hub.secret") == h.requests[len(h.requests)-1].Get("hub.secret") {
			t.Error("the new subscription has the old secret")
		}
		b.stop()
	})
}

// A renewal can bring a new secret: the old one is valid until the new one is
// verified, and for a day after (WS-X-11).
func TestNewSecret(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, hubs := newTimedBed(t, &keeper{}, func(o *websub.SubscriberOptions) { o.NewSecrets = true })
		h := hubs[0]
		h.set(func() { h.lease = "864000" })
		b.want(topic, h.url)
		sleep(time.Second / 100)
		callback, form := h.sub()
		h.set(func() { h.silent = true })
		sleep(168 * time.Hour)
		old, fresh := form.Get("hub.secret"), h.requests[len(h.requests)-1].Get("hub.secret")
		if fresh == old || len(fresh) != 64 {
			t.Fatalf("new secret %q, old %q", fresh, old)
		}
		n := 0
		try := func(secret string) bool {
			n++
			body := fmt.Sprint("message ", n)
			before := len(b.delivered())
			h.deliver(callback, body, signed(t, "sha256", secret, body)...)
			return len(b.delivered()) > before
		}
		if !try(old) || !try(fresh) || try("another") {
			t.Error("before verification both must count, and no other")
		}
		if !h.verify(callback, "subscribe", topic, "864000") {
			t.Fatal("not confirmed")
		}
		sleep(23 * time.Hour)
		if !try(old) || !try(fresh) {
			t.Error("for a day after verification both must count")
		}
		sleep(2 * time.Hour)
		if try(old) || !try(fresh) {
			t.Error("after a day only the new one counts")
		}
		b.stop()
	})
}

// All state survives a restart; a restart renews a subscription, because the
// hub may have forgotten it.
func TestRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{}
		b, hubs := newTimedBed(t, k, nil)
		b.want(topic, hubs[0].url)
		sleep(time.Second / 100)
		callback, form := hubs[0].sub()
		b.stop()
		deliver := func(b *bed, body string) int {
			r := httptest.NewRequest(http.MethodPost, callback, strings.NewReader(body))
			f := signed(t, "sha256", form.Get("hub.secret"), body)
			r.Header.Set(f[0], f[1])
			w := httptest.NewRecorder()
			b.front.ServeHTTP(w, r)
			return w.Code
		}
		b2, hubs2 := newTimedBed(t, k, nil)
		if status := deliver(b2, "early"); status != 202 { // before any other method is called
			t.Errorf("delivery after a restart: status %d", status)
		}
		b2.want(topic, hubs2[0].url)
		sleep(time.Second / 100)
		if again, second := hubs2[0].sub(); again != callback || second.Get("hub.secret") != form.Get("hub.secret") {
			t.Error("another callback or secret after a restart")
		}
		if len(b2.told(websub.Renewed)) != 1 {
			t.Errorf("events %+v", b2.events)
		}
		b2.want(topic, hubs2[0].url)
		sleep(time.Hour)
		if n := hubs2[0].asked("subscribe"); n != 1 {
			t.Errorf("asked %d times", n)
		}
		b2.stop()

		// With a new address: a new callback replaces the old one.
		b3, hubs3 := newTimedBed(t, k, func(o *websub.SubscriberOptions) { o.Callback = "http://sub/other?key=1" })
		hubs3[0].set(func() { hubs3[0].subs[callback] = form })
		b3.want(topic, hubs3[0].url)
		sleep(time.Minute)
		again, second := hubs3[0].sub()
		if !strings.HasPrefix(again, "http://sub/other/") || !strings.HasSuffix(again, "?key=1") || second.Get("hub.secret") == form.Get("hub.secret") { // WS-S-06
			t.Errorf("callback %s", again)
		}
		b3.stop()
	})
}

// A change that was not saved did not happen: the hub gets an error, and asks
// again.
func TestNotSaved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, hubs := newTimedBed(t, &keeper{}, nil)
		h := hubs[0]
		h.set(func() { h.silent = true })
		b.want(topic, h.url)
		sleep(time.Second / 100)
		callback := h.requests[0].Get("hub.callback")
		b.keep.fail(errFull)
		if h.verify(callback, "subscribe", topic, "60") || len(b.events) > 0 {
			t.Errorf("confirmed what could not be saved; events %+v", b.events)
		}
		if err := b.Want(context.Background(), websub.Wish{ID: "x", Topic: topic, Hubs: []string{h.url}}); !errors.Is(err, errFull) {
			t.Errorf("Want: %v", err)
		}
		if st := b.state(); st.State != "pending" {
			t.Errorf("state %+v", st)
		}
		b.keep.fail(nil)
		if !h.verify(callback, "subscribe", topic, "60") || len(b.told(websub.Verified)) != 1 {
			t.Errorf("not confirmed; events %+v", b.events)
		}
		var doc struct{ Subscriptions map[string]any }
		if err := json.Unmarshal(b.keep.doc, &doc); err != nil || len(doc.Subscriptions) != 1 {
			t.Errorf("document: %+v, %v", doc, err)
		}
		b.stop()
	})
}

// A pending Wish is recorded before the hub is asked (WS-S-08).
func TestPendingIsSavedFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{}
		b, hubs := newTimedBed(t, k, nil)
		var saved []string
		hubs[0].set(func() {
			hubs[0].answer = func(w http.ResponseWriter, form url.Values) bool {
				doc, _ := k.Load(context.Background())
				saved = append(saved, string(doc))
				return false
			}
		})
		b.want(topic, hubs[0].url)
		sleep(time.Second / 100)
		callback, form := hubs[0].sub()
		if len(saved) != 1 || !strings.Contains(saved[0], callback) || !strings.Contains(saved[0], form.Get("hub.secret")) || !strings.Contains(saved[0], `"pending"`) {
			t.Errorf("saved before the request: %q", saved)
		}
		b.stop()
	})
}
