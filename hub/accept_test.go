package hub_test

import (
	"bufio"
	"bytes"
	"context"
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
	"lockstep/websub"
)

// A site is a hub that runs behind an address.
type site struct {
	*hub.Hub
	url   string
	store hubstore.Store
	stop  func() // ends Run, and waits for it
}

// start runs a hub on store until the test ends. Unless change says otherwise,
// it accepts private addresses, because all tests are on loopback.
func start(t testing.TB, store hubstore.Store, change func(*hub.Options)) *site {
	t.Helper()
	var h atomic.Pointer[hub.Hub]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.Load().ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	o := hub.Options{PublicURL: server.URL, AllowPrivate: true, PublishOpen: true, Secret: bytes.Repeat([]byte{7}, 32)}
	if change != nil {
		change(&o)
	}
	made, err := hub.New(store, o)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	h.Store(made)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- made.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	select {
	case <-made.Ready():
	case <-time.After(time.Minute):
		t.Fatal("the hub is not ready")
	}
	return &site{Hub: made, url: server.URL, store: store, stop: stop}
}

// post sends a form, as pairs of names and values, and returns the answer.
func (s *site) post(t testing.TB, pairs ...string) *http.Response {
	t.Helper()
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	return s.send(t, http.MethodPost, form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
}

// send sends any request.
func (s *site) send(t testing.TB, method, body string, header ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequest(method, s.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(b))
	return resp
}

func text(r *http.Response) string {
	b, _ := io.ReadAll(r.Body)
	return string(b)
}

func wantStatus(t testing.TB, r *http.Response, want int) {
	t.Helper()
	if r.StatusCode != want {
		t.Fatalf("%s %s = %d %s, want %d", r.Request.Method, r.Request.URL, r.StatusCode, text(r), want)
	}
}

// A subscriber is an endpoint that answers as configured, and records requests.
type subscriber struct {
	url    string
	asked  chan url.Values  // verifications and denials
	raw    chan string      // their raw queries
	taken  chan *delivery   // deliveries
	answer http.HandlerFunc // answers a GET; nil: with the challenge, as octet-stream
	status func() int       // of the answer to a delivery; nil: 204
}

type delivery struct {
	header http.Header
	body   []byte
}

func subscribe(t testing.TB, answer http.HandlerFunc) *subscriber {
	s := &subscriber{
		asked: make(chan url.Values, 10_000), raw: make(chan string, 10_000),
		taken: make(chan *delivery, 1000), answer: answer,
	}
	if answer == nil {
		s.answer = echo
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL + "/cb"
	return s
}

// echo confirms every request.
func echo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = io.WriteString(w, r.URL.Query().Get("hub.challenge"))
}

func (s *subscriber) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		s.asked <- r.URL.Query()
		s.raw <- r.URL.RequestURI()
		s.answer(w, r)
		return
	}
	b, _ := io.ReadAll(r.Body)
	s.taken <- &delivery{r.Header, b}
	status := http.StatusNoContent
	if s.status != nil {
		status = s.status()
	}
	w.WriteHeader(status)
}

const patience = time.Minute

func (s *subscriber) nextAsked(t testing.TB) url.Values {
	t.Helper()
	select {
	case q := <-s.asked:
		return q
	case <-time.After(patience):
		t.Fatal("the callback was not asked")
		return nil
	}
}

func (s *subscriber) nextTaken(t testing.TB) *delivery {
	t.Helper()
	select {
	case d := <-s.taken:
		return d
	case <-time.After(patience):
		t.Fatal("nothing was delivered")
		return nil
	}
}

// quiet checks that no delivery and no verification arrives for a while.
func (s *subscriber) quiet(t testing.TB) {
	t.Helper()
	select {
	case d := <-s.taken:
		t.Fatalf("delivered: %q", d.body)
	case q := <-s.asked:
		t.Fatalf("asked: %v", q)
	case <-time.After(300 * time.Millisecond):
	}
}

// subscriptions returns the content of the store.
func (s *site) subscriptions(t testing.TB) []hubstore.Subscription {
	t.Helper()
	var all []hubstore.Subscription
	for sub, err := range s.store.Subscriptions(context.Background(), -1) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, sub)
	}
	return all
}

func (s *site) requests(t testing.TB) []hubstore.Request {
	t.Helper()
	var all []hubstore.Request
	for r, err := range s.store.Requests(context.Background(), -1) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// subscribed subscribes and waits until the subscription is verified.
func (s *site) subscribed(t testing.TB, sub *subscriber, topic string, more ...string) {
	t.Helper()
	key := hubstore.KeyOf(topic, sub.url)
	wantStatus(t, s.post(t, append([]string{"hub.mode", "subscribe", "hub.topic", topic, "hub.callback", sub.url}, more...)...), 202)
	q := sub.nextAsked(t)
	if q.Get("hub.mode") != websub.ModeSubscribe || q.Get("hub.topic") != topic {
		t.Fatalf("asked %v, want subscribe to %s", q, topic)
	}
	eventually(t, "verified", func() bool {
		for _, r := range s.requests(t) {
			if r.Key == key {
				return false
			}
		}
		_, ok := s.Row(key) // stored before the hub uses it
		return ok
	})
}

// publish publishes a body and fails the test unless it is accepted.
func (s *site) publish(t testing.TB, topic, contentType, body string, header ...string) {
	t.Helper()
	header = append(header, "Content-Type", contentType, "Link", websub.LinkHeader(topic, []string{s.url}))
	wantStatus(t, s.send(t, http.MethodPost, body, header...), 202)
}

const topicA = "http://topics.example/a"

// TestMethods: methods other than GET, HEAD and POST get 405 with Allow
// (WS-H-04), and GET describes the hub. The hub redirects no client to another
// hub (WS-H-06).
func TestMethods(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), nil)
	for _, method := range []string{"PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "PROPFIND"} {
		r := s.send(t, method, "")
		wantStatus(t, r, 405)
		if got := r.Header.Get("Allow"); got != "GET, HEAD, POST" {
			t.Errorf("%s: Allow = %q", method, got)
		}
	}
	r := s.send(t, http.MethodGet, "")
	wantStatus(t, r, 200)
	if body := text(r); !strings.Contains(body, "WebSub hub") || !strings.Contains(body, s.url) {
		t.Errorf("GET = %q, want what this is and where", body)
	}
	r = s.send(t, http.MethodHead, "")
	wantStatus(t, r, 200)
	if body := text(r); body != "" || r.ContentLength <= 0 {
		t.Errorf("HEAD = %q with length %d, want the header of GET alone", body, r.ContentLength)
	}
}

// TestRefusedForms: a faulty form gets 400, one that violates the hub's rules 403
// (WS-H-05), and the answer states the reason (WS-H-04).
func TestRefusedForms(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), func(o *hub.Options) { o.AllowPrivate = false })
	const topic, callback = "http://topics.example/a", "http://subscribers.example/cb"
	long := "http://subscribers.example/" + strings.Repeat("x", 3000)
	tests := []struct {
		name   string
		form   string // of "mode topic callback" with further parameters appended
		status int
		says   string
	}{
		{"nothing", "", 400, "hub.mode"},
		{"no mode", "hub.topic=" + topic + "&hub.callback=" + callback, 400, "hub.mode"},
		{"unknown mode", "hub.mode=denied&hub.topic=" + topic + "&hub.callback=" + callback, 400, "hub.mode"},
		{"no topic", "hub.mode=subscribe&hub.callback=" + callback, 400, "hub.topic"},
		{"no callback", "hub.mode=subscribe&hub.topic=" + topic, 400, "hub.callback"},
		{"relative callback", "hub.mode=subscribe&hub.topic=" + topic + "&hub.callback=/cb", 400, "absolute"},
		{"relative topic", "hub.mode=subscribe&hub.topic=a&hub.callback=" + callback, 400, "absolute"},
		{"ftp", "hub.mode=subscribe&hub.topic=" + topic + "&hub.callback=ftp://a.example/", 400, "absolute"},
		{"javascript", "hub.mode=subscribe&hub.topic=" + topic + "&hub.callback=javascript:alert(1)", 400, "absolute"},
		{"opaque", "hub.mode=subscribe&hub.topic=" + topic + "&hub.callback=http:a.example", 400, "absolute"},
		{"no host", "hub.mode=subscribe&hub.topic=" + topic + "&hub.callback=http:///cb", 400, "absolute"},
		{"fragment", "hub.mode=subscribe&hub.topic=" + topic + "&hub.callback=" + callback + "%23f", 400, "fragment"},
		{"empty fragment", "hub.mode=subscribe&hub.topic=" + topic + "%23&hub.callback=" + callback, 400, "fragment"},
		{"user", "hub.mode=subscribe&hub.topic=" + topic + "&hub.callback=http://me:pw@a.example/", 400, "user"},
		{"user of topic", "hub.mode=subscribe&hub.topic=http://me@a.example/&hub.callback=" + callback, 400, "user"},
		{"line feed", "hub.mode=subscribe&hub.topic=" + topic + "&hub.callback=" + callback + "%0d%0aX:y", 400, "percent-encode"},
		{"NUL", "hub.mode=subscribe&hub.topic=" + topic + "%00&hub.callback=" + callback, 400, "percent-encode"},
		{"angle bracket", "hub.mode=subscribe&hub.topic=" + topic + "%3E&hub.callback=" + callback, 400, "percent-encode"},
		{"other script", "hub.mode=subscribe&hub.topic=" + topic + "%C3%BC&hub.callback=" + callback, 400, "percent-encode"},
		{"port", "hub.mode=subscribe&hub.topic=" + topic + "&hub.callback=http://a.example:99999/", 400, "port"},
		{"port of mail", "hub.mode=subscribe&hub.topic=" + topic + "&hub.callback=http://a.example:25/", 403, "port 25"},
		{"port of IRC", "hub.mode=subscribe&hub.topic=" + topic + "&hub.callback=http://a.example:6667/", 403, "port 6667"},
		{"long", "hub.mode=subscribe&hub.topic=" + topic + "&hub.callback=" + long, 400, "longer"},
		{"secret of 200 bytes", "hub.mode=subscribe&hub.topic=" + topic + "&hub.callback=" + callback + "&hub.secret=" + strings.Repeat("s", 200), 400, "200 bytes"},
		{"long token", "hub.mode=subscribe&hub.topic=" + topic + "&hub.callback=" + callback + "&hub.verify_token=" + strings.Repeat("s", 300), 400, "verify_token"},
		{"two callbacks", "hub.mode=subscribe&hub.topic=" + topic + "&hub.callback=" + callback + "&hub.callback=http://b.example/", 400, "more than once"},
		{"bad escape", "hub.mode=subscribe&hub.topic=%zz", 400, "percent-encoding"},
		{"semicolons", "hub.mode=subscribe;hub.topic=x", 400, "malformed"},
		{"loopback", "hub.mode=subscribe&hub.topic=" + topic + "&hub.callback=http://127.0.0.1/cb", 403, "loopback"},
		{"loopback of IPv6", "hub.mode=subscribe&hub.topic=" + topic + "&hub.callback=http://[::1]/cb", 403, "loopback"},
		{"mapped loopback", "hub.mode=subscribe&hub.topic=" + topic + "&hub.callback=http://[::ffff:7f00:1]/cb", 403, "loopback"},
		{"localhost", "hub.mode=subscribe&hub.topic=" + topic + "&hub.callback=http://localhost/cb", 403, "loopback"},
		{"private", "hub.mode=subscribe&hub.topic=" + topic + "&hub.callback=http://10.0.0.1/cb", 403, "private"},
		{"link-local", "hub.mode=subscribe&hub.topic=" + topic + "&hub.callback=http://169.254.169.254/latest", 403, "link-local"},
		{"multicast", "hub.mode=subscribe&hub.topic=" + topic + "&hub.callback=http://224.0.0.1/", 403, "multicast"},
		{"unspecified", "hub.mode=subscribe&hub.topic=" + topic + "&hub.callback=http://0.0.0.0/", 403, "unspecified"},
		{"private topic", "hub.mode=subscribe&hub.topic=http://192.168.0.1/&hub.callback=" + callback, 403, "private"},
		{"ping without topic", "hub.mode=publish", 400, "missing"},
		{"ping of no URL", "hub.mode=publish&hub.url=nonsense", 400, "absolute"},
		{"ping of a private topic", "hub.mode=publish&hub.url=http://10.0.0.1/", 403, "private"},
	}
	for _, tt := range tests {
		r := s.send(t, http.MethodPost, tt.form, "Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
		if body := text(r); r.StatusCode != tt.status || !strings.Contains(body, tt.says) {
			t.Errorf("%s: %d %q, want %d and %q in it", tt.name, r.StatusCode, body, tt.status, tt.says)
		} else if got := r.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/plain") {
			t.Errorf("%s: answered with %q, want plain text", tt.name, got)
		}
	}
	if n := len(s.requests(t)); n != 0 {
		t.Errorf("%d requests are kept, want none", n)
	}
}

// TestParametersOfQuery: parameters are read from the body, not from the query.
func TestParametersOfQuery(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), nil)
	sub := subscribe(t, nil)
	s.url += "/?" + url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topicA}, "hub.callback": {sub.url}}.Encode()
	wantStatus(t, s.post(t, "hub.topic", topicA), 400)
}

// TestMediaTypes: the Content-Type distinguishes forms from publications
// (RN-PB-04); requests that are neither are refused (WS-H-04, RN-PB-05).
func TestMediaTypes(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), nil)
	form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topicA}, "hub.callback": {"http://127.0.0.1:1/cb"}}.Encode()
	self := `<` + topicA + `>; rel="self"`
	tests := []struct {
		name, contentType, link, body string
		status                        int
	}{
		{"form in capitals", "Application/X-WWW-Form-Urlencoded;charset=UTF-8", "", form, 202},
		{"form with a Link is a form", "application/x-www-form-urlencoded", self, form, 202},
		{"JSON", "application/json", "", `{"hub.mode":"subscribe"}`, 415},
		{"multipart", "multipart/form-data; boundary=x", "", "--x--", 415},
		{"no type", "", "", form, 415},
		{"XML without self", "application/xml", "", "<a/>", 400},
		{"XML with a hub alone", "application/xml", `<` + s.url + `>; rel="hub"`, "<a/>", 400},
		{"empty", "application/xml", self, "", 400},
		{"relative self", "application/xml", `</a>; rel="self"`, "<a/>", 400},
		{"self with a fragment", "application/xml", `<` + topicA + `#x>; rel="self"`, "<a/>", 400},
		{"two different self", "application/xml", self + `, <http://topics.example/b>; rel="self"`, "<a/>", 400},
		{"the same self twice", "application/xml", self + `, ` + self, "<a/>", 202},
		{"two relations", "application/xml", `<` + topicA + `>; rel="alternate SELF"`, "<a/>", 202},
		{"no type but self", "", self, "<a/>", 415},
		{"malformed link", "application/xml", `<` + topicA, "<a/>", 400},
		{"many links", "application/xml", self + strings.Repeat(`, <http://x.example/`+strings.Repeat("x", 1000)+`>; rel="x"`, 20), "<a/>", 400},
	}
	for _, tt := range tests {
		header := []string{"Link", tt.link, "Content-Type", tt.contentType}
		if tt.link == "" {
			header = header[2:]
		}
		if r := s.send(t, http.MethodPost, tt.body, header...); r.StatusCode != tt.status {
			t.Errorf("%s: %d %s, want %d", tt.name, r.StatusCode, text(r), tt.status)
		}
	}
	r := s.send(t, http.MethodPost, "\x1f\x8b", "Content-Type", "application/xml", "Link", self, "Content-Encoding", "gzip")
	wantStatus(t, r, 415)
}

// TestLargeBodies: bodies beyond the limit get 413, with or without
// Content-Length (WS-SEC-03); a body of exactly that size is accepted.
func TestLargeBodies(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), func(o *hub.Options) { o.MaxBody = 10_000 })
	self := websub.LinkHeader(topicA, []string{s.url})
	for _, tt := range []struct {
		size, status int
		contentType  string
		chunked      bool
	}{
		{10_000, 202, "application/xml", false},
		{10_001, 413, "application/xml", false},
		{10_000, 202, "application/xml", true},
		{10_001, 413, "application/xml", true},
		{1_000_000, 413, "application/xml", true},
		{10_001, 413, "application/x-www-form-urlencoded", false},
		{300_000, 413, "application/x-www-form-urlencoded", true},
	} {
		var body io.Reader = strings.NewReader(strings.Repeat("x", tt.size))
		if tt.chunked {
			body = struct{ io.Reader }{body}
		}
		r, err := http.NewRequest(http.MethodPost, s.url, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", tt.contentType)
		r.Header.Set("Link", self)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != tt.status {
			t.Errorf("%d bytes of %s (chunked %v) = %d, want %d", tt.size, tt.contentType, tt.chunked, resp.StatusCode, tt.status)
		}
	}
}

// TestLargeBodySentWhole: a client that reads no answer before it has sent the
// whole body gets an answer too.
func TestLargeBodySentWhole(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), nil)
	u, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	const size = 20 << 20
	_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: h\r\nContent-Type: text/plain\r\nLink: <%s>; rel=self\r\nContent-Length: %d\r\n\r\n", topicA, size)
	if err == nil {
		_, err = conn.Write(bytes.Repeat([]byte("x"), size))
	}
	if err != nil {
		t.Fatalf("send: %v", err)
	}
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || r.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("answer = %v, %v, want 413", r, err)
	}
}

// TestPutOff: before Run has loaded, and after it has ended, clients are asked
// to retry.
func TestPutOff(t *testing.T) {
	t.Parallel()
	h, err := hub.New(hubstore.NewMem(), hub.Options{PublicURL: "http://hub.example/"})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
	if w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("before Run: %d, Retry-After %q, want 503 and when to come back", w.Code, w.Header().Get("Retry-After"))
	}
	s := start(t, hubstore.NewMem(), nil)
	s.stop()
	r := s.post(t, "hub.mode", "subscribe", "hub.topic", topicA, "hub.callback", "http://127.0.0.1:1/")
	wantStatus(t, r, 503)
	if r.Header.Get("Retry-After") == "" {
		t.Error("after Run: no Retry-After")
	}
}

func ExampleHub_ServeHTTP() {
	h, err := hub.New(hubstore.NewMem(), hub.Options{PublicURL: "https://hub.example/"})
	if err != nil {
		fmt.Println(err)
		return
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPut, "/", nil))
	fmt.Println(w.Code, w.Header().Get("Allow"))
	// Output: 405 GET, HEAD, POST
}
