package hub_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lockstep/hub"
	"lockstep/hub/hubstore"
	"lockstep/websub"
)

// TestMaySubscribe: the hub takes subscriptions to a topic only from requests that may
// subscribe, and for no longer than they may; ending a subscription takes no credential.
func TestMaySubscribe(t *testing.T) {
	t.Parallel()
	s := start(t, hub.NewMem(), func(o *hub.Options) {
		o.LeaseMin, o.LeaseDefault = time.Hour, 2*time.Hour
		o.MaySubscribe = func(r *http.Request, topic string) (time.Duration, error) {
			if strings.HasSuffix(websub.Canonical(topic), "/open") {
				return 0, nil
			}
			if r.Header.Get("Authorization") != "Bearer letmein" {
				return 0, &hub.Refusal{Status: http.StatusUnauthorized, Text: "who are you", Challenges: []string{`Bearer realm="readers"`, `Basic realm="readers"`}}
			}
			return time.Minute, nil
		}
	})
	sub := subscribe(t, nil)
	form := func(mode, topic string) string {
		return "hub.mode=" + mode + "&hub.callback=" + sub.url + "&hub.topic=" + topic
	}
	const kind = "application/x-www-form-urlencoded"
	for _, topic := range []string{s.url + "/vault", s.url + "/v%2561ult", "https://other.example/vault"} {
		for _, credential := range []string{"", "Bearer wrong"} {
			r := s.send(t, http.MethodPost, form("subscribe", topic), "Content-Type", kind, "Authorization", credential)
			wantStatus(t, r, http.StatusUnauthorized)
			if len(r.Header.Values("WWW-Authenticate")) != 2 {
				t.Errorf("%s: %v", topic, r.Header)
			}
		}
	}
	if requests, subscriptions := s.requests(t), s.subscriptions(t); len(requests)+len(subscriptions) > 0 {
		t.Errorf("stored: %v, %v", requests, subscriptions)
	}
	s.subscribed(t, sub, s.url+"/open")
	wantStatus(t, s.send(t, http.MethodPost, form("subscribe", s.url+"/vault"), "Content-Type", kind, "Authorization", "Bearer letmein"), http.StatusAccepted)
	if q := sub.nextAsked(t); q.Get("hub.lease_seconds") != "60" {
		t.Errorf("asked %v, want a lease of a minute", q)
	}
	eventually(t, "there are two subscriptions", func() bool { return s.Subscriptions() == 2 })
	wantStatus(t, s.send(t, http.MethodPost, form("unsubscribe", s.url+"/vault"), "Content-Type", kind), http.StatusAccepted)
	eventually(t, "one subscription has ended", func() bool { return s.Subscriptions() == 1 })
}

// TestEndSubscriptions: all subscriptions to a topic end, however it was spelled, and a request
// that is pending has no effect when its callback confirms it afterwards.
func TestEndSubscriptions(t *testing.T) {
	t.Parallel()
	s := start(t, hub.NewMem(), nil)
	topic := s.url + "/topic"
	one, other := subscribe(t, nil), subscribe(t, nil)
	s.subscribed(t, one, topic)
	s.subscribed(t, other, s.url+"/other")
	answering := make(chan struct{})
	slow := subscribe(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("hub.mode") == websub.ModeSubscribe {
			<-answering
		}
		echo(w, r)
	})
	wantStatus(t, s.post(t, "hub.mode", "subscribe", "hub.topic", s.url+"/%74opic", "hub.callback", slow.url), http.StatusAccepted)
	slow.nextAsked(t)
	if err := s.EndSubscriptions(t.Context(), topic, "the set has become private"); err != nil {
		t.Fatal(err)
	}
	if q := one.nextAsked(t); q.Get("hub.mode") != websub.ModeDenied || q.Get("hub.reason") != "the set has become private" {
		t.Errorf("the subscriber is asked %v", q)
	}
	if n := s.Subscriptions(); n != 1 {
		t.Errorf("%d subscriptions are left, want that to the other topic", n)
	}
	if requests := s.requests(t); len(requests) > 0 {
		t.Errorf("pending: %v", requests)
	}
	close(answering)
	s.publish(t, topic, "text/plain", "secret")
	slow.quiet(t)
	one.quiet(t)
	if n := s.Subscriptions(); n != 1 {
		t.Errorf("%d subscriptions after the confirmation", n)
	}
}

// TestEndSubscriptionsDuringVerification: neither a request whose callback is being asked nor a later one of the same
// subscriber has an effect afterwards.
func TestEndSubscriptionsDuringVerification(t *testing.T) {
	t.Parallel()
	s := start(t, hub.NewMem(), nil)
	answer := make(chan struct{})
	sub := subscribe(t, func(w http.ResponseWriter, r *http.Request) {
		<-answer
		echo(w, r)
	})
	wantStatus(t, s.post(t, "hub.mode", "subscribe", "hub.topic", topicA, "hub.callback", sub.url), 202)
	sub.nextAsked(t)
	wantStatus(t, s.post(t, "hub.mode", "subscribe", "hub.topic", topicA, "hub.callback", sub.url), 202)
	if err := s.EndSubscriptions(t.Context(), topicA, "for readers only"); err != nil {
		t.Fatal(err)
	}
	close(answer)
	sub.quiet(t)
	if n := s.Subscriptions(); n > 0 {
		t.Errorf("%d subscriptions, want none", n)
	}
}

// TestEndSubscriptionsOfAKilledHub: subscriptions and requests end also in shards that still belong to a hub that was
// killed.
func TestEndSubscriptionsOfAKilledHub(t *testing.T) {
	t.Parallel()
	all := newShared()
	sub, other := subscribe(t, nil), subscribe(t, nil)
	row := func(topic, callback string) hubstore.Subscription {
		return hubstore.Subscription{Key: hubstore.KeyOf(topic, callback), Topic: topic, Callback: callback, Created: time.Now(), Expires: time.Now().Add(time.Hour)}
	}
	pending := hubstore.Request{Key: hubstore.KeyOf(topicA, other.url), Mode: "subscribe", Topic: topicA, Callback: other.url, Lease: time.Hour, At: time.Now()}
	if err := all.Mem.Save(t.Context(), hubstore.Changes{
		Put: []hubstore.Subscription{row(topicA, sub.url), row(topicA+"/other", sub.url)}, Ask: []hubstore.Request{pending},
	}); err != nil {
		t.Fatal(err)
	}
	all.owners["killed"] = time.Now().Add(2 * time.Second)
	for i := range all.shards {
		all.shards[i] = "killed"
	}
	s := start(t, &member{shared: all}, nil)
	if err := s.EndSubscriptions(t.Context(), topicA, "for readers only"); err == nil {
		t.Error("no error, although another hub may have loaded them")
	}
	if q := sub.nextAsked(t); q.Get("hub.mode") != websub.ModeDenied || q.Get("hub.topic") != topicA {
		t.Errorf("asked %v, want a denial", q)
	}
	if err := s.EndSubscriptions(t.Context(), topicA, "for readers only"); err != nil {
		t.Error(err)
	}
	eventually(t, "the shards", func() bool { return s.Shards() == hubstore.Shards })
	eventually(t, "the other subscription", func() bool { return s.Subscriptions() == 1 })
	other.quiet(t)
	if n := len(s.requests(t)); n > 0 {
		t.Errorf("%d requests are left", n)
	}
}

// TestOwnTopicsAreNotChecked: with CheckTopics, the hub does not ask for topics that its own
// process publishes: they may be for readers only.
func TestOwnTopicsAreNotChecked(t *testing.T) {
	t.Parallel()
	guarded := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(guarded.Close)
	s := start(t, hub.NewMem(), func(o *hub.Options) { o.CheckTopics, o.OwnTopics = true, []string{guarded.URL + "/own/"} })
	sub := subscribe(t, nil)
	s.subscribed(t, sub, guarded.URL+"/own/topic")
	other := subscribe(t, nil)
	wantStatus(t, s.post(t, "hub.mode", "subscribe", "hub.topic", guarded.URL+"/other", "hub.callback", other.url), http.StatusAccepted)
	if q := other.nextAsked(t); q.Get("hub.mode") != websub.ModeDenied {
		t.Errorf("asked %v, want a denial", q)
	}
}
