package fetch_test

import (
	"context"
	"errors"
	"fmt"
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

// getMany gets n resources with as many workers as a run has, and returns the
// numbers of successes and failures and the duration.
func getMany(t *testing.T, c *fetch.Client, n, workers int, path func(i int) string) (came, failed int64, took time.Duration) {
	t.Helper()
	start := time.Now()
	var next, good, bad atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				i := int(next.Add(1))
				if i > n {
					return
				}
				if _, err := get(t.Context(), c, fetch.Request{URI: path(i)}); err != nil {
					bad.Add(1)
				} else {
					good.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return good.Load(), bad.Load(), time.Since(start)
}

func numbered(i int) string { return fmt.Sprintf("/%d", i) }

// refusing makes a Client's host refuse connections while down returns true.
func refusing(c *fetch.Client, down func() bool, serve func(net.Conn)) {
	c.SetDial(func(context.Context, string, string) (net.Conn, error) {
		if down() {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}
		near, far := net.Pipe()
		go serve(far)
		return near, nil
	})
}

func TestAHostThatDisappearsIsGivenUpAfterABoundedTime(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		on   func(w *wire)
		most time.Duration
	}{
		{"resets", func(*wire) {}, 2 * time.Minute},
		{"answers 503", func(w *wire) { w.answer(503, "", "") }, 2 * time.Minute},
		{"is silent", func(w *wire) { w.request() }, 5 * time.Minute},
		{"asks for a pause", func(w *wire) { w.answer(503, "Retry-After: 30\r\n", "") }, 5 * time.Minute},
		{"asks for an hour", func(w *wire) { w.answer(503, "Retry-After: 3600\r\n", "") }, time.Second},
		{"asks all for an hour", func(w *wire) { w.answer(429, "Retry-After: 3600\r\n", "") }, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := wired(t, fetch.Options{}, func(w *wire, _ *http.Request, _ int) { tt.on(w) })
				came, failed, took := getMany(t, c, 5000, 32, numbered)
				if came != 0 || failed != 5000 || took > tt.most || c.Requests() > 500 {
					t.Errorf("%d came, %d failed in %s by %d requests; want 5000 failed within %s by at most 500", came, failed, took, c.Requests(), tt.most)
				}
			})
		})
	}
	t.Run("refuses", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			c := wired(t, fetch.Options{}, nil)
			refusing(c, func() bool { return true }, nil)
			came, failed, took := getMany(t, c, 5000, 32, numbered)
			if came != 0 || failed != 5000 || took > 2*time.Minute || c.Requests() > 200 {
				t.Errorf("%d came, %d failed in %s by %d requests", came, failed, took, c.Requests())
			}
			_, err := get(t.Context(), c, fetch.Request{URI: "/again"})
			if down, ok := errors.AsType[*fetch.HostError](err); !ok || !errors.Is(err, syscall.ECONNREFUSED) || down.Host != "source.example" || !fetch.Passing(err) {
				t.Errorf("Get = %v, want a HostError with the cause", err)
			}
			if want := "get http://source.example/again: source.example has failed every request since "; !strings.HasPrefix(err.Error(), want) {
				t.Errorf("Get = %q, want %q", err, want)
			}
		})
	})
}

// TestManyHostsThatFailAreForgotten: hosts that have failed all requests take no more memory than others, however
// many there are.
func TestManyHostsThatFailAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := wired(t, fetch.Options{Retries: -1}, nil)
		refusing(c, func() bool { return true }, nil)
		most := 0
		for i := range 4 * fetch.MaxHosts {
			if i%fetch.MaxHosts == 0 {
				time.Sleep(2 * fetch.GiveUpAfter)
			}
			host := fmt.Sprintf("http://h%d.example", i)
			if came, failed, _ := getMany(t, c, 20, 20, func(int) string { return host }); came > 0 || failed != 20 {
				t.Fatalf("%s: %d came, %d failed", host, came, failed)
			}
			most = max(most, c.Hosts())
		}
		if most > fetch.MaxHosts+1 {
			t.Errorf("%d hosts are remembered", most)
		}
		if _, err := get(t.Context(), c, fetch.Request{URI: fmt.Sprintf("http://h%d.example", 4*fetch.MaxHosts-1)}); !errors.As(err, new(*fetch.HostError)) {
			t.Errorf("the last one is requested again: %v", err)
		}
	})
}

func TestAHostThatComesBackCostsOnlyTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		away := func() bool { d := time.Since(begin); return d > time.Second && d < 30*time.Second }
		c := wired(t, fetch.Options{}, nil)
		refusing(c, away, func(far net.Conn) {
			defer far.Close()
			w := newWire(far)
			if w.request() == nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
			w.answer(200, "Connection: close\r\n", "x")
		})
		came, failed, took := getMany(t, c, 5000, 32, numbered)
		if came != 5000 || failed != 0 || took > time.Minute {
			t.Errorf("%d came, %d failed in %s; want all within a minute", came, failed, took)
		}
	})
}

func TestAHostThatWasGivenUpIsProbedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Bool
		c := wired(t, fetch.Options{}, nil)
		refusing(c, func() bool { return !back.Load() }, func(far net.Conn) {
			defer far.Close()
			w := newWire(far)
			if w.request() != nil {
				w.answer(200, "Connection: close\r\n", "x")
			}
		})
		if came, _, _ := getMany(t, c, 500, 32, numbered); came != 0 {
			t.Fatalf("%d came", came)
		}
		back.Store(true)
		time.Sleep(2 * fetch.GiveUpAfter)
		if came, failed, took := getMany(t, c, 500, 32, numbered); came != 500 || took > 30*time.Second {
			t.Errorf("after it is back: %d came, %d failed in %s", came, failed, took)
		}
	})
}

// Resources that always fail, even many in a row, do not prevent other
// resources of their host from being fetched.
func TestNoResourceDelaysTheOthersOfItsHost(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		bad  func(w *wire)
		most time.Duration
	}{
		{"429 with a pause", func(w *wire) { w.answer(429, "Retry-After: 50\r\n", "") }, 3 * time.Minute},
		{"429 for a day", func(w *wire) { w.answer(429, "Retry-After: 86400\r\n", "") }, time.Minute},
		{"503 with a pause", func(w *wire) { w.answer(503, "Retry-After: 50\r\n", "") }, 3 * time.Minute},
		{"500", func(w *wire) { w.answer(500, "", "") }, 2 * time.Minute},
		{"closed", func(*wire) {}, 2 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var last time.Duration
				begin := time.Now()
				c := wired(t, fetch.Options{}, func(w *wire, r *http.Request, _ int) {
					time.Sleep(5 * time.Millisecond)
					if strings.HasPrefix(r.URL.Path, "/bad") {
						tt.bad(w)
						return
					}
					mu.Lock()
					last = time.Since(begin)
					mu.Unlock()
					w.answer(200, "Connection: close\r\n", "x")
				})
				came, failed, took := getMany(t, c, 2000, 32, func(i int) string {
					if i%400 == 100 {
						return fmt.Sprintf("/bad%d", i)
					}
					return numbered(i)
				})
				if came != 1995 || failed != 5 || took > tt.most {
					t.Errorf("%d came, %d failed in %s; want 1995 and 5 within %s", came, failed, took, tt.most)
				}
				if last > 30*time.Second {
					t.Errorf("the last good one came after %s", last)
				}
			})
		})
	}
}

func TestManyBrokenResourcesInARow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := wired(t, fetch.Options{}, func(w *wire, r *http.Request, _ int) {
			time.Sleep(5 * time.Millisecond)
			if strings.HasPrefix(r.URL.Path, "/bad") {
				return // closes the connection
			}
			w.answer(200, "Connection: close\r\n", "x")
		})
		came, failed, took := getMany(t, c, 3000, 32, func(i int) string {
			if i > 1000 && i <= 2000 {
				return fmt.Sprintf("/bad%d", i)
			}
			return numbered(i)
		})
		if came != 2000 || failed != 1000 || took > 2*time.Minute {
			t.Errorf("%d came, %d failed in %s; want 2000 and 1000 within two minutes", came, failed, took)
		}
	})
}

func TestALongRetryAfterSaysWhenToAskAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := wired(t, fetch.Options{}, func(w *wire, _ *http.Request, _ int) { w.answer(503, "Retry-After: 7200\r\n", "") })
		_, err := get(t.Context(), c, fetch.Request{URI: "/a"})
		if want := time.Now().Add(2 * time.Hour); !fetch.NotBefore(err).Equal(want) || fetch.Passing(err) || c.Requests() != 1 {
			t.Errorf("Get = %v by %d requests, not before %s, passing %t; want one request, not before %s, not passing",
				err, c.Requests(), fetch.NotBefore(err), fetch.Passing(err), want)
		}
	})
}

// What one resource asks for does not apply to the whole host because others fail, too.
func TestALongRetryAfterOfOneResourceIsItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := wired(t, fetch.Options{}, func(w *wire, r *http.Request, _ int) {
			switch r.URL.Path {
			case "/later":
				w.answer(503, "Retry-After: 7200\r\nConnection: close\r\n", "")
			case "/document":
				w.answer(200, "Connection: close\r\n", "text")
			default:
				w.answer(500, "Connection: close\r\n", "")
			}
		})
		for i := range 12 {
			_, _ = get(t.Context(), c, fetch.Request{URI: numbered(i), Once: true})
		}
		if _, err := get(t.Context(), c, fetch.Request{URI: "/later"}); fetch.NotBefore(err).IsZero() {
			t.Errorf("the resource: %v, want a time", err)
		}
		if text, err := get(t.Context(), c, fetch.Request{URI: "/document", Document: true}); err != nil || text != "text" {
			t.Errorf("a document: %q, %v; want it", text, err)
		}
	})
}

func TestRetryAfterTogetherIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := wired(t, fetch.Options{}, func(w *wire, _ *http.Request, _ int) { w.answer(503, "Retry-After: 40\r\n", "") })
		start := time.Now()
		_, err := get(t.Context(), c, fetch.Request{URI: "/a"})
		if took := time.Since(start); err == nil || took > fetch.MaxRetryAfter {
			t.Errorf("Get = %v after %s, want an error within %s", err, took, fetch.MaxRetryAfter)
		}
	})
}

func TestATransferBelowTheMinimumRateIsNotRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := wired(t, fetch.Options{}, func(w *wire, _ *http.Request, _ int) {
			w.say("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
			w.drip(strings.Repeat("x", 1000), 2*time.Second)
		})
		r := fetch.Request{URI: source + "/a"}
		start := time.Now()
		var got string
		err := c.Fetch(t.Context(), &r, resume(&r, &got))
		if took := time.Since(start); !errors.Is(err, fetch.ErrTooSlow) || took >= time.Minute || c.Requests() != 1 || !fetch.Passing(err) {
			t.Errorf("Fetch = %v after %s by %d requests, want ErrTooSlow within a minute by one", err, took, c.Requests())
		}
	})
}

func TestBandwidthLimitsSmallResources(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n, size, rate = 2000, 1000, 100_000
		c := wired(t, fetch.Options{Bandwidth: rate}, func(w *wire, _ *http.Request, _ int) {
			w.answer(200, "", strings.Repeat("x", size))
		})
		_, failed, took := getMany(t, c, n, 64, numbered)
		if least := n * size / rate * time.Second; failed > 0 || took < least-time.Second || took > 2*least {
			t.Errorf("%d resources of %d bytes at %d bytes a second: %s, %d failed; want at least %s", n, size, rate, took, failed, least)
		}
	})
}
