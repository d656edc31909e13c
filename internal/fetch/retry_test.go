package fetch_test

import (
	"context"
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

// Requirements: RS-HTTP-03.
func TestRetries(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		failures int
		fail     func(w *wire)
		tries    int
		want     string // in the error; empty: none
		least    time.Duration
		most     time.Duration
	}{
		{"503 twice", 2, func(w *wire) { w.answer(503, "", "busy") }, 3, "", 300 * time.Millisecond, time.Second},
		{"closed twice", 2, func(w *wire) {}, 3, "", 300 * time.Millisecond, time.Second},
		{"500 for ever", 99, func(w *wire) { w.answer(500, "", "") }, 5, "get http://source.example/a: status 500 Internal Server Error (5 tries)", time.Second, 5 * time.Second},
		{"closed for ever", 99, func(w *wire) {}, 5, "get http://source.example/a: connection closed without an answer (5 tries)", time.Second, 5 * time.Second},
		{"silent for ever", 99, func(w *wire) { w.request() }, 2, "get http://source.example/a: no data for 1m0s (2 tries)", 2 * time.Minute, 3 * time.Minute},
		{"header dripping", 99, func(w *wire) {
			w.drip("HTTP/1.1 200 OK\r\nA: "+strings.Repeat("b", 1000), 20*time.Second)
		}, 2, "no data for 1m0s (2 tries)", 2 * time.Minute, 3 * time.Minute},
		{"retry after seconds", 1, func(w *wire) { w.answer(503, "Retry-After: 7\r\n", "") }, 2, "", 7 * time.Second, 8 * time.Second},
		{"retry after date", 1, func(w *wire) {
			w.answer(429, "Retry-After: "+time.Now().Add(9*time.Second).UTC().Format(http.TimeFormat)+"\r\n", "")
		}, 2, "", 8 * time.Second, 10 * time.Second},
		{"retry after a week", 9, func(w *wire) { w.answer(503, "Retry-After: 604800\r\n", "") }, 1, "and asks not to be asked again before ", 0, 0},
		{"404", 1, func(w *wire) { w.answer(404, "", "") }, 1, "get http://source.example/a: status 404 Not Found", 0, 0},
		{"501", 1, func(w *wire) { w.answer(501, "", "") }, 1, "status 501", 0, 0},
		{"505", 1, func(w *wire) { w.answer(505, "", "") }, 1, "status 505", 0, 0},
		{"no HTTP", 99, func(w *wire) { w.say("SSH-2.0-\x1b[31m\r\n\r\n") }, 5, `malformed HTTP`, time.Second, 5 * time.Second},
		{"huge header", 1, func(w *wire) { w.say("HTTP/1.1 200 OK\r\nA: %s\r\n\r\n", strings.Repeat("a", 1<<20)) }, 1, "header larger than 65536 bytes", 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := wired(t, fetch.Options{}, func(w *wire, _ *http.Request, n int) {
					if n <= tt.failures {
						tt.fail(w)
						return
					}
					w.answer(200, "", "hello")
				})
				start := time.Now()
				got, err := get(t.Context(), c, fetch.Request{URI: "/a"})
				took := time.Since(start)
				switch {
				case tt.want == "" && (err != nil || got != "hello"):
					t.Errorf("Get = %q, %v, want hello", got, err)
				case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
					t.Errorf("Get = %q, %v, want %s", got, err, tt.want)
				}
				if err != nil && strings.ContainsAny(err.Error(), "\x1b\r\n") {
					t.Errorf("Get: %q has control characters", err)
				}
				if c.Requests() != int64(tt.tries) || took < tt.least || took > tt.most {
					t.Errorf("Get: %d requests in %s; want %d in %s to %s", c.Requests(), took, tt.tries, tt.least, tt.most)
				}
			})
		})
	}
}

func TestOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := wired(t, fetch.Options{}, func(w *wire, _ *http.Request, _ int) { w.answer(503, "", "") })
		if _, err := get(t.Context(), c, fetch.Request{URI: "/a", Once: true}); err == nil || c.Requests() != 1 {
			t.Errorf("Get once: %d requests, %v; want 1 and an error", c.Requests(), err)
		}
	})
}

// After a host answers 429, no request is sent to it for a while.
func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := wired(t, fetch.Options{}, func(w *wire, r *http.Request, n int) {
			if n == 1 {
				w.answer(429, "Retry-After: 60\r\n", "")
				return
			}
			w.answer(200, "", r.URL.Path)
		})
		start := time.Now()
		done := make(chan time.Duration)
		go func() {
			_, _ = get(t.Context(), c, fetch.Request{URI: "/a"})
			done <- time.Since(start)
		}()
		synctest.Wait()
		if _, err := get(t.Context(), c, fetch.Request{URI: "/b"}); err != nil || time.Since(start) < time.Minute {
			t.Errorf("Get after 429: %v after %s, want a minute", err, time.Since(start))
		}
		<-done
	})
}

func TestCancel(t *testing.T) {
	t.Parallel()
	cause := errors.New("the user went home")
	tests := []struct {
		name string
		on   func(w *wire)
	}{
		{"while it is silent", func(w *wire) { w.request() }},
		{"while it puts us off", func(w *wire) { w.answer(503, "Retry-After: 50\r\n", "") }},
		{"while reading", func(w *wire) {
			w.say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
			w.request()
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := wired(t, fetch.Options{}, func(w *wire, _ *http.Request, _ int) { tt.on(w) })
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(10*time.Second, func() { cancel(cause) })
				start := time.Now()
				_, err := get(ctx, c, fetch.Request{URI: "/a"})
				if !errors.Is(err, cause) || time.Since(start) != 10*time.Second {
					t.Errorf("Get = %v after %s, want the cause after 10s", err, time.Since(start))
				}
			})
		})
	}
}

// resume reads the body into *got, from where it broke off.
func resume(r *fetch.Request, got *string) func(*fetch.Response) error {
	return func(resp *fetch.Response) error {
		if resp.Status == 200 {
			*got = ""
		}
		b, err := io.ReadAll(resp.Body)
		*got += string(b)
		r.RangeFrom = int64(len(*got))
		return err
	}
}

func TestFetchResumes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := wired(t, fetch.Options{}, func(w *wire, r *http.Request, n int) {
			switch {
			case n == 1:
				w.say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234")
			case n == 2 && r.Header.Get("Range") == "bytes=5-":
				w.answer(503, "", "")
			case r.Header.Get("Range") == "bytes=5-":
				w.answer(206, "Content-Range: bytes 5-9/10\r\n", "56789")
			}
		})
		r := fetch.Request{URI: source + "/a"}
		got := ""
		if err := c.Fetch(t.Context(), &r, resume(&r, &got)); err != nil || got != "0123456789" || c.Requests() != 3 {
			t.Errorf("Fetch = %q, %v by %d requests; want 0123456789 by 3", got, err, c.Requests())
		}
	})
}

func TestFetchGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := wired(t, fetch.Options{}, func(w *wire, _ *http.Request, n int) {
			if n%2 == 0 {
				w.answer(500, "", "")
				return
			}
			w.say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234")
		})
		r := fetch.Request{URI: source + "/a"}
		err := c.Fetch(t.Context(), &r, func(resp *fetch.Response) error {
			_, err := io.Copy(io.Discard, resp.Body)
			return err
		})
		var body *fetch.BodyError
		if !errors.As(err, &body) || body.Got != 5 || body.Want != 10 || c.Requests() != fetch.MaxTries {
			t.Errorf("Fetch = %v by %d requests, want a BodyError by %d", err, c.Requests(), fetch.MaxTries)
		}
		if want := "get http://source.example/a: body ended early after 5 of 10 bytes"; err.Error() != want {
			t.Errorf("Fetch = %v, want %s", err, want)
		}
		own := errors.New("disk full")
		if err := c.Fetch(t.Context(), &r, func(*fetch.Response) error { return own }); !errors.Is(err, own) {
			t.Errorf("Fetch = %v, want the caller's own error", err)
		}
	})
}

func TestGetWhole(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		bodies []string // each after the first breaks off after the previous one
		want   string   // or, with a leading "!", a part of the error
	}{
		{"twice", []string{"0123", "012345", "0123456789"}, "0123456789"},
		{"shorter than before", []string{"012345", "0123", "0123456789"}, "0123456789"},
		{"changed", []string{"0123", "9876543210"}, "!changed while it was read"},
		{"for ever", []string{"0", "01", "012", "0123", "01234", "012345"}, "!body ended early"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := wired(t, fetch.Options{}, func(w *wire, r *http.Request, n int) {
					w.say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n%s", tt.bodies[n-1])
				})
				resp, err := c.GetWhole(t.Context(), fetch.Request{URI: source + "/a"})
				if err != nil {
					t.Fatal(err)
				}
				b, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close() // read to its end
				if want, fails := strings.CutPrefix(tt.want, "!"); fails {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("body = %q, %v, want %s", b, err, want)
					}
				} else if err != nil || string(b) != want {
					t.Errorf("body = %q, %v, want %s", b, err, want)
				}
			})
		})
	}
}

// Transfers that the caller ends say nothing about the host.
func TestEndedTransfersAreNoFailuresOfTheHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var probed atomic.Bool
		c := wired(t, fetch.Options{Jobs: 32}, func(w *wire, r *http.Request, _ int) {
			switch {
			case r.Method == http.MethodHead:
				probed.Store(true)
				w.answer(200, "Connection: close\r\n", "")
			case r.URL.Path == "/after":
				w.answer(200, "Connection: close\r\n", "whole")
			default:
				w.say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n01234")
				time.Sleep(time.Hour)
			}
		})
		ctx, end := context.WithCancelCause(t.Context())
		ended := errors.New("others go first")
		var all sync.WaitGroup
		for i := range 32 {
			all.Go(func() {
				err := c.Fetch(ctx, &fetch.Request{URI: source + numbered(i)}, func(resp *fetch.Response) error {
					_, err := io.Copy(io.Discard, resp.Body)
					return err
				})
				if !errors.Is(err, ended) {
					t.Errorf("a transfer that was ended: %v", err)
				}
			})
		}
		time.Sleep(time.Second)
		end(ended)
		all.Wait()
		if text, err := get(t.Context(), c, fetch.Request{URI: "/after"}); err != nil || text != "whole" || probed.Load() {
			t.Errorf("afterwards: %q, %v, probed %t; want it without a probe", text, err, probed.Load())
		}
	})
}
