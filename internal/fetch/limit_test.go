package fetch_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/fetch"
)

func TestJobs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		c := wired(t, fetch.Options{Jobs: 3}, func(w *wire, _ *http.Request, _ int) {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(time.Second)
			now.Add(-1)
			w.answer(200, "", "x")
		})
		start := time.Now()
		var wg sync.WaitGroup
		for range 30 {
			wg.Go(func() {
				if _, err := get(t.Context(), c, fetch.Request{URI: "/a"}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if most.Load() != 3 || time.Since(start) != 10*time.Second {
			t.Errorf("30 requests of a second by 3: %d at a time, %s; want 3, 10s", most.Load(), time.Since(start))
		}
	})
}

// TestClientsShareLimits: requests of two Clients to one host count together.
func TestClientsShareLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		o := fetch.Options{Jobs: 3, Limits: &fetch.Limits{}}
		var wg sync.WaitGroup
		start := time.Now()
		for range 2 {
			c := wired(t, o, func(w *wire, _ *http.Request, _ int) {
				if n := now.Add(1); n > most.Load() {
					most.Store(n)
				}
				time.Sleep(time.Second)
				now.Add(-1)
				w.answer(200, "", "x")
			})
			for range 15 {
				wg.Go(func() {
					if _, err := get(t.Context(), c, fetch.Request{URI: "/a"}); err != nil {
						t.Error(err)
					}
				})
			}
		}
		wg.Wait()
		if most.Load() != 3 || time.Since(start) != 10*time.Second {
			t.Errorf("30 requests of a second by two Clients, 3 at a time: %d at a time, %s; want 3, 10s", most.Load(), time.Since(start))
		}
	})
}

// TestClientsShareBandwidth: the bytes of two Clients count together, and each has a limit of its own.
func TestClientsShareBandwidth(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		total := fetch.NewBandwidth(100_000)
		var wg sync.WaitGroup
		start := time.Now()
		for _, own := range []int64{0, 10_000} {
			c := wired(t, fetch.Options{Total: total, Bandwidth: own}, func(w *wire, _ *http.Request, _ int) {
				w.answer(200, "", strings.Repeat("x", 50_000))
			})
			for range 8 {
				wg.Go(func() {
					if _, err := get(t.Context(), c, fetch.Request{URI: "/a"}); err != nil {
						t.Error(err)
					}
				})
			}
		}
		wg.Wait()
		if d := time.Since(start); d < 38*time.Second || d > 50*time.Second {
			t.Errorf("400 kB at 10 kB/s of 100 kB/s took %s, want about 40s", d)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		total := fetch.NewBandwidth(100_000)
		var wg sync.WaitGroup
		start := time.Now()
		for range 2 {
			c := wired(t, fetch.Options{Total: total}, func(w *wire, _ *http.Request, _ int) {
				w.answer(200, "", strings.Repeat("x", 50_000))
			})
			for range 10 {
				wg.Go(func() {
					if _, err := get(t.Context(), c, fetch.Request{URI: "/a"}); err != nil {
						t.Error(err)
					}
				})
			}
		}
		wg.Wait()
		if d := time.Since(start); d < 9*time.Second || d > 12*time.Second {
			t.Errorf("1 MB by two Clients at 100 kB/s together took %s, want about 10s", d)
		}
	})
}

// A document that is read while its resources are fetched blocks nothing, and
// counts.
func TestDocumentsAndJobs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, jobs := range []int{1, 2, 4} {
			var now, most atomic.Int64
			c := wired(t, fetch.Options{Jobs: jobs}, func(w *wire, r *http.Request, _ int) {
				if r.URL.Path == "/doc" {
					w.say("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nx")
					w.request()
					return
				}
				if n := now.Add(1); n > most.Load() {
					most.Store(n)
				}
				time.Sleep(time.Second)
				now.Add(-1)
				w.answer(200, "", "x")
			})
			doc, err := c.Get(t.Context(), fetch.Request{URI: source + "/doc", Document: true})
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					if _, err := get(t.Context(), c, fetch.Request{URI: "/a"}); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			_ = doc.Body.Close() // not read to its end
			if want := int64(max(jobs-1, 1)); most.Load() != want {
				t.Errorf("jobs %d, beside a document: %d at a time, want %d", jobs, most.Load(), want)
			}
		}
	})
}

func TestWaitingIsCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := wired(t, fetch.Options{Jobs: 1}, func(w *wire, _ *http.Request, _ int) {
			time.Sleep(30 * time.Second)
			w.answer(200, "", "x")
		})
		done := make(chan error)
		go func() {
			_, err := get(t.Context(), c, fetch.Request{URI: "/a"})
			done <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := get(ctx, c, fetch.Request{URI: "/b"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Get beyond Jobs = %v, want the deadline", err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, err := get(t.Context(), c, fetch.Request{URI: "/c"}); err != nil {
			t.Errorf("Get after one that did not wait: %v", err)
		}
	})
}

func TestRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := wired(t, fetch.Options{Rate: 2}, func(w *wire, _ *http.Request, _ int) { w.answer(200, "", "x") })
		start := time.Now()
		var wg sync.WaitGroup
		for range 21 {
			wg.Go(func() {
				if _, err := get(t.Context(), c, fetch.Request{URI: "/a"}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("21 requests at 2 per second took %s, want 10s", took)
		}
	})
}

func TestBandwidth(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := wired(t, fetch.Options{Bandwidth: 100_000}, func(w *wire, _ *http.Request, _ int) {
			w.answer(200, "", strings.Repeat("x", 1_000_000))
		})
		start := time.Now()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if _, err := get(t.Context(), c, fetch.Request{URI: "/a"}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(start).Round(time.Second); took < 29*time.Second || took > 31*time.Second || c.Bytes() != 3_000_000 {
			t.Errorf("3 MB at 100 kB/s: %s, %d bytes", took, c.Bytes())
		}
		if held := c.Held(); held < 29*time.Second || held > 91*time.Second {
			t.Errorf("transfers have waited for %s, want nearly all the time of up to three", held)
		}
	})
}

// Connections are reused, and there are no more of them than jobs.
func TestConnections(t *testing.T) {
	t.Parallel()
	var made atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/404" {
			http.Error(w, strings.Repeat("gone ", 1000), http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, strings.Repeat("x", 4096))
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			made.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	c := client(t, s.URL, fetch.Options{Jobs: 8})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 50 {
				_, err := get(t.Context(), c, fetch.Request{URI: s.URL + []string{"/a", "/404"}[i%2]})
				if err != nil && i%2 == 0 {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if made.Load() > 8 {
		t.Errorf("%d connections for 8 jobs", made.Load())
	}
}

func TestURIs(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RequestURI) })
	c := client(t, s.URL, fetch.Options{})
	for uri, want := range map[string]string{
		"/a%2Fb|c":     "/a%2Fb%7Cc",
		"/é/日本":        "/%C3%A9/%E6%97%A5%E6%9C%AC",
		"/100%/50%zz":  "/100%25/50%25zz",
		"/a b?q=a b&c": "/a%20b?q=a%20b&c",
		"/%e9%41":      "/%e9%41",
		"//x/../y/.":   "//x/../y/.",
		"/a?":          "/a?",
		"/a#b":         "/a",
		"?q":           "/?q",
		"/a[1]{2}^`\"": "/a[1]%7B2%7D%5E%60%22",
		"/;=,:@!$&'()": "/;=,:@!$&'()",
	} {
		if got, err := get(t.Context(), c, fetch.Request{URI: s.URL + uri}); err != nil || got != want {
			t.Errorf("Get(%s) asked for %q, %v, want %q", uri, got, err, want)
		}
	}
	for _, uri := range []string{"", "/a", "ftp://x/", "http:///a", "http://", "http://[::1", "http://a b/", "mailto:x@y", "http://x:99999/", "http://\x00/"} {
		resp, err := c.Get(t.Context(), fetch.Request{URI: uri, Once: true})
		var failed *fetch.Error
		if !errors.As(err, &failed) {
			t.Errorf("Get(%q) = %v, %v, want an Error", uri, resp, err)
		}
	}
}

func FuzzParsers(f *testing.F) {
	for _, s := range []string{"", "bytes 5-9/10", "bytes */3", "machine a login b password \"c", "120", "Wed, 21 Oct 2015 07:28:00 GMT", "http://h/%2Fa|b?q#f", "é\x1b\u202e"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if r, ok := fetch.ParseContentRange(s); ok && (r.First < 0 || r.Last < r.First || r.Total >= 0 && r.Last >= r.Total) {
			t.Errorf("ParseContentRange(%q) = %+v", s, r)
		}
		if d := fetch.RetryAfter(s, time.Unix(0, 0)); d < 0 {
			t.Errorf("RetryAfter(%q) = %s", s, d)
		}
		fetch.NetrcEntry(s, "a")
		text := fetch.Printable(s)
		if strings.ContainsAny(text, "\x00\x07\x1b\r\n\u202e\u009b") || fetch.Printable(text) != text && len(text) < 2000 {
			t.Errorf("Printable(%q) = %q", s, text)
		}
		u, err := fetch.ParseURI(s)
		if err != nil {
			return
		}
		again, err := url.Parse(u.String())
		if err != nil || again.RequestURI() != u.RequestURI() || again.Host != u.Host || strings.ContainsAny(u.RequestURI(), " \r\n\x00") {
			t.Errorf("ParseURI(%q) = %q, %v", s, u, err)
		}
	})
}
