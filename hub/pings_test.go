package hub_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/hub"
	"lockstep/hub/hubstore"
	"lockstep/internal/faultclock"
)

// TestPing: a ping makes the hub fetch the topic and distribute it unchanged
// (WS-P-03, RN-PB-03, WS-C-02), with a User-Agent; unchanged content is not
// distributed again.
func TestPing(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), func(o *hub.Options) { o.UserAgent = "hub-under-test" })
	var body atomic.Value
	body.Store("one")
	p := publishPage(t, s.url, `text/x-Odd; Charset="x"`, func() string { return body.Load().(string) })
	sub := subscribe(t, nil)
	s.subscribed(t, sub, p.url)
	for _, pairs := range [][]string{ // WS-P-02: either parameter, both, and several
		{"hub.url", p.url}, {"hub.topic", p.url}, {"hub.url", p.url, "hub.topic", p.url}, {"hub.url", p.url, "hub.url", "http://127.0.0.1:1/other"},
	} {
		body.Store(fmt.Sprint(pairs))
		wantStatus(t, s.post(t, append(pairs, "hub.mode", "publish")...), 202)
		d := sub.nextTaken(t)
		checkDelivery(t, s, p, d, "")
		if got := (<-p.fetched).Get("User-Agent"); got != "hub-under-test" {
			t.Errorf("fetched with User-Agent %q", got)
		}
	}
	s.ping(t, p.url)
	sub.quiet(t)
	<-p.fetched
	if _, unchanged, _ := s.Fetches(); unchanged != 1 {
		t.Errorf("%d fetches found nothing new, want 1", unchanged)
	}
	eventually(t, "nothing under way", func() bool { return s.Pinged() == 0 })
}

// TestConditional: validators are sent back, unless the resource may have
// changed within the second that they name.
func TestConditional(t *testing.T) {
	t.Parallel()
	const undated = 0
	tests := []struct {
		name, etag   string
		age          time.Duration // of the modification, when the answer is sent
		want, wantIf bool
	}{
		{"tag", `"a"`, undated, true, false},
		{"weak tag", `W/"a"`, undated, true, false},
		{"tag and old date", `"a"`, time.Hour, true, true},
		{"old date", "", time.Hour, false, true},
		{"date of now", "", time.Nanosecond, false, false},
		{"tag and date of now", `"a"`, time.Nanosecond, false, false},
		{"date to come", "", -time.Hour, false, false},
		{"nothing", "", undated, false, false},
	}
	for _, tt := range tests {
		s := start(t, hubstore.NewMem(), nil)
		p := publishPage(t, s.url, "text/plain", says("x"))
		p.head = func(h http.Header) {
			if tt.etag != "" {
				h.Set("ETag", tt.etag)
			}
			if tt.age != undated {
				h.Set("Last-Modified", time.Now().Add(-tt.age).UTC().Format(http.TimeFormat))
			}
		}
		sub := subscribe(t, nil)
		s.subscribed(t, sub, p.url)
		s.ping(t, p.url)
		sub.nextTaken(t)
		if h := <-p.fetched; h.Get("If-None-Match") != "" || h.Get("If-Modified-Since") != "" {
			t.Errorf("%s: the first fetch is conditional: %v", tt.name, h)
		}
		eventually(t, "done", func() bool { return s.Pinged() == 0 })
		s.ping(t, p.url)
		h := <-p.fetched
		if got := h.Get("If-None-Match"); (got != "") != tt.want || tt.want && got != tt.etag {
			t.Errorf("%s: If-None-Match = %q", tt.name, got)
		}
		if got := h.Get("If-Modified-Since"); (got != "") != tt.wantIf {
			t.Errorf("%s: If-Modified-Since = %q", tt.name, got)
		}
		s.stop()
	}
}

// TestNotModified: 304 is not distributed.
func TestNotModified(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), nil)
	var fetched atomic.Int64
	topic := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fetched.Add(1)
		w.Header().Set("ETag", `"a"`)
		if r.Header.Get("If-None-Match") == `"a"` {
			w.WriteHeader(304)
			return
		}
		_, _ = io.WriteString(w, "x")
	}))
	t.Cleanup(topic.Close)
	sub := subscribe(t, nil)
	s.subscribed(t, sub, topic.URL)
	s.ping(t, topic.URL)
	sub.nextTaken(t)
	for n := int64(2); n < 5; n++ {
		eventually(t, "done", func() bool { return s.Pinged() == 0 })
		s.ping(t, topic.URL)
		eventually(t, "fetched", func() bool { return fetched.Load() == n })
	}
	sub.quiet(t)
}

// TestPingsDuringFetch: any number of pings during a fetch cause exactly one
// more fetch, which sees the announced change.
func TestPingsDuringFetch(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), nil)
	var fetches, content atomic.Int64
	begun, goOn := make(chan struct{}, 10), make(chan struct{})
	topic := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetches.Add(1)
		body := fmt.Sprint(content.Load())
		begun <- struct{}{}
		<-goOn
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(topic.Close)
	sub := subscribe(t, nil)
	s.subscribed(t, sub, topic.URL)
	content.Store(1)
	s.ping(t, topic.URL)
	<-begun
	for i := range int64(20) {
		content.Store(2 + i)
		s.ping(t, topic.URL)
	}
	close(goOn)
	if d := sub.nextTaken(t); string(d.body) != "1" {
		t.Errorf("delivered %q first, want what was there when the first fetch began", d.body)
	}
	if d := sub.nextTaken(t); string(d.body) != "21" {
		t.Errorf("delivered %q then, want the newest", d.body)
	}
	sub.quiet(t)
	if n := fetches.Load(); n != 2 {
		t.Errorf("%d fetches, want 2", n)
	}
}

// TestPingWithoutSubscriptions: it is accepted, but nothing is fetched (WS-P-04)
// or stored.
func TestPingWithoutSubscriptions(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), nil)
	p := publishPage(t, s.url, "text/plain", says("x"))
	s.ping(t, p.url)
	time.Sleep(100 * time.Millisecond)
	if n := len(p.fetched); n != 0 {
		t.Errorf("%d fetches, want none", n)
	}
	for topic := range s.store.Topics(t.Context()) {
		t.Errorf("the store has a topic %s", topic.URL)
	}
	if n := s.Pinged(); n != 0 {
		t.Errorf("%d topics under way, want none", n)
	}
}

// TestForgottenContent: content that was distributed before a change without
// subscribers is new to clients that subscribe afterwards.
func TestForgottenContent(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), nil)
	p := publishPage(t, s.url, "text/plain", says("x"))
	first, second := subscribe(t, nil), subscribe(t, nil)
	s.subscribed(t, first, p.url)
	s.ping(t, p.url)
	first.nextTaken(t)
	wantStatus(t, s.post(t, "hub.mode", "unsubscribe", "hub.topic", p.url, "hub.callback", first.url), 202)
	eventually(t, "ended", func() bool { return len(s.subscriptions(t)) == 0 && len(s.requests(t)) == 0 })
	s.ping(t, p.url) // announces other content, which was not fetched
	s.subscribed(t, second, p.url)
	s.ping(t, p.url)
	second.nextTaken(t)
}

// TestFetchFails: failed fetches are retried with growing waits (WS-P-05), a
// new ping causes an attempt at once, and meanwhile the error is in the state
// of the topic.
func TestFetchFails(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), func(o *hub.Options) { o.RetryFirst = 10 * time.Millisecond })
	var left atomic.Int64
	left.Store(3)
	topic := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if left.Add(-1) >= 0 {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "x")
	}))
	t.Cleanup(topic.Close)
	sub := subscribe(t, nil)
	s.subscribed(t, sub, topic.URL)
	s.ping(t, topic.URL)
	eventually(t, "the error is told", func() bool {
		row, _ := s.Log(topic.URL)
		return strings.Contains(string(row.State), "503")
	})
	if d := sub.nextTaken(t); string(d.body) != "x" {
		t.Errorf("delivered %q", d.body)
	}
	eventually(t, "the error is gone", func() bool {
		row, _ := s.Log(topic.URL)
		return !strings.Contains(string(row.State), "error")
	})
}

// TestFetchGivenUp: after RetryFor, or at once for a permanent failure, a topic
// is given up; the next ping causes a new fetch.
func TestFetchGivenUp(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), func(o *hub.Options) {
		o.RetryFirst, o.RetryMost, o.RetryFor, o.MaxBody = 5*time.Millisecond, 100*time.Millisecond, 2*time.Second, 1000 // there are retries also if a fetch takes a second
	})
	var status, fetches atomic.Int64
	topic := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fetches.Add(1)
		switch code := int(status.Load()); {
		case code == 302:
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		case code == 1:
			_, _ = io.WriteString(w, strings.Repeat("x", 1001))
		default:
			w.WriteHeader(code)
			_, _ = io.WriteString(w, "x")
		}
	}))
	t.Cleanup(topic.Close)
	sub := subscribe(t, nil)
	s.subscribed(t, sub, topic.URL)
	for _, code := range []int64{404, 500, 410, 302, 1} {
		status.Store(code)
		fetches.Store(0)
		s.ping(t, topic.URL)
		eventually(t, fmt.Sprint(code, " given up"), func() bool { return fetches.Load() > 0 && s.Pinged() == 0 })
		if n := fetches.Load(); (n <= 2) != (code < 404 || code == 410) {
			t.Errorf("status %d: %d fetches", code, n)
		}
		row, _ := s.Log(topic.URL)
		if !strings.Contains(string(row.State), `"error"`) || strings.Contains(string(row.State), "pinged") {
			t.Errorf("status %d: state %s, want the error and no ping", code, row.State)
		}
	}
	sub.quiet(t)
	status.Store(200)
	s.ping(t, topic.URL)
	sub.nextTaken(t)
}

// TestPingSurvives: a ping that was answered with 202 is handled after a
// restart.
func TestPingSurvives(t *testing.T) {
	t.Parallel()
	store := hubstore.NewMem()
	first := start(t, store, nil)
	var up atomic.Bool
	hold := make(chan struct{})
	begun := make(chan struct{}, 10)
	topic := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !up.Load() {
			begun <- struct{}{}
			select {
			case <-hold:
			case <-r.Context().Done():
			}
			return
		}
		_, _ = io.WriteString(w, "x")
	}))
	t.Cleanup(topic.Close)
	t.Cleanup(func() { close(hold) })
	sub := subscribe(t, nil)
	first.subscribed(t, sub, topic.URL)
	first.ping(t, topic.URL)
	<-begun
	first.stop()
	up.Store(true)
	second := start(t, store, nil)
	if d := sub.nextTaken(t); string(d.body) != "x" {
		t.Errorf("delivered %q", d.body)
	}
	eventually(t, "done", func() bool { return second.Pinged() == 0 })
	row, _ := second.Log(topic.URL)
	if strings.Contains(string(row.State), "pinged") {
		t.Errorf("state %s, want no ping any more", row.State)
	}
	sub.quiet(t)
}

// TestCanonicalTopic: a topic that names another as canonical delivers no
// content to the other's subscribers, but causes a fetch from its address; two
// topics that name each other cause no endless loop.
func TestCanonicalTopic(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), nil)
	truth := publishPage(t, s.url, "text/plain", says("the truth"))
	alias := publishPage(t, s.url, "text/plain", says("a lie"))
	truth.head = func(h http.Header) { h["Link"] = []string{"<" + alias.url + `>; rel="self"`} }
	alias.head = func(h http.Header) { h["Link"] = []string{"<" + truth.url + `>; rel="self"`} }
	a, b := subscribe(t, nil), subscribe(t, nil)
	s.subscribed(t, a, truth.url)
	s.subscribed(t, b, alias.url)
	s.ping(t, alias.url)
	if d := a.nextTaken(t); string(d.body) != "the truth" {
		t.Errorf("delivered %q, want what is at the topic itself", d.body)
	}
	if d := b.nextTaken(t); string(d.body) != "a lie" {
		t.Errorf("delivered %q, want what is at the topic itself", d.body)
	}
	a.quiet(t)
	b.quiet(t)
	if n := len(truth.fetched) + len(alias.fetched); n != 2 {
		t.Errorf("%d fetches, want one of each", n)
	}
}

// TestTopicAtPrivateAddress: the hub fetches no topic from a private address
// (WS-SEC-02), not even behind a redirect.
func TestTopicAtPrivateAddress(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), func(o *hub.Options) { o.AllowPrivate = false })
	p := publishPage(t, s.url, "text/plain", says("x"))
	for _, topic := range []string{p.url, strings.Replace(p.url, "127.0.0.1", "localhost", 1), "http://169.254.169.254/latest/meta-data"} {
		wantStatus(t, s.post(t, "hub.mode", "publish", "hub.url", topic), 403)
	}
	if len(p.fetched) > 0 {
		t.Error("it was fetched")
	}
}

// TestCheckTopics: with CheckTopics, the first subscription to a topic is
// accepted only if the topic names this hub (WS-SEC-05, WS-H-05, WS-V-01);
// others are denied.
func TestCheckTopics(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]hubstore.Store{"one hub": hubstore.NewMem(), "a store that several hubs share": &member{shared: newShared()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, store, func(o *hub.Options) { o.CheckTopics = true })
			s.VerifyWaits()
			ours := publishPage(t, s.url, "text/html", says("<p>x</p>"))
			theirs := publishPage(t, "http://hub.example/", "text/html", says("<p>x</p>"))
			sub, stranger := subscribe(t, nil), subscribe(t, nil)
			s.subscribed(t, sub, ours.url)
			for _, topic := range []string{theirs.url, "http://127.0.0.1:1/nothing"} {
				wantStatus(t, s.post(t, "hub.mode", "subscribe", "hub.topic", topic, "hub.callback", stranger.url), 202)
				if q := stranger.nextAsked(t); q.Get("hub.mode") != "denied" || q.Get("hub.topic") != topic || q.Get("hub.reason") == "" {
					t.Errorf("asked %v, want a denial with a reason", q)
				}
			}
			eventually(t, "settled", func() bool { return len(s.requests(t)) == 0 })
			if n := len(s.subscriptions(t)); n != 1 {
				t.Errorf("%d subscriptions, want one", n)
			}
		})
	}
}

// serveAt serves at another loopback address, which is another host.
func serveAt(t *testing.T, address string, h http.Handler) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Skip(err) // the system has only one such address
	}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

// TestTopicChecksAreLimited: whatever topics and callbacks requests to subscribe invent, the hub
// asks a host whose topics do not name it no more often than a callback's host that does not
// confirm, and few times at once, also if topics at other hosts redirect there (WS-SEC-03).
func TestTopicChecksAreLimited(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]int64{"direct": 2 * 100, "redirected": 100} { // a check sends HEAD and GET
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked, now, most atomic.Int64
			topics := serveAt(t, "127.0.0.2:0", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				asked.Add(1)
				if n := now.Add(1); n > most.Load() {
					most.Store(n)
				}
				time.Sleep(time.Millisecond)
				now.Add(-1)
			}))
			if name == "redirected" {
				topics = serveAt(t, "127.0.0.3:0", http.RedirectHandler(topics, http.StatusFound))
			}
			s := start(t, hubstore.NewMem(), func(o *hub.Options) {
				o.CheckTopics, o.Clock = true, faultclock.New(time.Now()).Now // it stands still: no further request is allowed
			})
			for i := range 130 {
				wantStatus(t, s.post(t, "hub.mode", "subscribe", "hub.topic", fmt.Sprintf("%s/%d", topics, i), "hub.callback", fmt.Sprintf("http://127.1.0.%d:9/cb", i)), 202)
			}
			eventually(t, "the checks", func() bool { return asked.Load() >= limit })
			s.subscribed(t, subscribe(t, nil), publishPage(t, s.url, "text/html", says("x")).url) // other hosts are asked
			if n := asked.Load(); n > limit || most.Load() > 4 {
				t.Errorf("the host was asked %d times, up to %d times at once; want %d and 4", n, most.Load(), limit)
			}
		})
	}
}

// TestRedirectedTopic: a topic that moved is fetched from its new address
// (WS-P-06) and distributed as the topic that was subscribed to.
func TestRedirectedTopic(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), nil)
	p := publishPage(t, s.url, "text/plain", says("x"))
	moved := httptest.NewServer(http.RedirectHandler(p.url, http.StatusMovedPermanently))
	t.Cleanup(moved.Close)
	sub := subscribe(t, nil)
	s.subscribed(t, sub, moved.URL)
	s.ping(t, moved.URL)
	if d := sub.nextTaken(t); string(d.body) != "x" || !strings.Contains(d.header.Get("Link"), "<"+moved.URL+`>; rel="self"`) {
		t.Errorf("delivered %q with %q", d.body, d.header.Get("Link"))
	}
}

// TestManyFirstSubscriptions: of many that subscribe at the same time to a topic that names this
// hub, none waits for the limit of checks: the topic was found to name the hub.
func TestManyFirstSubscriptions(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), func(o *hub.Options) {
		o.CheckTopics, o.Clock = true, faultclock.New(time.Now()).Now // it stands still
	})
	p := publishPage(t, s.url, "text/html", says("x"))
	all := make(chan struct{})
	p.head = func(http.Header) { <-all }
	sub := subscribe(t, nil)
	const n = 130
	for i := range n {
		wantStatus(t, s.post(t, "hub.mode", "subscribe", "hub.topic", p.url, "hub.callback", fmt.Sprintf("%s?%d", sub.url, i)), 202)
	}
	close(all)
	eventually(t, "all are subscribed", func() bool { return len(s.subscriptions(t)) == n })
}
