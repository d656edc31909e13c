package fetch_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/internal/fetch"
)

// Clients that divide their limits have no more requests under way than one of them may have, and
// send no more of them in a second.
func TestDivide(t *testing.T) {
	t.Parallel()
	var under, most, all atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		all.Add(1)
		n := under.Add(1)
		defer under.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(5 * time.Millisecond)
		_, _ = w.Write([]byte("content"))
	}))
	defer server.Close()
	run := func(o fetch.Options, clients int, d time.Duration) {
		o.AllowPrivate = true
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		var g sync.WaitGroup
		for range clients {
			c, err := fetch.New(o)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			fetch.Divide(c, clients)
			for range 20 {
				g.Go(func() {
					for ctx.Err() == nil {
						if r, err := c.Get(ctx, fetch.Request{URI: server.URL + "/x"}); err == nil {
							_ = r.Body.Close() // only counted
						}
					}
				})
			}
		}
		g.Wait()
	}
	run(fetch.Options{Jobs: 8}, 4, 300*time.Millisecond)
	if n := most.Load(); n > 8 || n < 6 {
		t.Errorf("4 clients have %d requests under way, want 8", n)
	}
	all.Store(0)
	run(fetch.Options{Rate: 100}, 4, time.Second)
	if n := all.Load(); n > 110 || n < 70 {
		t.Errorf("4 clients have sent %d requests in a second, want 100", n)
	}
}

// A pause that one client was asked for applies to another one.
func TestSharePauses(t *testing.T) {
	t.Parallel()
	var refuse atomic.Bool
	refuse.Store(true)
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		if refuse.CompareAndSwap(true, false) {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()
	one, err := fetch.New(fetch.Options{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	other, err := fetch.New(fetch.Options{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = one.Get(t.Context(), fetch.Request{URI: server.URL}) }() // the pause counts
	for len(fetch.Pauses(one)) == 0 {
		time.Sleep(time.Millisecond)
	}
	for host, until := range fetch.Pauses(one) {
		if host != fetch.HostOf(server.URL) {
			t.Errorf("%s is paused", host)
		}
		fetch.Pause(other, host, until)
	}
	start := time.Now()
	if _, err := other.Get(t.Context(), fetch.Request{URI: server.URL}); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(start); d < 500*time.Millisecond {
		t.Errorf("the other client has waited for %v", d)
	}
}
