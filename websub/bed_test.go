package websub_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/websub"
)

// A keeper stores the document of a Subscriber in memory.
type keeper struct {
	mu    sync.Mutex // guards what follows
	doc   []byte
	saves int
	err   error // returned by Save
}

func (k *keeper) Load(context.Context) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return bytes.Clone(k.doc), nil
}

func (k *keeper) Save(_ context.Context, doc []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil {
		return k.err
	}
	k.doc, k.saves = bytes.Clone(doc), k.saves+1
	return nil
}

func (k *keeper) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
}

// A hub is a test hub as strict as the public suite's: it requires every
// mandatory parameter, and verifies before it answers.
type hub struct {
	t      testing.TB
	client *http.Client

	mu       sync.Mutex // guards what follows
	url      string
	requests []url.Values
	bodies   []string
	subs     map[string]url.Values // by callback: the verified request
	lease    string                // granted; "": none is stated
	answer   func(w http.ResponseWriter, form url.Values) bool
	silent   bool // accepts requests but does not verify
	verified int
	refused  int // verifications that were not answered with the challenge
}

func newHub(t testing.TB) *hub {
	h := &hub{t: t, subs: map[string]url.Values{}, lease: "86400"}
	h.client = &http.Client{
		Transport:     &http.Transport{}, // its own: other tests close the idle connections of theirs
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return h
}

// listen starts the hub on a real socket.
func (h *hub) listen() *hub {
	srv := httptest.NewServer(h)
	h.t.Cleanup(srv.Close)
	h.t.Cleanup(h.client.CloseIdleConnections)
	h.set(func() { h.url = srv.URL + "/hub" })
	return h
}

func (h *hub) set(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	form, err := url.ParseQuery(string(body))
	mode, callback, topic := form.Get("hub.mode"), form.Get("hub.callback"), form.Get("hub.topic")
	h.mu.Lock()
	h.requests, h.bodies = append(h.requests, form), append(h.bodies, r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type"))
	answer, silent, lease := h.answer, h.silent, h.lease
	_, known := h.subs[callback]
	h.mu.Unlock()
	if answer != nil && answer(w, form) {
		return
	}
	u, uerr := url.Parse(callback)
	switch {
	case r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" || err != nil || uerr != nil,
		u.Scheme != "http" || u.Host == "", topic == "", len(form.Get("hub.secret")) > 200, mode != "subscribe" && mode != "unsubscribe":
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	case mode == "unsubscribe" && !known:
		http.Error(w, "unknown", http.StatusNotFound)
		return
	}
	if !silent && h.verify(callback, mode, topic, lease) {
		h.mu.Lock()
		if mode == "subscribe" {
			h.subs[callback] = form
		} else {
			delete(h.subs, callback)
		}
		h.mu.Unlock()
	}
	w.WriteHeader(http.StatusAccepted)
}

// verify asks the subscriber to confirm a request.
func (h *hub) verify(callback, mode, topic, lease string) bool {
	q := url.Values{"hub.mode": {mode}, "hub.topic": {topic}, "hub.challenge": {"challenge-of-a-strict-hub"}}
	if lease != "" && mode == "subscribe" {
		q.Set("hub.lease_seconds", lease)
	}
	status, _, body := h.get(websub.VerificationURL(callback, q))
	ok := status/100 == 2 && body == "challenge-of-a-strict-hub"
	h.mu.Lock()
	defer h.mu.Unlock()
	if ok {
		h.verified++
	} else {
		h.refused++
	}
	return ok
}

func (h *hub) get(address string) (int, http.Header, string) {
	resp, err := h.client.Get(address)
	if err != nil {
		h.t.Logf("GET: %v", err)
		return 0, nil, ""
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(b)
}

// sub returns the callback and the request of the only subscription.
func (h *hub) sub() (string, url.Values) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.subs) != 1 {
		h.t.Fatalf("the hub has %d subscriptions, want exactly one", len(h.subs))
	}
	for callback, form := range h.subs {
		return callback, form
	}
	return "", nil
}

// asked returns the number of requests with that mode.
func (h *hub) asked(mode string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, r := range h.requests {
		if r.Get("hub.mode") == mode {
			n++
		}
	}
	return n
}

// deliver posts body like the suite, and returns the status. Header fields are
// pairs of name and value.
func (h *hub) deliver(callback, body string, fields ...string) int {
	h.t.Helper()
	req, err := http.NewRequest(http.MethodPost, callback, strings.NewReader(body))
	if err != nil {
		h.t.Error(err)
		return 0
	}
	req.Header.Set("Content-Type", "text/html")
	req.Header.Set("Link", `<http://elsewhere/topic>; rel="self", <`+h.url+`>; rel="hub"`)
	for i := 0; i+1 < len(fields); i += 2 {
		req.Header.Add(fields[i], fields[i+1])
	}
	resp, err := h.client.Do(req)
	if err != nil {
		h.t.Errorf("POST: %v", err)
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// signed returns the header field with a valid signature.
func signed(t testing.TB, method, secret, body string) []string {
	t.Helper()
	s, err := websub.Sign(method, []byte(secret), []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return []string{"X-Hub-Signature", s}
}

// A bed is a Subscriber whose events and deliveries are recorded.
type bed struct {
	*websub.Subscriber
	t     testing.TB
	keep  *keeper
	front http.Handler // of the subscriber
	stop  func()

	mu         sync.Mutex // guards what follows
	events     []websub.SubscriberEvent
	deliveries []websub.Delivery
	kept       error // returned by Deliver
}

// options returns options for a test to modify.
func (b *bed) options() websub.SubscriberOptions {
	return websub.SubscriberOptions{
		State: b.keep, RetryFirst: 20 * time.Millisecond, RetryMost: time.Second, Pending: 5 * time.Second,
		Deliver: func(_ context.Context, d websub.Delivery) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.kept == nil {
				b.deliveries = append(b.deliveries, d)
			}
			return b.kept
		},
		OnEvent: func(e websub.SubscriberEvent) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.events = append(b.events, e)
		},
		Rediscover: func(_ context.Context, w websub.Wish) (websub.Wish, error) { return w, nil },
	}
}

// newBed starts a Subscriber behind a real server.
func newBed(t testing.TB, change func(*websub.SubscriberOptions)) *bed {
	t.Helper()
	return newBedWith(t, &keeper{}, change)
}

func newBedWith(t testing.TB, k *keeper, change func(*websub.SubscriberOptions)) *bed {
	t.Helper()
	b := &bed{t: t, keep: k}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b.front.ServeHTTP(w, r) }))
	t.Cleanup(srv.Close)
	o := b.options()
	o.Callback = srv.URL + "/callbacks"
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	o.Client = &http.Client{Transport: transport}
	if change != nil {
		change(&o)
	}
	b.start(o)
	return b
}

func (b *bed) start(o websub.SubscriberOptions) {
	b.t.Helper()
	s, err := websub.NewSubscriber(o)
	if err != nil {
		b.t.Fatal(err)
	}
	b.Subscriber, b.front = s, s.Handler()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Errorf("Run: %v", err)
		}
	})
	b.t.Cleanup(b.stop)
}

func (b *bed) want(topic string, hubs ...string) {
	b.t.Helper()
	if err := b.Want(context.Background(), websub.Wish{ID: "set", Topic: topic, Hubs: hubs}); err != nil {
		b.t.Fatal(err)
	}
}

// wait waits for an event of that kind, and returns the last one.
func (b *bed) wait(kind websub.EventKind) websub.SubscriberEvent {
	b.t.Helper()
	return b.waitFor(kind, 1)
}

// waitFor waits until there are n such events.
func (b *bed) waitFor(kind websub.EventKind, n int) websub.SubscriberEvent {
	b.t.Helper()
	var found []websub.SubscriberEvent
	until(b.t, string(kind), func() bool {
		found = b.told(kind)
		return len(found) >= n
	})
	return found[len(found)-1]
}

func (b *bed) told(kind websub.EventKind) []websub.SubscriberEvent {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.events), func(e websub.SubscriberEvent) bool { return e.Kind != kind })
}

func (b *bed) delivered() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var bodies []string
	for _, d := range b.deliveries {
		bodies = append(bodies, string(d.Body))
	}
	return bodies
}

func (b *bed) state() websub.SubscriptionState {
	b.t.Helper()
	all := b.Subscriptions()
	if len(all) != 1 {
		b.t.Fatalf("subscriptions = %+v, want one", all)
	}
	return all[0]
}

// until waits for something that happens soon.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

var errFull = errors.New("disk is full")
