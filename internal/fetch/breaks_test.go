package fetch_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/fetch"
)

// fetchMany fetches n resources with 32 workers, and returns the number of
// successes.
func fetchMany(t *testing.T, c *fetch.Client, n int) (came int64, last error) {
	t.Helper()
	var next, good atomic.Int64
	var mu sync.Mutex
	var workers sync.WaitGroup
	for range 32 {
		workers.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				err := c.Fetch(t.Context(), &fetch.Request{URI: source + numbered(int(i))}, func(resp *fetch.Response) error {
					_, err := io.Copy(io.Discard, resp.Body)
					return err
				})
				if err == nil {
					good.Add(1)
					continue
				}
				mu.Lock()
				last = err
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	return good.Load(), last
}

func TestAHostThatBreaksOffEveryBodyCostsABoundedNumberOfRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var well atomic.Bool
		c := wired(t, fetch.Options{}, func(w *wire, r *http.Request, _ int) {
			if well.Load() || r.URL.Path == "/document" {
				w.answer(200, "Connection: close\r\n", "whole")
				return
			}
			w.say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n01234")
		})
		begin := time.Now()
		came, last := fetchMany(t, c, 5000)
		if took := time.Since(begin); came != 0 || c.Requests() > 500 || took > 2*time.Minute {
			t.Errorf("%d came by %d requests in %s; want none by at most 500 within 2 minutes", came, c.Requests(), took)
		}
		down, ok := errors.AsType[*fetch.HostError](last)
		if !ok || !fetch.Passing(last) || !strings.Contains(last.Error(), "it breaks off every body: body ended early") {
			t.Errorf("the last failed with %v (%v), want a HostError with the cause", last, down)
		}
		if text, err := get(t.Context(), c, fetch.Request{URI: "/document", Document: true}); err != nil || text != "whole" {
			t.Errorf("a document: %q, %v; want it in spite of the resources", text, err)
		}
		well.Store(true)
		time.Sleep(2 * fetch.GiveUpAfter)
		if came, last := fetchMany(t, c, 1); came != 1 {
			t.Errorf("when the host is well again: %v", last)
		}
		if came, last := fetchMany(t, c, 100); came != 100 {
			t.Errorf("when a body came: %d came, %v", came, last)
		}
	})
}

func TestABodyThatBreaksOffAtTheSamePlaceIsTriedThreeTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := wired(t, fetch.Options{}, func(w *wire, r *http.Request, n int) {
			if r.URL.Path == "/never" {
				w.say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234")
				return
			}
			w.say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n%s", "0123456789"[:min(2*n, 10)])
		})
		read := func(resp *fetch.Response) error {
			_, err := io.Copy(io.Discard, resp.Body)
			return err
		}
		if err := c.Fetch(t.Context(), &fetch.Request{URI: source + "/further"}, read); err != nil || c.Requests() != 5 {
			t.Errorf("a body that comes further each time: %v by %d requests, want all of it by 5", err, c.Requests())
		}
		before := c.Requests()
		if err := c.Fetch(t.Context(), &fetch.Request{URI: source + "/never"}, read); err == nil || c.Requests()-before != 3 {
			t.Errorf("a body that ends at one place: %v by %d requests, want a failure by 3", err, c.Requests()-before)
		}
	})
}
