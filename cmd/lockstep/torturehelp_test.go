package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"
)

// A gateServer passes requests on to another server, and tells of those that
// were answered.
type gateServer struct{ *httptest.Server }

// newGateServer starts a gate before what is at base. When that does not
// answer, the gate does so with 502, as a web server in front would.
func newGateServer(t *testing.T, base string, answered func(r *http.Request, body string, status int)) *gateServer {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	g := &gateServer{httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // its sender was killed
		}
		req, err := http.NewRequest(r.Method, base+r.URL.RequestURI()[1:], bytes.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header = r.Header.Clone()
		resp, err := client.Do(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer func() { _ = resp.Body.Close() }()
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		answered(r, string(body), resp.StatusCode)
		for name, values := range resp.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(resp.StatusCode)
		_, _ = w.Write(answer) // who has gone need not know
	}))}
	t.Cleanup(func() { g.Close(); client.CloseIdleConnections() })
	return g
}

// A witness subscribes at a hub and notes what is delivered, at times at the
// second try only.
type witness struct {
	*testing.T
	server   *httptest.Server
	verified chan struct{}

	mu        sync.Mutex // guards what follows
	delivered map[string]int
	total     int
}

func newWitness(t *testing.T) *witness {
	t.Helper()
	w := &witness{T: t, verified: make(chan struct{}, 1), delivered: map[string]int{}}
	w.server = httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(w.server.Close)
	return w
}

func (w *witness) serve(rw http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		_, _ = fmt.Fprint(rw, r.URL.Query().Get("hub.challenge")) // the hub was killed, perhaps
		select {
		case w.verified <- struct{}{}:
		default:
		}
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the hub was killed
	}
	if rand.IntN(20) == 0 {
		http.Error(rw, "not now", http.StatusServiceUnavailable)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.total++
	if _, ok := w.delivered[string(body)]; !ok {
		w.delivered[string(body)] = len(w.delivered)
	}
}

// subscribe subscribes, and waits until the hub has asked whether it is meant. The hub
// records the subscription afterwards.
func (w *witness) subscribe(hub, topic string) {
	w.Helper()
	resp, err := http.PostForm(hub, url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.callback": {w.server.URL}})
	if err != nil {
		w.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		w.Fatalf("subscribe: %s", resp.Status)
	}
	select {
	case <-w.verified:
	case <-time.After(readyLimit):
		w.Fatal("the subscription was never verified")
	}
}

func (w *witness) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total
}

// missing returns how many of the bodies were not delivered.
func (w *witness) missing(bodies []string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range bodies {
		if _, ok := w.delivered[b]; !ok {
			n++
		}
	}
	return n
}

// inOrder reports whether the bodies were first delivered in their order; if
// not, it returns two that were not.
func (w *witness) inOrder(bodies []string) (before, after string, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := map[string]bool{}
	last, lastBody := -1, ""
	for _, b := range bodies {
		if seen[b] {
			continue // sent again: the answer to the first had been lost
		}
		seen[b] = true
		if w.delivered[b] < last {
			return b, lastBody, false
		}
		last, lastBody = w.delivered[b], b
	}
	return "", "", true
}
