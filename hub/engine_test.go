package hub_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/hub"
	"lockstep/hub/hubstore"
)

const topicURL = "https://source.example/topic"

// A sink is a server of callbacks that records deliveries, by path.
type sink struct {
	*httptest.Server
	answer func(w http.ResponseWriter, r *http.Request, body string) // called before the delivery is recorded; nil: 204

	mu  sync.Mutex // guards what follows
	got map[string][]string
}

func newSink(t testing.TB, answer func(w http.ResponseWriter, r *http.Request, body string)) *sink {
	s := &sink{got: map[string][]string{}, answer: answer}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP records the deliveries that it answers with 2xx.
func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	x := &noted{ResponseWriter: w, status: 200}
	if s.answer != nil {
		s.answer(x, r, string(b))
	}
	if x.status/100 == 2 {
		s.mu.Lock()
		s.got[r.URL.RequestURI()] = append(s.got[r.URL.RequestURI()], string(b))
		s.mu.Unlock()
	}
}

// noted records the status.
type noted struct {
	http.ResponseWriter
	status int
}

func (n *noted) WriteHeader(status int) { n.status = status; n.ResponseWriter.WriteHeader(status) }

func (s *sink) at(path string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.got[path]...)
}

// A running is a running hub.
type running struct {
	*hub.Hub
	t    testing.TB
	stop func() error
}

// run starts a hub on s; it is stopped at the end of the test, or by stop.
func run(t testing.TB, s hubstore.Store, o hub.Options) *running {
	t.Helper()
	return runWith(t, s, o, func(*hub.Hub) {})
}

// runWith calls prepare first.
func runWith(t testing.TB, s hubstore.Store, o hub.Options, prepare func(*hub.Hub)) *running {
	t.Helper()
	if o.PublicURL == "" {
		o.PublicURL = "https://hub.example/"
	}
	if o.Secret == nil {
		o.Secret = []byte(strings.Repeat("k", 32))
	}
	o.AllowPrivate = true
	h, err := hub.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	prepare(h)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	r := &running{Hub: h, t: t, stop: sync.OnceValue(func() error { cancel(); return <-done })}
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	select {
	case <-h.Ready():
	case err := <-done:
		t.Fatalf("Run: %v", err)
	}
	return r
}

func (r *running) subscribe(callback, secret string) hubstore.Key {
	r.t.Helper()
	k, err := r.SubscribeVerified(context.Background(), topicURL, callback, secret, time.Hour, time.Now())
	if err != nil {
		r.t.Fatalf("subscribe %s: %v", callback, err)
	}
	return k
}

func (r *running) publish(bodies ...string) {
	r.t.Helper()
	for _, b := range bodies {
		if _, err := r.Accept(context.Background(), hubstore.Message{Topic: topicURL, ContentType: "text/plain", Body: []byte(b)}); err != nil {
			r.t.Fatalf("publish %s: %v", b, err)
		}
	}
}

// numbers returns first to last as bodies.
func numbers(first, last int) []string {
	var all []string
	for i := first; i <= last; i++ {
		all = append(all, fmt.Sprint(i))
	}
	return all
}

// eventually waits until ok returns true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); { // long: a loaded machine is slow, and a passing test does not wait for the end
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func same(got, want []string) bool { return strings.Join(got, " ") == strings.Join(want, " ") }

// TestOrder: every subscriber gets every message once, in order (WS-C-11,
// WS-C-14).
func TestOrder(t *testing.T) {
	t.Parallel()
	s := newSink(t, nil)
	r := run(t, hubstore.NewMem(), hub.Options{})
	r.publish("before")
	for i := range 50 {
		r.subscribe(fmt.Sprintf("%s/cb/%d", s.URL, i), "")
	}
	want := numbers(1, 100)
	r.publish(want...)
	for i := range 50 {
		path := fmt.Sprintf("/cb/%d", i)
		eventually(t, path, func() bool { return len(s.at(path)) >= len(want) })
		if got := s.at(path); !same(got, want) {
			t.Errorf("%s got %v", path, got)
		}
	}
}

// post sends a form to the hub and returns the status of the answer.
func post(h http.Handler, form url.Values) int {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}
