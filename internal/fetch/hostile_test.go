package fetch_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/fetch"
)

// Requests that are occasionally lost do not delay the rest: a healthy host
// soon gets them again.
func TestForgottenRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &remote{way: 5 * time.Millisecond}
		c := wired(t, fetch.Options{}, func(w *wire, r *http.Request, n int) {
			switch {
			case n > 100 && n%100 == 0: // one in a hundred
				w.request() // sends nothing until the client closes the connection
			case n > 100 && n%100 == 50: // and another within its body
				w.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel")
				w.request()
			default:
				s.serve(w, r, n)
			}
		})
		start := time.Now()
		todo := make(chan struct{}, 2000)
		for range cap(todo) {
			todo <- struct{}{}
		}
		close(todo)
		var wg sync.WaitGroup
		for range 300 {
			wg.Go(func() {
				for range todo {
					err := c.Fetch(t.Context(), &fetch.Request{URI: source + "/a"}, func(r *fetch.Response) error {
						_, err := io.Copy(io.Discard, r.Body)
						return err
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if took := time.Since(start); took > 30*time.Second || c.Limit(sourceHost) < fetch.DefaultJobs {
			t.Errorf("2000 fetches, 40 forgotten, took %s, %d under way at last", took, c.Limit(sourceHost))
		}
	})
}

// However many of its resources are needed, a host that never answers, or
// always defers requests, is given up.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	for name, on := range map[string]func(w *wire){
		"silent":         func(w *wire) { w.request() },
		"drips headers":  func(w *wire) { w.drip("HTTP/1.1 200 OK\r\nA: "+strings.Repeat("b", 100), 10*time.Second) },
		"puts us off":    func(w *wire) { w.answer(503, "Retry-After: 86400\r\nConnection: close\r\n", "") },
		"has had enough": func(w *wire) { w.answer(429, "Retry-After: 300\r\nConnection: close\r\n", "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := wired(t, fetch.Options{}, func(w *wire, _ *http.Request, _ int) { on(w) })
				start := time.Now()
				todo := make(chan struct{}, 200)
				for range cap(todo) {
					todo <- struct{}{}
				}
				close(todo)
				var wg sync.WaitGroup
				for range 100 {
					wg.Go(func() {
						for range todo {
							if _, err := get(t.Context(), c, fetch.Request{URI: "/a"}); err == nil {
								t.Error("Get succeeded")
							}
						}
					})
				}
				wg.Wait()
				if took := time.Since(start); took > 2*time.Hour {
					t.Errorf("200 resources of such a host took %s", took)
				}
			})
		})
	}
}

// Credentials of one port of a host are not sent to another, nor after a
// redirect there and back.
func TestCredentialsAndPorts(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var seen []string
	var home, other string
	note := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			seen = append(seen, name+r.URL.Path+" "+r.Header.Get("Authorization")+r.Header.Get("X-Key")+r.Header.Get("Referer"))
			mu.Unlock()
			if to := map[string]string{"home/there": other + "/back", "other/back": home + "/end", "home/post": other + "/end"}[name+r.URL.Path]; to != "" {
				http.Redirect(w, r, to, http.StatusTemporaryRedirect)
			}
		}
	}
	home, other = serve(t, note("home")).URL, serve(t, note("other")).URL
	c := client(t, home, fetch.Options{BearerToken: "secret", Header: http.Header{"X-Key": {"+key"}}})
	for _, r := range []fetch.Request{{URI: home + "/there"}, {URI: home + "/post", Post: []byte("x")}, {URI: strings.Replace(other, "://", "://u:p@", 1) + "/end"}} {
		if _, err := get(t.Context(), c, r); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"home/there ", "home/there Bearer secret+key", "other/back ", "home/end Bearer secret+key", "home/post Bearer secret+key", "other/end ", "other/end "}
	if !slices.Equal(seen, want) {
		t.Errorf("seen %q, want %q", seen, want)
	}
}

// Ten thousand redirects, each to another host or path, end after ten.
func TestEndlessRedirects(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, fmt.Sprintf("/%d", n.Add(1)), http.StatusFound)
	})
	_, err := get(t.Context(), client(t, s.URL, fetch.Options{}), fetch.Request{URI: s.URL})
	var redirect *fetch.RedirectError
	if !errors.As(err, &redirect) || n.Load() != fetch.MaxRedirects+1 {
		t.Errorf("Get = %v after %d answers, want a RedirectError after %d", err, n.Load(), fetch.MaxRedirects+1)
	}
}

// Headers beyond the limit are refused over HTTP/2 too.
func TestHugeHeaderHTTP2(t *testing.T) {
	t.Parallel()
	s, c, _ := serveHTTP2(t, 100, 0, func(w http.ResponseWriter, r *http.Request) {
		for i := range 100 {
			w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("a", 10<<10))
		}
	})
	if _, err := get(t.Context(), c, fetch.Request{URI: s.URL, Once: true}); err == nil || c.Requests() > fetch.MaxTries {
		t.Errorf("Get = %v by %d requests, want an error", err, c.Requests())
	}
}

// A POST is sent again completely after the connection or the answer broke off.
func TestPostRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var bodies []string
		c := wired(t, fetch.Options{}, func(w *wire, r *http.Request, n int) {
			b, _ := io.ReadAll(r.Body)
			bodies = append(bodies, fmt.Sprint(r.Method, r.ContentLength, " ", string(b)))
			switch n {
			case 1:
			case 2:
				w.answer(503, "Connection: close\r\n", "")
			case 3:
				w.say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\nConnection: close\r\n\r\nabc")
			default:
				w.answer(200, "Connection: close\r\n", "done")
			}
		})
		got := ""
		r := fetch.Request{URI: source + "/dump", Post: []byte("a\nb"), PostType: "text/plain"}
		if err := c.Fetch(t.Context(), &r, resume(&r, &got)); err != nil || !strings.HasSuffix(got, "done") {
			t.Errorf("Fetch = %q, %v", got, err)
		}
		if want := slices.Repeat([]string{"POST3 a\nb"}, 4); !slices.Equal(bodies, want) {
			t.Errorf("server got %q, want %q", bodies, want)
		}
		if _, err := get(t.Context(), c, fetch.Request{URI: "/empty", Post: []byte{}}); err != nil || bodies[4] != "POST0 " {
			t.Errorf("POST of nothing: %v, server got %q", err, bodies[4:])
		}
	})
}

// FuzzAnswers: whatever range an answer states, an accepted one matches the
// request; and no forbidden redirect is followed.
func FuzzAnswers(f *testing.F) {
	for _, s := range []string{"bytes 5-9/10", "bytes 5-7/10", "bytes 0-9/*", "bytes */10", "bytes 9223372036854775807-9223372036854775807/*", "BYTES 5-9/9"} {
		f.Add(s, int64(5), int64(9), int64(0), int64(-1), "/b")
		f.Add(s, int64(0), int64(0), int64(5), int64(5), "http://u:p@[::1]:80/\x1b#x")
		f.Add(s, int64(0), int64(0), int64(5), int64(5), "?:// ")
	}
	f.Fuzz(func(t *testing.T, text string, from, to, tail, length int64, location string) {
		r := fetch.Request{RangeFrom: max(from, 0), RangeTo: max(to, 0), RangeLast: max(tail, 0)}
		if r.RangeTo > 0 && r.RangeTo < r.RangeFrom {
			return
		}
		got, err := fetch.AcceptRange(&r, text, length)
		var wrong *fetch.RangeError
		switch {
		case err != nil && !errors.As(err, &wrong):
			t.Errorf("range %q: %v, want a RangeError", text, err)
		case err != nil:
		case r.RangeLast == 0 && (got.First != r.RangeFrom || r.RangeTo > 0 && got.Last > r.RangeTo),
			r.RangeLast > 0 && (got.Last != got.Total-1 || got.Last-got.First+1 > r.RangeLast),
			length >= 0 && got.Last-got.First+1 != length:
			t.Errorf("range %q, body of %d, taken as %+v for %+v", text, length, got, r)
		}
		u := &url.URL{Scheme: "https", Host: "a.example", Path: "/a"}
		at, err := fetch.Next(&fetch.Request{URI: u.String()}, u, location)
		if err == nil && (at.Scheme != "https" || at.Hostname() == "" || at.User != nil || at.Fragment != "" || strings.ContainsAny(at.String(), "\x1b\r\n ")) {
			t.Errorf("redirect to %q leads to %q", location, at)
		}
	})
}
