package hub_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/hub"
	"lockstep/hub/hubstore"
)

// TestVerification: the hub's question, and the effect of the answer (WS-H-01,
// WS-H-03, WS-I-01, WS-I-02, WS-L-02, WS-H-12).
func TestVerification(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), nil)
	sub := subscribe(t, nil)
	before := time.Now()
	s.subscribed(t, sub, topicA, "hub.lease_seconds", "3600", "foo", "1", "hub.foo", "2") // WS-H-02
	all := s.subscriptions(t)
	if len(all) != 1 || all[0].Topic != topicA || all[0].Callback != sub.url || all[0].Secret != nil {
		t.Fatalf("subscriptions = %+v, want that one, without a secret", all)
	}
	if lease := all[0].Expires.Sub(before); lease < time.Hour-time.Second || lease > time.Hour+10*time.Second {
		t.Errorf("the lease ends after %v, want an hour", lease)
	}
	wantStatus(t, s.post(t, "hub.mode", "subscribe", "hub.topic", topicA, "hub.callback", sub.url, "hub.lease_seconds", "7200"), 202)
	q := sub.nextAsked(t)
	if got := q.Get("hub.lease_seconds"); got != "7200" {
		t.Errorf("hub.lease_seconds = %q, want what was granted", got)
	}
	if c := q.Get("hub.challenge"); !regexp.MustCompile(`^[A-Za-z0-9_-]{20,64}$`).MatchString(c) {
		t.Errorf("hub.challenge = %q, want 20 to 64 characters safe in URLs", c)
	}
}

// TestLeases: a requested lease is granted within bounds; an invalid one becomes
// the default (WS-H-04, WS-L-01, RN-AMB-11).
func TestLeases(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), func(o *hub.Options) { o.LeaseMin, o.LeaseDefault, o.LeaseMax = time.Minute, time.Hour, 24*time.Hour })
	for wish, want := range map[string]string{
		"": "3600", "0": "3600", "-5": "3600", "abc": "3600", "1.5": "3600", " 90": "3600", "1e3": "3600",
		"5": "60", "60": "60", "90": "90", "86400": "86400", "86401": "86400", "99999999999999999999999": "86400",
	} {
		sub := subscribe(t, nil)
		pairs := []string{"hub.mode", "subscribe", "hub.topic", topicA, "hub.callback", sub.url}
		if wish != "" {
			pairs = append(pairs, "hub.lease_seconds", wish)
		}
		wantStatus(t, s.post(t, pairs...), 202)
		if got := sub.nextAsked(t).Get("hub.lease_seconds"); got != want {
			t.Errorf("wish %q: granted %q, want %q", wish, got, want)
		}
	}
}

// TestCallbackQuery: the query of a callback is kept as it is, in front
// (WS-H-10); the topic is sent back unchanged, and so is a verify token
// (WS-OLD-01).
func TestCallbackQuery(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), nil)
	sub := subscribe(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, challenge(r)) })
	topic := "http://topics.example/%7Ea?b=%20&c"
	callback := sub.url + "?x=1&hub.mode=zzz&y=%7e+a"
	wantStatus(t, s.post(t, "hub.mode", "subscribe", "hub.topic", topic, "hub.callback", callback,
		"hub.verify", "sync", "hub.verify", "async", "hub.verify_token", "t&1"), 202)
	q := sub.nextAsked(t)
	raw := <-sub.raw
	if want := "/cb?x=1&hub.mode=zzz&y=%7e+a&hub.mode=subscribe&"; !strings.HasPrefix(raw, want) {
		t.Errorf("asked %s, want %s in front", raw, want)
	}
	if got := q["hub.mode"]; !slices.Equal(got, []string{"zzz", "subscribe"}) {
		t.Errorf("hub.mode = %q, want its own and ours", got)
	}
	if got := q.Get("hub.topic"); got != topic {
		t.Errorf("hub.topic = %q, want %q", got, topic)
	}
	if got := q.Get("hub.verify_token"); got != "t&1" {
		t.Errorf("hub.verify_token = %q, want it back", got)
	}
	eventually(t, "subscribed", func() bool { return len(s.subscriptions(t)) == 1 })
}

func challenge(r *http.Request) string { return r.URL.Query().Get("hub.challenge") }

// TestSameSubscription: topics and callbacks that differ only in encoded
// unreserved characters are the same (WS-H-09, RN-AMB-16).
func TestSameSubscription(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), nil)
	sub := subscribe(t, nil)
	s.subscribed(t, sub, "http://topics.example/~a")
	s.subscribed(t, sub, "http://topics.example/%7Ea")
	if all := s.subscriptions(t); len(all) != 1 || all[0].Topic != "http://topics.example/%7Ea" {
		t.Errorf("subscriptions = %+v, want one, of the topic as it was spelt last", all)
	}
}

// TestNotVerified: only 2xx with exactly the bytes of the challenge confirms a
// request (WS-I-04, WS-I-08); otherwise the existing subscription stays
// (WS-H-07).
func TestNotVerified(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		elsewhere.Add(1)
		_, _ = io.WriteString(w, challenge(r))
	}))
	t.Cleanup(other.Close)
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(code)
			_, _ = io.WriteString(w, challenge(r))
		}
	}
	redirect := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL+"/?"+r.URL.RawQuery, code) }
	}
	answers := map[string]http.HandlerFunc{
		"line feed":   func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, challenge(r)+"\n") },
		"in front":    func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, " "+challenge(r)) },
		"in capitals": func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, strings.ToUpper(challenge(r))) },
		"nothing":     func(http.ResponseWriter, *http.Request) {},
		"another":     func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", 32)) },
		"cut short":   func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, challenge(r)[:31]) },
		"no end": func(w http.ResponseWriter, r *http.Request) {
			for _, err := io.WriteString(w, challenge(r)); err == nil; _, err = io.WriteString(w, strings.Repeat("x", 1<<10)) {
			}
		},
		"204": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) },
		"304": status(304), "400": status(400), "404": status(404), "410": status(410), "500": status(500), "503": status(503),
		"301": redirect(301), "302": redirect(302), "303": redirect(303), "307": redirect(307), "308": redirect(308),
		"round in circles": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.String(), http.StatusFound) },
	}
	s := start(t, hubstore.NewMem(), nil)
	for name, answer := range answers {
		refuses := subscribe(t, answer)
		wantStatus(t, s.post(t, "hub.mode", "subscribe", "hub.topic", topicA, "hub.callback", refuses.url), 202)
		refuses.nextAsked(t)

		changes := subscribe(t, nil)
		s.subscribed(t, changes, topicA, "hub.secret", "the first")
		before := s.subscription(t, changes.url)
		changes.answer = answer
		wantStatus(t, s.post(t, "hub.mode", "subscribe", "hub.topic", topicA, "hub.callback", changes.url, "hub.secret", "another", "hub.lease_seconds", "100"), 202)
		changes.nextAsked(t)
		wantStatus(t, s.post(t, "hub.mode", "unsubscribe", "hub.topic", topicA, "hub.callback", changes.url), 202)
		changes.nextAsked(t)
		eventually(t, name+": settled", func() bool { return len(s.requests(t)) == 0 })
		if after := s.subscription(t, changes.url); !after.Expires.Equal(before.Expires) || string(after.Secret) != string(before.Secret) {
			t.Errorf("%s: the subscription is changed", name)
		}
		for _, x := range s.subscriptions(t) {
			if x.Callback == refuses.url {
				t.Errorf("%s: there is a subscription", name)
			}
		}
	}
	if n := elsewhere.Load(); n > 0 {
		t.Errorf("%d redirects were followed, want none", n)
	}
}

func (s *site) subscription(t testing.TB, callback string) hubstore.Subscription {
	t.Helper()
	for _, x := range s.subscriptions(t) {
		if x.Callback == callback {
			return x
		}
	}
	t.Fatalf("there is no subscription of %s", callback)
	return hubstore.Subscription{}
}

// TestSecrets: secrets of 199 bytes are accepted (RN-AMB-08), a missing one and an empty one
// are the same (WS-H-08), the store never sees one in plain text (WS-SEC-07), and a renewal
// replaces it.
func TestSecrets(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), nil)
	sub := subscribe(t, nil)
	secret := strings.Repeat("\x00é!", 49) + "abc" // 199 bytes
	s.subscribed(t, sub, topicA, "hub.secret", secret)
	sealed := s.subscription(t, sub.url).Secret
	if len(sealed) == 0 || strings.Contains(string(sealed), "abc") {
		t.Errorf("the store holds %q, want the secret sealed", sealed)
	}
	s.subscribed(t, sub, topicA, "hub.secret", "")
	if got := s.subscription(t, sub.url).Secret; got != nil {
		t.Errorf("the store holds %q, want no secret", got)
	}
}

// TestUnsubscribing: the subscriber must confirm it (WS-H-11). For a
// subscription that does not exist no callback is asked, and the answer is the
// same.
func TestUnsubscribing(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), nil)
	sub, stranger := subscribe(t, nil), subscribe(t, nil)
	s.subscribed(t, sub, topicA)
	known := s.post(t, "hub.mode", "unsubscribe", "hub.topic", topicA, "hub.callback", sub.url, "hub.lease_seconds", "9")
	unknown := s.post(t, "hub.mode", "unsubscribe", "hub.topic", topicA, "hub.callback", stranger.url)
	wantStatus(t, known, 202)
	wantStatus(t, unknown, 202)
	if a, b := text(known), text(unknown); a != b {
		t.Errorf("answers %q and %q differ", a, b)
	}
	q := sub.nextAsked(t)
	if q.Get("hub.mode") != "unsubscribe" || q.Get("hub.topic") != topicA || q.Get("hub.challenge") == "" {
		t.Errorf("asked %v, want unsubscribe with topic and challenge", q)
	}
	eventually(t, "ended", func() bool { return len(s.subscriptions(t)) == 0 && len(s.requests(t)) == 0 })
	stranger.quiet(t)
}

// TestSlowVerification: no answer waits for a callback, and the newest request
// for a pair wins, after the effects of those confirmed before (WS-H-03,
// WS-H-07).
func TestSlowVerification(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), nil)
	goOn := make(chan struct{})
	slow := subscribe(t, func(w http.ResponseWriter, r *http.Request) {
		<-goOn
		echo(w, r)
	})
	for range 20 {
		began := time.Now()
		wantStatus(t, s.post(t, "hub.mode", "subscribe", "hub.topic", topicA, "hub.callback", slow.url), 202)
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("answered after %v", took)
		}
	}
	other := subscribe(t, nil)
	s.subscribed(t, other, topicA)
	wantStatus(t, s.post(t, "hub.mode", "unsubscribe", "hub.topic", topicA, "hub.callback", slow.url), 202)
	if q := slow.nextAsked(t); q.Get("hub.mode") != "subscribe" {
		t.Errorf("asked %v, want subscribe", q)
	}
	close(goOn)
	if q := slow.nextAsked(t); q.Get("hub.mode") != "unsubscribe" {
		t.Errorf("asked %v, want unsubscribe: it came last", q)
	}
	eventually(t, "settled", func() bool { return len(s.requests(t)) == 0 && len(s.subscriptions(t)) == 1 })
	slow.quiet(t)
}

// TestSilentCallbacks: callbacks that never answer delay none at another port,
// and are asked again (WS-I-04, WS-I-08).
func TestSilentCallbacks(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), func(o *hub.Options) { o.Timeout = time.Second })
	end := make(chan struct{})
	silent := subscribe(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-end:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(end) })
	for i := range 200 {
		wantStatus(t, s.post(t, "hub.mode", "subscribe", "hub.topic", topicA, "hub.callback", silent.url+"?"+string(rune('a'+i%26))+strings.Repeat("x", i/26)), 202)
	}
	began := time.Now()
	s.subscribed(t, subscribe(t, nil), topicA)
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the other was verified after %v", took)
	}
	eventually(t, "asked in vain", func() bool {
		return slices.ContainsFunc(s.requests(t), func(r hubstore.Request) bool {
			return r.Attempts == 1 && r.Next.After(time.Now()) && r.Next.Before(time.Now().Add(5*time.Minute))
		})
	})
}

// TestAskedAgain: after network failures a callback is asked three more times,
// each time with another challenge, and then no more (WS-I-04).
func TestAskedAgain(t *testing.T) {
	t.Parallel()
	for failures := range 6 {
		t.Run(fmt.Sprint(failures), func(t *testing.T) {
			t.Parallel()
			s := start(t, hubstore.NewMem(), func(o *hub.Options) { o.Timeout = 5 * time.Second })
			s.VerifyWaits(time.Millisecond, 2*time.Millisecond, 3*time.Millisecond)
			var asked atomic.Int64
			sub := subscribe(t, func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1) <= int64(failures) {
					panic(http.ErrAbortHandler)
				}
				echo(w, r)
			})
			wantStatus(t, s.post(t, "hub.mode", "subscribe", "hub.topic", topicA, "hub.callback", sub.url), 202)
			challenges := map[string]bool{}
			for range min(failures+1, 4) {
				challenges[sub.nextAsked(t).Get("hub.challenge")] = true
			}
			eventually(t, "settled", func() bool { return len(s.requests(t)) == 0 })
			if n, want := len(s.subscriptions(t)), failures <= 3; (n == 1) != want {
				t.Errorf("after %d failures: %d subscriptions, want one: %v", failures, n, want)
			}
			if len(challenges) != min(failures+1, 4) {
				t.Errorf("after %d failures: %d challenges, want one for each", failures, len(challenges))
			}
			sub.quiet(t)
		})
	}
}

// TestRestartVerifies: a request answered with 202 is verified after a restart
// (WS-C-12), and its attempts continue to count.
func TestRestartVerifies(t *testing.T) {
	t.Parallel()
	store := hubstore.NewMem()
	var up atomic.Bool
	hold := make(chan struct{})
	sub := subscribe(t, func(w http.ResponseWriter, r *http.Request) {
		if up.Load() {
			echo(w, r)
			return
		}
		select {
		case <-hold:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(hold) })
	first := start(t, store, nil)
	wantStatus(t, first.post(t, "hub.mode", "subscribe", "hub.topic", topicA, "hub.callback", sub.url, "hub.secret", "s"), 202)
	sub.nextAsked(t)
	first.stop()
	up.Store(true)
	second := start(t, store, nil)
	sub.nextAsked(t)
	eventually(t, "verified", func() bool { return len(second.subscriptions(t)) == 1 && len(second.requests(t)) == 0 })
}

// TestPrivateName: a name that resolves to an address of this machine or its
// network is not called: addresses are checked when dialling (WS-SEC-02).
func TestPrivateName(t *testing.T) {
	t.Parallel()
	sub := subscribe(t, nil)
	u, _ := url.Parse(sub.url)
	names := []string{"0x7f.1", "2130706433", "127.1", "017700000001", "ip6-localhost", "ip6-loopback"}
	if name, err := os.Hostname(); err == nil {
		names = append(names, name)
	}
	s := start(t, hubstore.NewMem(), func(o *hub.Options) { o.AllowPrivate = false })
	s.VerifyWaits()
	for _, name := range names {
		s.post(t, "hub.mode", "subscribe", "hub.topic", topicA, "hub.callback", "http://"+name+":"+u.Port()+"/cb")
	}
	eventually(t, "settled", func() bool { return len(s.requests(t)) == 0 })
	if n := len(s.subscriptions(t)); n > 0 {
		t.Errorf("%d subscriptions, want none", n)
	}
	sub.quiet(t)
}

// TestUntrusted: an HTTPS callback must have a valid certificate (WS-SEC-01),
// and is never called over plain HTTP (WS-C-04).
func TestUntrusted(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		echo(w, r)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	s := start(t, hubstore.NewMem(), nil)
	s.VerifyWaits()
	wantStatus(t, s.post(t, "hub.mode", "subscribe", "hub.topic", topicA, "hub.callback", server.URL), 202)
	eventually(t, "settled", func() bool { return len(s.requests(t)) == 0 })
	if n := asked.Load(); n != 0 || len(s.subscriptions(t)) != 0 {
		t.Errorf("asked %d times, %d subscriptions, want none", n, len(s.subscriptions(t)))
	}
}

// TestStopsAtOnce: Run ends even if callbacks do not answer.
func TestStopsAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), nil)
	sub := subscribe(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	wantStatus(t, s.post(t, "hub.mode", "subscribe", "hub.topic", topicA, "hub.callback", sub.url), 202)
	sub.nextAsked(t)
	began := time.Now()
	s.stop()
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("ended after %v", took)
	}
	for r, err := range s.store.Requests(context.Background(), -1) {
		if err != nil || r.Callback != sub.url {
			t.Errorf("request %v, %v, want the one that was accepted", r, err)
		}
		return
	}
	t.Error("the request is gone")
}
