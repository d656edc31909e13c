package hub_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/hub"
	"lockstep/hub/hubstore"
)

// ask sends a request without a connection.
func (s *site) ask(mode, topic, callback, peer string) *httptest.ResponseRecorder {
	form := url.Values{"hub.mode": {mode}, "hub.topic": {topic}, "hub.callback": {callback}}
	r := httptest.NewRequest(http.MethodPost, s.url, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.RemoteAddr = peer
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// TestLimitPerHost: the number of callbacks at one host is limited (WS-SEC-03);
// renewals do not count again, and other hosts are unaffected.
func TestLimitPerHost(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), func(o *hub.Options) { o.MaxPerHost = 20 })
	sub := subscribe(t, nil)
	for i := range 20 {
		if w := s.ask("subscribe", topicA, fmt.Sprint(sub.url, "?", i), "203.0.113.9:1"); w.Code != 202 {
			t.Fatalf("request %d: %d %s", i, w.Code, w.Body)
		}
	}
	for i := range 20 { // while they are pending, and when they are verified
		w := s.ask("subscribe", topicA, fmt.Sprint(sub.url, "?more", i), "198.51.100.1:1")
		if w.Code != 429 || w.Header().Get("Retry-After") == "" {
			t.Fatalf("one more: %d %s, Retry-After %q, want 429 and when to come back", w.Code, w.Body, w.Header().Get("Retry-After"))
		}
		if i == 10 {
			eventually(t, "all verified", func() bool { return len(s.subscriptions(t)) == 20 })
		}
	}
	if w := s.ask("subscribe", topicA, sub.url+"?5", "203.0.113.9:1"); w.Code != 202 {
		t.Errorf("a renewal: %d %s", w.Code, w.Body)
	}
	if w := s.ask("unsubscribe", topicA, sub.url+"?unknown", "203.0.113.9:1"); w.Code != 202 {
		t.Errorf("unsubscribe something unknown: %d %s", w.Code, w.Body)
	}
	if w := s.ask("subscribe", topicA, strings.Replace(sub.url, "127.0.0.1", "127.0.0.2", 1), "203.0.113.9:1"); w.Code != 202 {
		t.Errorf("at another host: %d %s", w.Code, w.Body)
	}
	if w := s.ask("unsubscribe", topicA, sub.url+"?6", "203.0.113.9:1"); w.Code != 202 {
		t.Errorf("unsubscribe: %d %s", w.Code, w.Body)
	}
	eventually(t, "one less", func() bool { return len(s.subscriptions(t)) == 19 })
	if w := s.ask("subscribe", topicA, sub.url+"?new", "203.0.113.9:1"); w.Code != 202 {
		t.Errorf("in its place: %d %s", w.Code, w.Body)
	}
}

// TestLimitInAll: the total number of subscriptions is limited.
func TestLimitInAll(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), func(o *hub.Options) { o.MaxSubscriptions = 5 })
	for i := range 10 {
		w := s.ask("subscribe", topicA, fmt.Sprintf("http://127.0.1.%d:1/", i), "203.0.113.9:1")
		if want := 202; i >= 5 {
			want = 503
			if w.Code != want || w.Header().Get("Retry-After") == "" {
				t.Errorf("request %d: %d %s, want %d and when to come back", i, w.Code, w.Body, want)
			}
		}
	}
	if n := len(s.requests(t)); n != 5 {
		t.Errorf("%d requests are kept, want 5", n)
	}
}

// TestFlood: of very many requests for one host, or from one address, few are
// accepted and little is stored (WS-SEC-03). The callback is asked no more
// often than the rate limit allows.
func TestFlood(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), func(o *hub.Options) { o.MaxPerHost = 300 })
	s.AskRate(1000, 10)
	var asked atomic.Int64
	victim := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(404)
	}))
	t.Cleanup(victim.Close)
	const n = 3000
	flood := func(callback, peer func(i int) string) (accepted, limited int64) {
		var ok, no atomic.Int64
		var wg sync.WaitGroup
		for part := range 50 {
			wg.Go(func() {
				for i := part; i < n; i += 50 {
					switch w := s.ask("subscribe", topicA, callback(i), peer(i)); w.Code {
					case 202:
						ok.Add(1)
					case 429, 503:
						no.Add(1)
					}
				}
			})
		}
		wg.Wait()
		return ok.Load(), no.Load()
	}
	began := time.Now()
	ok, no := flood(func(i int) string { return fmt.Sprint(victim.URL, "/", i) }, func(i int) string { return fmt.Sprintf("203.0.%d.%d:1", i>>8&255, i&255) })
	calls, took := float64(asked.Load()), time.Since(began).Seconds()
	if ok < 300 || float64(ok) > 300+200+20*took || ok+no != n {
		t.Errorf("at one host %d were accepted and %d limited of %d in %.1f s, want about 300", ok, no, n, took)
	}
	if calls > 100+10*took+40 {
		t.Errorf("the host was asked %.0f times in %.1f s, want at most 100 and 10 a second", calls, took)
	}
	began = time.Now()
	ok, no = flood(func(i int) string { return fmt.Sprintf("http://127.7.%d.%d:1/", i>>8&255, i&255) }, func(int) string { return "[2001:db8::7]:1" })
	took = time.Since(began).Seconds()
	if ok < 900 || float64(ok) > 1000+10*took+40 || ok+no != n {
		t.Errorf("from one address %d were accepted and %d limited of %d in %.1f s, want about 1,000", ok, no, n, took)
	}
	if kept := len(s.requests(t)); kept > 2500 {
		t.Errorf("%d requests are kept", kept)
	}
	if n, _ := s.Pending(); n > 2500 {
		t.Errorf("%d requests are held in memory", n)
	}
}

// TestFloodAndRenewal: a subscriber can renew and end its subscription while
// others flood the hub with requests in its name.
func TestFloodAndRenewal(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), func(o *hub.Options) { o.MaxPerHost = 500 })
	sub := subscribe(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.RawQuery, "forged") {
			w.WriteHeader(404)
			return
		}
		echo(w, r)
	})
	s.subscribed(t, sub, topicA)
	for i := range 600 {
		s.ask("subscribe", topicA, fmt.Sprint(sub.url, "?forged", i), fmt.Sprintf("203.0.113.%d:1", i%256))
	}
	began := time.Now()
	wantStatus(t, s.post(t, "hub.mode", "unsubscribe", "hub.topic", topicA, "hub.callback", sub.url), 202)
	eventually(t, "ended", func() bool { return len(s.subscriptions(t)) == 0 })
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("ended after %v", took)
	}
}

// TestPingLimit: pings are rate-limited, by topics (WS-SEC-04).
func TestPingLimit(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), func(o *hub.Options) { o.PublishTokens, o.PublishOpen = publishTokens("token"), false })
	var topics []string
	for i := range 1000 {
		topics = append(topics, fmt.Sprint("hub.url=http://topics.example/", i))
	}
	limited := 0
	for range 5 {
		r := s.send(t, http.MethodPost, "hub.mode=publish&"+strings.Join(topics, "&"), "Content-Type", "application/x-www-form-urlencoded", "Authorization", "Bearer token")
		if r.StatusCode == 429 && r.Header.Get("Retry-After") != "" {
			limited++
		} else {
			wantStatus(t, r, 202)
		}
	}
	if limited == 0 {
		t.Error("5,000 topics at once are not limited")
	}
	r := s.send(t, http.MethodPost, "hub.mode=publish&hub.url=http://topics.example/one-more&"+strings.Join(topics, "&"), "Content-Type", "application/x-www-form-urlencoded", "Authorization", "Bearer token")
	wantStatus(t, r, 400)
}

// TestFullLog: when too many messages wait for delivery, the hub temporarily
// accepts no more.
func TestFullLog(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), func(o *hub.Options) { o.MaxLog = 1000 })
	s.publish(t, topicA, "text/plain", strings.Repeat("x", 900))
	r := s.send(t, http.MethodPost, strings.Repeat("x", 900), "Content-Type", "text/plain", "Link", "<"+topicA+`>; rel="self"`)
	if body := text(r); r.StatusCode != 503 || r.Header.Get("Retry-After") == "" || !strings.Contains(body, "too many messages") {
		t.Errorf("%d %q, Retry-After %q, want 503 and why", r.StatusCode, body, r.Header.Get("Retry-After"))
	}
}

// A broken store fails on request.
type broken struct {
	hubstore.Store
	down atomic.Bool
}

var errDown = errors.New("disk full")

func (b *broken) Save(ctx context.Context, c hubstore.Changes) error {
	if b.down.Load() {
		return errDown
	}
	return b.Store.Save(ctx, c)
}

func (b *broken) Append(ctx context.Context, m []hubstore.Message) ([]int64, error) {
	if b.down.Load() {
		return nil, errDown
	}
	return b.Store.Append(ctx, m)
}

// TestBrokenStore: requests that cannot be made durable are not accepted, and
// the hub continues when the store works again.
func TestBrokenStore(t *testing.T) {
	t.Parallel()
	store := &broken{Store: hubstore.NewMem()}
	s := start(t, store, nil)
	p := publishPage(t, s.url, "text/plain", says("x"))
	sub := subscribe(t, nil)
	s.subscribed(t, sub, p.url)
	store.down.Store(true)
	for name, r := range map[string]*http.Response{
		"subscribe": s.post(t, "hub.mode", "subscribe", "hub.topic", p.url, "hub.callback", sub.url),
		"ping":      s.post(t, "hub.mode", "publish", "hub.topic", p.url),
		"publish":   s.send(t, http.MethodPost, "x", "Content-Type", "text/plain", "Link", "<"+p.url+`>; rel="self"`),
	} {
		if body := text(r); r.StatusCode != 503 || r.Header.Get("Retry-After") == "" || strings.Contains(body, "disk") {
			t.Errorf("%s: %d %q, want 503, when to come back, and nothing of our disks", name, r.StatusCode, body)
		}
	}
	sub.quiet(t)
	store.down.Store(false)
	s.ping(t, p.url)
	sub.nextTaken(t)
}

// TestStoreFailsMeanwhile: accepted requests are carried out once the store
// works again, though writing the result failed.
func TestStoreFailsMeanwhile(t *testing.T) {
	t.Parallel()
	store := &broken{Store: hubstore.NewMem()}
	s := start(t, store, func(o *hub.Options) { o.RetryFirst = 20 * time.Millisecond })
	s.VerifyWaits(20*time.Millisecond, 20*time.Millisecond)
	var failing atomic.Bool // the disk fills up while another callback is asked
	fill := func() {
		if failing.Load() {
			store.down.Store(true)
		}
	}
	sub := subscribe(t, func(w http.ResponseWriter, r *http.Request) {
		fill()
		echo(w, r)
	})
	p := publishPage(t, s.url, "text/plain", func() string { fill(); return "x" })

	failing.Store(true)
	wantStatus(t, s.post(t, "hub.mode", "subscribe", "hub.topic", p.url, "hub.callback", sub.url), 202)
	for range 3 {
		sub.nextAsked(t)
	}
	if n := len(s.subscriptions(t)); n != 0 {
		t.Errorf("%d subscriptions, want none while nothing can be written", n)
	}
	failing.Store(false)
	store.down.Store(false)
	eventually(t, "subscribed", func() bool { return len(s.subscriptions(t)) == 1 && len(s.requests(t)) == 0 })

	failing.Store(true)
	s.ping(t, p.url)
	for range 3 {
		<-p.fetched
	}
	failing.Store(false)
	store.down.Store(false)
	sub.nextTaken(t)
	eventually(t, "done", func() bool { return s.Pinged() == 0 })
}

// TestSlowBodies: bodies that trickle, and clients that disconnect in the
// middle, delay no other client.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), nil)
	u, _ := url.Parse(s.url)
	for i := range 100 {
		c, err := net.Dial("tcp", u.Host)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: hub\r\nContent-Type: text/plain\r\nLink: <"+topicA+">; rel=\"self\"\r\nContent-Length: 5000000\r\n\r\nx")
		if i%2 == 0 {
			_ = c.Close()
		}
	}
	sub := subscribe(t, nil)
	s.subscribed(t, sub, topicA)
	s.publish(t, topicA, "text/plain", "x")
	sub.nextTaken(t)
	if n, hosts := s.Pending(); n != 0 || hosts != 0 {
		t.Errorf("%d requests at %d hosts are left", n, hosts)
	}
}
