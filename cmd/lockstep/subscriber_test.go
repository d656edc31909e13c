package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// subscriber: `subscriber VAR` is somebody with callbacks until the end of the
// script, at the address that VAR is set to. A path says how it behaves: what
// holds "/status/N" is answered N, all else is confirmed and taken. What came is
// shown at VAR/log, a line each.
func (w *world) subscriber(ts *testscript.TestScript, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: subscriber VAR")
	}
	s := httptest.NewServer(&callbacks{})
	ts.Defer(s.Close)
	ts.Setenv(args[0], s.URL)
}

// callbacks answer a hub and write down what it asks and brings.
type callbacks struct {
	mu  sync.Mutex // guards log
	log strings.Builder
}

func (c *callbacks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // what is missing is not in the log
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.URL.Path == "/log" {
		_, _ = io.WriteString(w, c.log.String())
		return
	}
	challenge := r.URL.Query().Get("hub.challenge")
	switch {
	case r.Method == http.MethodGet:
		fmt.Fprintf(&c.log, "%s of %s for %s %s\n", r.URL.Query().Get("hub.mode"), r.URL.Path, r.URL.Query().Get("hub.topic"), r.URL.Query().Get("hub.reason"))
	default:
		fmt.Fprintf(&c.log, "delivery to %s: %s, signature %q, links %s, %s\n", r.URL.Path, body, r.Header.Get("X-Hub-Signature"), r.Header.Values("Link"), r.Header.Get("Content-Type"))
	}
	if _, status, ok := strings.Cut(r.URL.Path, "/status/"); ok && challenge == "" {
		n, _ := strconv.Atoi(status) // of what is no number, a panic tells
		w.WriteHeader(n)
		return
	}
	_, _ = io.WriteString(w, challenge)
}
