package fetch_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
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
				if _, unsent := errors.AsType[*fetch.HostError](last); !unsent { // which an earlier request may outlast
					last = err
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	return good.Load(), last
}

// recovers checks that documents of a host whose resources were given up are still read, and
// that its resources are requested again when it is well.
func recovers(t *testing.T, c *fetch.Client, well *atomic.Bool) {
	t.Helper()
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
		recovers(t, c, &well)
	})
}

// A host that answers documents and probes, but sends no resource, is given up after some
// minutes, not after as many timeouts as there are resources.
func TestAHostWithoutAnyResourceIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		jobs int
		most time.Duration
		send func(w *wire)
		want string
	}{
		"silent":                {0, 13 * time.Minute, func(*wire) { time.Sleep(time.Hour) }, "no resource arrives: no data"},
		"silent, one at a time": {1, 13 * time.Minute, func(*wire) { time.Sleep(time.Hour) }, "no resource arrives: no data"},
		"silent after the header": {0, 13 * time.Minute, func(w *wire) {
			w.say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
			time.Sleep(time.Hour)
		}, "no resource arrives: no data"},
		"too slow": {0, 13 * time.Minute, func(w *wire) {
			w.say("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
			w.drip(strings.Repeat("x", 100_000), time.Second)
		}, "no resource arrives: slower than the floor"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var well atomic.Bool
				c := wired(t, fetch.Options{Jobs: tt.jobs}, func(w *wire, r *http.Request, _ int) {
					if well.Load() || r.URL.Path == "/document" || r.Method == http.MethodHead {
						w.answer(200, "Connection: close\r\n", "whole")
						return
					}
					tt.send(w)
				})
				begin := time.Now()
				came, last := fetchMany(t, c, 5000)
				if took := time.Since(begin); came != 0 || c.Requests() > 200 || took > tt.most {
					t.Errorf("%d came by %d requests in %s; want none by at most 200 within %s", came, c.Requests(), took, tt.most)
				}
				if _, ok := errors.AsType[*fetch.HostError](last); !ok || !fetch.Passing(last) || !strings.Contains(last.Error(), tt.want) {
					t.Errorf("the last failed with %v, want a HostError with %q", last, tt.want)
				}
				recovers(t, c, &well)
			})
		})
	}
}

// Resources that never arrive must not keep another one from being requested for ever, as
// when follow tries all that are pending at each poll.
func TestResourcesThatHaveNotFailedAreRequestedFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := wired(t, fetch.Options{}, func(w *wire, r *http.Request, _ int) {
			if r.URL.Path == "/new" || r.Method == http.MethodHead {
				w.answer(200, "Connection: close\r\n", "whole")
				return
			}
			time.Sleep(time.Hour)
		})
		begin := time.Now()
		for time.Since(begin) < 20*time.Minute {
			if _, last := fetchMany(t, c, 12); last == nil {
				t.Fatal("a resource came that is never sent")
			}
			time.Sleep(fetch.GiveUpAfter)
		}
		var err error
		for range 3 {
			old := make(chan error, 1)
			go func() {
				_, last := fetchMany(t, c, 12)
				old <- last
			}()
			time.Sleep(time.Second)
			_, err = get(t.Context(), c, fetch.Request{URI: "/new"})
			if <-old; err == nil {
				return
			}
			time.Sleep(fetch.GiveUpAfter)
		}
		t.Errorf("a new resource that was requested after the others at each of three polls: %v", err)
	})
}

// A host that answers that resources have not changed is not given up because others do not
// arrive.
func TestAHostThatAnswersNotModifiedIsNotGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := wired(t, fetch.Options{}, func(w *wire, r *http.Request, _ int) {
			switch {
			case r.Header.Get("If-None-Match") != "":
				w.say("HTTP/1.1 304 Not Modified\r\nConnection: close\r\n\r\n")
			case r.Method == http.MethodHead:
				w.answer(200, "Connection: close\r\n", "")
			default:
				time.Sleep(time.Hour)
			}
		})
		for i := range 20 {
			if _, last := fetchMany(t, c, 1); last == nil {
				t.Fatal("a resource came that is never sent")
			}
			if _, err := get(t.Context(), c, fetch.Request{URI: "/same", IfNoneMatch: `"x"`}); err != nil {
				t.Fatalf("a resource that has not changed, after %d others: %v", i+1, err)
			}
		}
	})
}

// While a large resource arrives, its host is not given up because others do not.
func TestAHostThatSendsALargeResourceIsNotGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := wired(t, fetch.Options{}, func(w *wire, r *http.Request, _ int) {
			switch {
			case r.Method == http.MethodHead:
				w.answer(200, "", "")
				return
			case r.URL.Path != "/large":
				time.Sleep(time.Hour)
				return
			}
			const pieces = 60 * 60
			w.say("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", pieces*(8<<10))
			for range pieces {
				time.Sleep(time.Second)
				w.say("%s", strings.Repeat("x", 8<<10))
			}
		})
		large := make(chan error, 1)
		go func() {
			large <- c.Fetch(t.Context(), &fetch.Request{URI: source + "/large"}, func(resp *fetch.Response) error {
				_, err := io.Copy(io.Discard, resp.Body)
				return err
			})
		}()
		_, last := fetchMany(t, c, 40)
		if _, gone := errors.AsType[*fetch.HostError](last); gone || last == nil {
			t.Errorf("the others failed with %v, want an error of each", last)
		}
		if err := <-large; err != nil {
			t.Error(err)
		}
	})
}

// A server that accepts few connections must not be kept busy by idle ones.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		places := make(chan struct{}, 2)
		var mu sync.Mutex
		refused := 0
		var arrived sync.WaitGroup
		arrived.Add(2)
		c := wired(t, fetch.Options{}, func(*wire, *http.Request, int) {})
		c.SetDial(func(context.Context, string, string) (net.Conn, error) {
			select {
			case places <- struct{}{}:
			default:
				mu.Lock()
				refused++
				mu.Unlock()
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
			}
			near, far := net.Pipe()
			go func() {
				defer func() {
					far.Close()
					<-places
				}()
				w := newWire(far)
				for r := w.request(); r != nil; r = w.request() {
					if r.URL.Path != "/resource" { // each document has a connection of its own
						arrived.Done()
						arrived.Wait()
					}
					w.answer(200, "", "whole")
				}
			}()
			return near, nil
		})
		var documents sync.WaitGroup
		for _, path := range []string{"/one", "/two"} {
			documents.Go(func() {
				if _, err := get(t.Context(), c, fetch.Request{URI: path, Document: true}); err != nil {
					t.Error(err)
				}
			})
		}
		documents.Wait()
		begin := time.Now()
		err := c.Fetch(t.Context(), &fetch.Request{URI: source + "/resource"}, func(resp *fetch.Response) error {
			_, err := io.Copy(io.Discard, resp.Body)
			return err
		})
		if took := time.Since(begin); err != nil || refused == 0 || took > 5*time.Second {
			t.Errorf("a resource: %v after %s and %d refused connections; want it within seconds", err, took, refused)
		}
		c.Close()
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
