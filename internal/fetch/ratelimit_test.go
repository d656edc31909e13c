package fetch_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/fetch"
)

// TestEndedWaitsTakeNothing: requests that are given up while they wait for the rate do not delay others.
func TestEndedWaitsTakeNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &remote{}
		c := wired(t, fetch.Options{Rate: 10}, s.serve)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 500 {
			wg.Go(func() {
				_, _ = get(ctx, c, fetch.Request{URI: "/a"}) // most of them are given up
			})
		}
		time.Sleep(time.Second)
		stop()
		wg.Wait()
		if took := fetchAll(t, c, 100, 50); took > 11*time.Second || took < 9*time.Second {
			t.Errorf("100 requests at 10 a second took %s", took)
		}
	})
}

// TestRateAfterWaits: requests that have waited for others, or because the host asked for it, are not sent all at once
// afterwards, and none of them delays a document.
func TestRateAfterWaits(t *testing.T) {
	t.Parallel()
	for name, pauses := range map[string]bool{"pause": true, "stall": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var asked []time.Time
				s := &remote{}
				c := wired(t, fetch.Options{Rate: 10, Jobs: 2}, func(w *wire, r *http.Request, n int) {
					mu.Lock()
					asked = append(asked, time.Now())
					number := len(asked)
					mu.Unlock()
					switch {
					case number == 1 && pauses:
						w.answer(429, "Retry-After: 10\r\nConnection: close\r\n", "")
						return
					case number <= 2 && !pauses:
						time.Sleep(10 * time.Second)
					}
					s.serve(w, r, n)
				})
				var document time.Duration
				var wg sync.WaitGroup
				wg.Go(func() {
					start := time.Now()
					time.Sleep(15 * time.Second)
					if _, err := get(t.Context(), c, fetch.Request{URI: "/document", Document: true}); err != nil {
						t.Error(err)
					}
					document = time.Since(start) - 15*time.Second
				})
				took := fetchAll(t, c, 100, 100)
				wg.Wait()
				if took > 21*time.Second {
					t.Errorf("100 requests at 10 a second took %s", took)
				}
				for i := range len(asked) - 12 {
					if d := asked[i+12].Sub(asked[i]); d < time.Second {
						t.Fatalf("13 requests in %s, want 10 a second", d)
					}
				}
				if document > time.Second {
					t.Errorf("a document took %s", document)
				}
			})
		})
	}
}

// TestRateOfUnsentRequests: requests that turn out to be needless do not delay others.
func TestRateOfUnsentRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &remote{}
		c := wired(t, fetch.Options{Rate: 1}, s.serve)
		start := time.Now()
		for range 100 {
			_, err := get(t.Context(), c, fetch.Request{URI: "/a", Still: func() bool { return false }})
			if !errors.Is(err, fetch.ErrNotSent) {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("100 requests that were not sent took %s", took)
		}
	})
}

// A host that answers only a number of requests a second, and 429 to the
// others, delivers everything in about the corresponding time: no request fails
// because there were too many.
func TestHostWithRateLimit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		way    time.Duration
		answer string
	}{
		{"near, says when", 2 * time.Millisecond, "Retry-After: 1\r\n"},
		{"far, says when", 50 * time.Millisecond, "Retry-After: 1\r\n"},
		{"near, says nothing", 2 * time.Millisecond, ""},
		{"far, says nothing", 50 * time.Millisecond, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const rate = 50 // a second
				var mu sync.Mutex
				tokens, last := float64(rate), time.Now()
				s := &remote{way: tt.way}
				c := wired(t, fetch.Options{}, func(w *wire, r *http.Request, n int) {
					mu.Lock()
					tokens = min(tokens+time.Since(last).Seconds()*rate, rate)
					last = time.Now()
					ok := tokens >= 1
					if ok {
						tokens--
					}
					mu.Unlock()
					if !ok {
						time.Sleep(tt.way)
						w.answer(429, tt.answer+"Connection: close\r\n", "")
						return
					}
					s.serve(w, r, n)
				})
				took := fetchAll(t, c, 1000, 200)
				if took > 90*time.Second || c.Requests() > 2000 {
					t.Errorf("1000 resources at %d a second: %s, %d requests", rate, took, c.Requests())
				}
			})
		})
	}
}
