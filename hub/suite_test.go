package hub_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lockstep/hub"
	"lockstep/hub/hubstore"
	"lockstep/websub"
)

// A page is a topic like those of the public conformance suite: hub and self
// are in two separate Link fields.
type page struct {
	url         string
	contentType string
	body        func() string
	head        func(http.Header) // further header fields
	fetched     chan http.Header  // of each request
}

func publishPage(t testing.TB, hubURL, contentType string, body func() string) *page {
	p := &page{contentType: contentType, body: body, fetched: make(chan http.Header, 1000)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.fetched <- r.Header
		w.Header().Add("Link", "<"+hubURL+`>; rel="hub"`)
		w.Header().Add("Link", "<"+p.url+`>; rel="self"`)
		w.Header().Set("Content-Type", p.contentType)
		if p.head != nil {
			p.head(w.Header())
		}
		_, _ = io.WriteString(w, p.body())
	}))
	t.Cleanup(server.Close)
	p.url = server.URL + "/blog/1234"
	return p
}

func says(body string) func() string { return func() string { return body } }

// ping announces a change like the suite: with hub.topic alone (WS-P-02).
func (s *site) ping(t testing.TB, topic string) {
	t.Helper()
	wantStatus(t, s.post(t, "hub.mode", "publish", "hub.topic", topic), 202)
}

// checkDelivery checks a delivery like the suite.
func checkDelivery(t testing.TB, s *site, p *page, d *delivery, secret string) {
	t.Helper()
	if strings.TrimSpace(string(d.body)) == "" || strings.TrimSpace(string(d.body)) != strings.TrimSpace(p.body()) {
		t.Errorf("delivered %q, want %q", d.body, p.body())
	}
	if got := d.header.Get("Content-Type"); got != p.contentType {
		t.Errorf("Content-Type = %q, want %q", got, p.contentType)
	}
	hubs, selfs := 0, 0
	for _, l := range websub.ParseLinks(d.header.Values("Link"), nil) {
		if l.Has("hub") && l.Target == s.url {
			hubs++
		}
		if l.Has("self") {
			selfs++
		}
	}
	if hubs != 1 || selfs != 1 {
		t.Errorf("Link = %q, want the hub and self", d.header.Values("Link"))
	}
	signatures := d.header.Values("X-Hub-Signature")
	if secret == "" {
		if len(signatures) > 0 { // WS-C-15
			t.Errorf("X-Hub-Signature = %q, want none", signatures)
		}
		return
	}
	if _, err := websub.Verify(signatures, []byte(secret), d.body); err != nil {
		t.Errorf("X-Hub-Signature = %q: %v", signatures, err)
	}
}

// suiteSubscribes subscribes and checks the verification like the suite.
func (s *site) suiteSubscribes(t testing.TB, sub *subscriber, topic string, more ...string) {
	t.Helper()
	wantStatus(t, s.post(t, append([]string{"hub.callback", sub.url, "hub.mode", "subscribe", "hub.topic", topic}, more...)...), 202)
	q := sub.nextAsked(t)
	if q.Get("hub.mode") != "subscribe" || q.Get("hub.topic") != topic || q.Get("hub.challenge") == "" || q.Get("hub.lease_seconds") == "" {
		t.Fatalf("asked %v, want mode, topic, challenge and lease", q)
	}
}

// TestSuite plays the subscriber and the publisher of the public conformance
// suite (section 17.1) against a public hub. It publishes as soon as the
// subscriber has answered.
func TestSuite(t *testing.T) {
	t.Parallel()
	const html = "text/html; charset=UTF-8"
	tests := []struct {
		id, contentType, body, secret string
		more                          []string
	}{
		{"WR-H-100", html, "<h1>News</h1>\n", "", nil},
		{"WR-H-101", html, "<h1>News</h1>\n", "abcdefghij0123456789", nil},
		{"WR-H-102", html, "<h1>News</h1>\n", "", []string{"foo", "bar", "hub.foo", "bar"}},
		{"WR-H-105", "text/plain", "News: größer\r\n", "", nil},
		{"WR-H-106", "application/json", `{"news": true}`, "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.id, func(t *testing.T) {
			t.Parallel()
			s := start(t, hubstore.NewMem(), nil)
			p := publishPage(t, s.url, tt.contentType, says(tt.body))
			sub := subscribe(t, nil)
			more := tt.more
			if tt.secret != "" {
				more = append(more, "hub.secret", tt.secret)
			}
			s.suiteSubscribes(t, sub, p.url, more...)
			s.ping(t, p.url)
			checkDelivery(t, s, p, sub.nextTaken(t), tt.secret)
			sub.quiet(t)
		})
	}
}

// TestSuiteTwice is WR-H-103: subscribing twice gives one delivery (WS-L-04).
func TestSuiteTwice(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), nil)
	p := publishPage(t, s.url, "text/html", says("<p>News</p>"))
	sub := subscribe(t, nil)
	s.suiteSubscribes(t, sub, p.url)
	s.suiteSubscribes(t, sub, p.url)
	s.ping(t, p.url)
	checkDelivery(t, s, p, sub.nextTaken(t), "")
	sub.quiet(t)
}

// TestSuiteUnsubscribed is WR-H-104: after unsubscribing no deliveries arrive.
func TestSuiteUnsubscribed(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), nil)
	p := publishPage(t, s.url, "text/html", says("<p>News</p>"))
	sub := subscribe(t, nil)
	s.suiteSubscribes(t, sub, p.url)
	wantStatus(t, s.post(t, "hub.callback", sub.url, "hub.mode", "unsubscribe", "hub.topic", p.url), 202)
	if q := sub.nextAsked(t); q.Get("hub.mode") != "unsubscribe" || q.Get("hub.topic") != p.url || q.Get("hub.challenge") == "" {
		t.Fatalf("asked %v, want mode, topic and challenge", q)
	}
	eventually(t, "ended", func() bool { return len(s.subscriptions(t)) == 0 })
	s.ping(t, p.url)
	sub.quiet(t)
}

// TestSuiteIntegrated is the suite's other mode: the hub of its own topic. Hub
// and self are discovered, and publications are fat (RN-PB-01).
func TestSuiteIntegrated(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), nil)
	p := publishPage(t, s.url, "application/xml", says("<urlset/>\n"))
	d, err := websub.Discover(t.Context(), http.DefaultClient, p.url)
	if err != nil || len(d.Hubs) != 1 || d.Hubs[0] != s.url || d.Topic != p.url {
		t.Fatalf("Discover = %+v, %v, want hub and self", d, err)
	}
	sub := subscribe(t, nil)
	s.suiteSubscribes(t, sub, d.Topic, "hub.secret", "abcdefghij0123456789")
	s.publish(t, d.Topic, "application/xml", "<urlset/>\n")
	checkDelivery(t, s, p, sub.nextTaken(t), "abcdefghij0123456789")
}

// TestPublishAtOnce: a subscriber gets what is published as soon as it has
// answered the verification, but not what was published before it subscribed
// (WS-C-14).
func TestPublishAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), nil)
	s.publish(t, topicA, "text/plain", "before")
	for range 50 {
		sub := subscribe(t, nil)
		wantStatus(t, s.post(t, "hub.mode", "subscribe", "hub.topic", topicA, "hub.callback", sub.url), 202)
		sub.nextAsked(t)
		s.publish(t, topicA, "text/plain", "after")
		if d := sub.nextTaken(t); string(d.body) != "after" {
			t.Fatalf("delivered %q, want what came after", d.body)
		}
	}
}

// TestFat: a message accepted with 202 (RN-AMB-14) is delivered with bytes, type
// and links unchanged (RN-PB-02, RN-AMB-15, WS-C-01, WS-C-03), in order, once.
func TestFat(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), nil)
	sub := subscribe(t, nil)
	s.subscribed(t, sub, topicA)
	const contentType = `Application/XML;charset="UTF-8"; profile=x`
	bodies := []string{"\xef\xbb\xbf<a>ü</a>\r\n", "\x00\xff\xfe", " ", strings.Repeat("x", 100_000)}
	link := `<http://topics.example/capabilitylist.xml>; rel="resourcesync", <http://x.example/a,b>;rel=license;title="a, \"b\""`
	for _, b := range bodies {
		s.publish(t, topicA, contentType, b, "Link", link)
	}
	for _, want := range bodies {
		d := sub.nextTaken(t)
		if string(d.body) != want {
			t.Fatalf("delivered %.100q, want %.100q", d.body, want)
		}
		if got := d.header.Get("Content-Type"); got != contentType {
			t.Errorf("Content-Type = %q, want %q", got, contentType)
		}
		links := strings.Join(d.header.Values("Link"), ", ")
		for raw := range strings.SplitSeq(`<http://topics.example/capabilitylist.xml>; rel="resourcesync"|<http://x.example/a,b>;rel=license;title="a, \"b\""|<`+topicA+`>; rel="self"|<`+s.url+`>; rel="hub"`, "|") {
			if strings.Count(links, raw) != 1 {
				t.Errorf("Link = %s, want %s in it once", links, raw)
			}
		}
	}
	sub.quiet(t)
}

// TestDenied: the subscriber of a removed subscription is notified with the
// reason, and once more if the first denial failed; its answer is ignored
// (WS-V-02, WS-V-04).
func TestDenied(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), nil)
	sub := subscribe(t, nil)
	s.subscribed(t, sub, topicA)
	sub.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }
	began := time.Now()
	if err := s.Removed(t.Context(), hubstore.KeyOf(topicA, sub.url), "no reason & no rhyme"); err != nil {
		t.Fatal(err)
	}
	q := sub.nextAsked(t)
	if q.Get("hub.mode") != "denied" || q.Get("hub.topic") != topicA || q.Get("hub.reason") != "no reason & no rhyme" || q.Has("hub.challenge") {
		t.Errorf("asked %v, want a denial with its reason", q)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("denied after %v", took)
	}
	s.publish(t, topicA, "text/plain", "x")
	sub.quiet(t)
}

// TestDeniedAgain: a denial that failed is sent once more, and no more
// (WS-V-04).
func TestDeniedAgain(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), func(o *hub.Options) { o.RetryFirst = 20 * time.Millisecond })
	sub := subscribe(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close") // on a reused connection the client would retry by itself
		echo(w, r)
	})
	s.subscribed(t, sub, topicA)
	sub.answer = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	if err := s.Removed(t.Context(), hubstore.KeyOf(topicA, sub.url), ""); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if q := sub.nextAsked(t); q.Get("hub.mode") != "denied" || q.Has("hub.reason") {
			t.Errorf("asked %v, want a denial", q)
		}
	}
	sub.quiet(t)
}
