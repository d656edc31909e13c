package hub_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/hub"
	"lockstep/hub/hubstore"
	"lockstep/websub"
)

// otherTopic is a topic beside topicA.
const otherTopic = "http://topics.example/other"

// A signing is a signed publication as it is sent.
type signing struct {
	topic, date, body, signature string
}

// sign signs a publication as its publisher does.
func sign(t *testing.T, method, token, topic string, at time.Time, body string) signing {
	t.Helper()
	date := at.UTC().Format(http.TimeFormat)
	signature, err := websub.SignPublication(method, []byte(token), topic, date, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return signing{topic, date, body, signature}
}

// send returns the status and the text of the hub's answer.
func (p signing) send(s *site) (int, string) {
	r := httptest.NewRequest(http.MethodPost, s.url, strings.NewReader(p.body))
	r.Header.Set("Content-Type", "application/xml")
	r.Header.Set("Link", "<"+p.topic+`>; rel="self"`)
	if p.date != "" {
		r.Header.Set("Date", p.date)
	}
	r.Header.Set("X-Hub-Signature", p.signature)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// TestSignedPublication: a signature authorizes one publication of this body,
// of this topic, now (WS-X-09).
func TestSignedPublication(t *testing.T) {
	t.Parallel()
	const token = "open-sesame"
	began := time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)
	var clock atomic.Pointer[time.Time]
	clock.Store(&began)
	store := hubstore.NewMem()
	change := func(o *hub.Options) {
		o.PublishTokens, o.PublishOpen = publishTokens("first", token), false
		o.Clock = func() time.Time { return *clock.Load() }
	}
	s := start(t, store, change)
	want := func(what string, p signing, status int, reason string) {
		t.Helper()
		if got, text := p.send(s); got != status || !strings.Contains(text, reason) {
			t.Errorf("%s: %d %s, want %d %s", what, got, text, status, reason)
		}
	}
	want("right after the start", sign(t, "sha256", token, topicA, began.Add(5*time.Second), "x"), 503, "before this hub started")

	now := began.Add(time.Hour)
	clock.Store(&now)
	good := sign(t, "sha256", token, topicA, now, "<urlset/>")
	elsewhere, later, other := good, good, good
	elsewhere.topic, later.date, other.body = otherTopic, now.Add(time.Second).Format(http.TimeFormat), "<urlset></urlset>"
	want("at another topic", elsewhere, 403, "the signature is not")
	want("with another date", later, 403, "the signature is not")
	want("with another body", other, 403, "the signature is not")
	want("signed", good, 202, "")
	want("the same again", good, 409, "accepted before")
	shouted := good
	shouted.signature = "SHA256=" + strings.ToUpper(good.signature[len("sha256="):])
	want("the same again, otherwise spelt", shouted, 409, "accepted before")
	want("by the other token", sign(t, "sha512", "first", otherTopic, now, "<urlset/>"), 202, "")
	want("by a weak method", sign(t, "sha1", token, topicA, now, "y"), 403, "the signature is not")
	want("by another key", sign(t, "sha256", "another", topicA, now, "y"), 403, "the signature is not")
	want("too old", sign(t, "sha256", token, topicA, now.Add(-6*time.Minute), "y"), 403, "a signature is good for 5m0s")
	want("from the future", sign(t, "sha256", token, topicA, now.Add(time.Minute), "y"), 403, "a signature is good for 5m0s")
	undated := sign(t, "sha256", token, topicA, now, "y")
	undated.date = ""
	want("without a date", undated, 403, "one Date header")
	body := undated
	body.date = now.Format(http.TimeFormat)
	body.signature, _ = websub.Sign("sha256", []byte(token), []byte("y"))
	want("over the body alone", body, 403, "over topic, date and body")
	if n := len(s.messages(t)); n != 2 {
		t.Errorf("%d messages were accepted, want 2", n)
	}

	// A restarted hub does not know what was accepted before: it refuses what may
	// have been.
	s.stop()
	again := now.Add(time.Second)
	clock.Store(&again)
	s = start(t, store, change)
	want("the same after a restart", good, 503, "before this hub started")
	soon := again.Add(time.Minute)
	clock.Store(&soon)
	want("the same a minute later", good, 503, "before this hub started")
	want("signed again", sign(t, "sha256", token, topicA, soon, "<urlset/>"), 202, "")
}

// TestSignedPublicationPrefix: a signature covers the topics of the token it
// was made with.
func TestSignedPublicationPrefix(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)
	var clock atomic.Pointer[time.Time]
	clock.Store(&now)
	s := start(t, hubstore.NewMem(), func(o *hub.Options) {
		o.PublishOpen, o.PublishTokens = false, []hub.PublishToken{{Token: "narrow", Prefixes: []string{otherTopic}}}
		o.Clock = func() time.Time { return *clock.Load() }
	})
	later := now.Add(time.Hour)
	clock.Store(&later)
	if got, text := sign(t, "sha256", "narrow", topicA, later, "x").send(s); got != 403 || !strings.Contains(text, "may not publish the topic") {
		t.Errorf("another topic: %d %s, want 403", got, text)
	}
	if got, text := sign(t, "sha256", "narrow", otherTopic, later, "x").send(s); got != 202 {
		t.Errorf("its topic: %d %s, want 202", got, text)
	}
}

// TestSignedPublicationShared: hubs that share their state accept a signed
// publication once, whichever hub gets it, and right after their start.
func TestSignedPublicationShared(t *testing.T) {
	t.Parallel()
	store := half{marked: newMarked(), digests: new(digests)}
	odd := store
	odd.odd = true
	change := func(o *hub.Options) { o.PublishTokens, o.PublishOpen = publishTokens("token"), false }
	one, two := start(t, store, change), start(t, odd, change)
	p := sign(t, "sha256", "token", topicA, time.Now(), "x")
	for i, tt := range []struct {
		site *site
		want int
	}{{one, 202}, {two, 409}, {one, 409}} {
		if got, text := p.send(tt.site); got != tt.want {
			t.Errorf("request %d: %d %s, want %d", i, got, text, tt.want)
		}
	}
	two.stop()
	two = start(t, odd, change)
	if got, text := p.send(two); got != 409 {
		t.Errorf("after a restart: %d %s, want 409", got, text)
	}
	if n := len(one.messages(t)); n != 1 {
		t.Errorf("%d messages were accepted, want 1", n)
	}
}

// messages returns the stored messages of both topics.
func (s *site) messages(t *testing.T) (all []hubstore.Message) {
	t.Helper()
	for _, topic := range []string{topicA, otherTopic} {
		for m, err := range s.store.Log(t.Context(), topic, 0) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, m)
		}
	}
	return all
}
