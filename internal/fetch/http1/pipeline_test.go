//go:build unix

package http1_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/internal/fetch/http1"
)

// resource returns the body at a path; those of one length are many.
func resource(path string) string { return strings.Repeat(path+"\n", 1+len(path)%7) }

// A pipeliner counts what a server receives before it has answered.
type pipeliner struct {
	requests  atomic.Int64
	pipelined atomic.Int64 // requests that had arrived before the response to another was sent
}

// next reads a request and returns its path; "" after the last one.
func (p *pipeliner) next(r *bufio.Reader) string {
	behind := r.Buffered() > 0
	target := path(r)
	if target != "" {
		p.requests.Add(1)
		if behind {
			p.pipelined.Add(1)
		}
	}
	return target
}

// usual answers n requests, or all.
func (p *pipeliner) usual(c net.Conn, r *bufio.Reader, n int) bool {
	w := bufio.NewWriter(c)
	for ; n != 0; n-- {
		target := p.next(r)
		if target == "" {
			return false
		}
		_, _ = fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(resource(target)), resource(target))
		if r.Buffered() == 0 {
			_ = w.Flush()
		}
	}
	_ = w.Flush()
	return true
}

// getMany sends requests that may be pipelined, many at a time, and passes each result to
// see.
func getMany(t *testing.T, c *client, secure, near bool, n int, see func(target, body string, resp *http1.Response, err error)) {
	t.Helper()
	targets := make(chan string, n)
	for i := range n {
		targets <- fmt.Sprintf("/%d", i*i)
	}
	close(targets)
	var wg sync.WaitGroup
	atOnce := 64
	if !near {
		atOnce = 400
	}
	for range atOnce {
		wg.Go(func() {
			for target := range targets {
				r := c.request(target)
				r.Secure, r.Pipeline, r.Near, r.Length = secure, true, near, int64(len(resource(target)))
				if rand.IntN(10) == 0 {
					r.Length = -1
				}
				resp, err := c.Get(t.Context(), r)
				var body []byte
				if err == nil {
					body, err = io.ReadAll(resp)
					_ = resp.Close()
				}
				see(target, string(body), resp, err)
			}
		})
	}
	wg.Wait()
}

// A fault is what a server does instead of sending the response to target. It reports
// whether the connection continues.
type fault func(c net.Conn, r *bufio.Reader, target string) bool

func answerWith(format string) fault {
	return func(c net.Conn, _ *bufio.Reader, target string) bool {
		body := resource(target)
		_, _ = fmt.Fprint(c, strings.NewReplacer("LENGTH", fmt.Sprint(len(body)), "BODY", body, "HALF", body[:len(body)/2]).Replace(format))
		return !strings.Contains(format, "HALF") && !strings.Contains(format, "close")
	}
}

// Whatever a server does with pipelined requests, a body is that of its own request, unless
// the response says that it was pipelined: then the caller finds out. A status other than
// 200 is certain, unless the server does not respond to requests for the moment.
func TestPipelining(t *testing.T) {
	t.Parallel()
	usual := "HTTP/1.1 200 OK\r\nContent-Length: LENGTH\r\n\r\nBODY"
	for name, do := range map[string]fault{
		"as it should":        answerWith(usual),
		"closes":              answerWith("HTTP/1.1 200 OK\r\nContent-Length: LENGTH\r\nConnection: close\r\n\r\nBODY"),
		"HTTP/1.0":            answerWith("HTTP/1.0 200 OK\r\nContent-Length: LENGTH\r\n\r\nBODY"),
		"hangs up":            func(net.Conn, *bufio.Reader, string) bool { return false },
		"half a body":         answerWith("HTTP/1.1 200 OK\r\nContent-Length: LENGTH\r\n\r\nHALF"),
		"not found":           answerWith("HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ngone"),
		"busy":                answerWith("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy"),
		"busy, chunked":       answerWith("HTTP/1.1 503 Service Unavailable\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbusy\r\n0\r\n\r\n"),
		"not modified":        answerWith("HTTP/1.1 304 Not Modified\r\n\r\n"),
		"chunked":             answerWith("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"),
		"until close":         answerWith("HTTP/1.1 200 OK\r\n\r\nBODYclose"),
		"shorter":             answerWith("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"),
		"longer":              answerWith("HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n" + strings.Repeat("x", 20000)),
		"interim":             answerWith("HTTP/1.1 103 Early Hints\r\n\r\n" + usual),
		"no HTTP":             answerWith("220 ready\r\n" + usual),
		"twice":               answerWith(usual + usual),
		"a smuggled response": answerWith(usual + "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
		"another's first": func(c net.Conn, r *bufio.Reader, target string) bool {
			if r.Buffered() == 0 {
				return answerWith(usual)(c, r, target)
			}
			return answerWith(usual)(c, r, path(r)) && answerWith(usual)(c, r, target)
		},
		"forgets the rest": func(c net.Conn, r *bufio.Reader, target string) bool {
			_, _ = r.Discard(r.Buffered())
			return answerWith(usual)(c, r, target)
		},
	} {
		for i := range 4 {
			secure, near := i%2 == 1, i < 2
			t.Run(fmt.Sprintf("%s/secure=%v/near=%v", name, secure, near), func(t *testing.T) {
				t.Parallel()
				// A server that is found to be faulty, or slow, gets no more batches, which may be
				// before the first one on a machine with other things to do.
				for attempt := 1; !pipelineTo(t, name, do, secure, near); attempt++ {
					if attempt == 10 {
						t.Fatal("no request was pipelined, or few")
					}
				}
			})
		}
	}
}

// pipelineTo gets resources from a server that does what it should not every 20 requests or
// so, and reports whether it has received pipelined requests: 100 if it does as it should.
func pipelineTo(t *testing.T, name string, do fault, secure, near bool) bool {
	t.Helper()
	var p pipeliner
	on := func(conn net.Conn, r *bufio.Reader, n int) {
		for p.usual(conn, r, 20+n%5) {
			if target := p.next(r); target == "" || !do(conn, r, target) {
				return
			}
		}
	}
	var c *client
	if secure {
		c, _ = secureClient(t, on)
	} else {
		c = newClient(t, serve(t, on))
	}
	if name == "as it should" || name == "busy" {
		c.Stall = time.Minute // the requests are counted below, and this machine may be slow
	}
	var wrong, failed atomic.Int64
	getMany(t, c, secure, near, 1000, func(target, body string, resp *http1.Response, err error) {
		switch {
		case err != nil:
			failed.Add(1)
		case resp.Status >= 500:
			if name != "busy" && name != "busy, chunked" {
				t.Errorf("%s: status %d", target, resp.Status)
			}
		case resp.Status != http.StatusOK && resp.Pipelined:
			t.Errorf("%s: status %d of a pipelined request", target, resp.Status)
		case resp.Status != http.StatusOK || body == resource(target):
		case resp.Pipelined:
			wrong.Add(1)
		case strings.HasPrefix(body, "x") || strings.HasSuffix(body, "close"):
		default:
			t.Errorf("%s: %.20q, not pipelined", target, body)
		}
	})
	if name == "as it should" && (wrong.Load() > 0 || failed.Load() > 0 || p.requests.Load() != 1000) {
		t.Errorf("%d wrong, %d failed, %d requests", wrong.Load(), failed.Load(), p.requests.Load())
	}
	if n := p.requests.Load(); n > 1000 && name == "busy" || n > 1800 {
		t.Errorf("%d requests for 1000 resources", n)
	}
	if name == "as it should" {
		return p.pipelined.Load() >= 100
	}
	return p.pipelined.Load() > 0
}

// TestOneResponseBehind: a server that has responded twice to one of two pipelined requests, and
// responds to the other when a third one has come, passes no body of that for one of the third.
func TestOneResponseBehind(t *testing.T) {
	t.Parallel()
	for _, verified := range []bool{false, true} {
		arrived, proceed := make(chan struct{}), make(chan struct{})
		respond := func(c net.Conn, target string) {
			_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(resource(target)), resource(target))
		}
		c := newClient(t, serve(t, func(conn net.Conn, r *bufio.Reader, _ int) {
			for target := path(r); target != ""; target = path(r) {
				switch target {
				case "/1":
					close(arrived)
					<-proceed
				case "/2":
					respond(conn, target)
				case "/3":
					if target = path(r); target == "" {
						return
					}
					respond(conn, "/3")
				}
				if target != "/3" {
					respond(conn, target)
				}
			}
		}))
		get := func(target string, verified bool) (string, *http1.Response) {
			r := c.request(target)
			r.Pipeline, r.Near, r.Length = verified, true, int64(len(resource(target)))
			resp, err := c.Get(t.Context(), r)
			if err != nil {
				t.Error(err)
				return "", &http1.Response{}
			}
			body, _ := io.ReadAll(resp)
			return string(body), resp
		}
		get("/0", true)
		var wg sync.WaitGroup
		wg.Go(func() { get("/1", true) })
		<-arrived
		wg.Go(func() { get("/2", true) })
		time.Sleep(50 * time.Millisecond) // until it waits
		wg.Go(func() { get("/3", true) })
		time.Sleep(50 * time.Millisecond) // likewise
		close(proceed)
		wg.Wait()
		if body, resp := get("/4", verified); body != resource("/4") && !resp.Pipelined {
			t.Errorf("verified %v: /4: %q, not pipelined", verified, body)
		}
	}
}

// A server that closes each connection after a number of requests, and says so, receives
// few requests twice.
func TestPipeliningLimit(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 2, 10, 100} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			t.Parallel()
			var p pipeliner
			c := newClient(t, serve(t, func(c net.Conn, r *bufio.Reader, _ int) {
				if p.usual(c, r, limit-1) {
					answerWith("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: LENGTH\r\n\r\nBODY")(c, r, p.next(r))
				}
			}))
			getMany(t, c, false, true, 3000, func(target, body string, _ *http1.Response, err error) {
				if err != nil || body != resource(target) {
					t.Errorf("%s: %.20q, %v", target, body, err)
				}
			})
			if n := p.requests.Load(); n > 3100 {
				t.Errorf("%d requests for 3000 resources", n)
			}
			if limit > 2 && p.pipelined.Load() == 0 {
				t.Error("no request was pipelined")
			}
		})
	}
}

// A server that takes a while for each response gets requests side by side.
func TestPipeliningSlow(t *testing.T) {
	t.Parallel()
	const pause = 5 * time.Millisecond
	var p pipeliner
	c := newClient(t, serve(t, func(c net.Conn, r *bufio.Reader, _ int) {
		for target := p.next(r); target != ""; target = p.next(r) {
			time.Sleep(pause)
			say(c, resource(target))
		}
	}))
	get := func(n int) { getMany(t, c, false, true, n, func(string, string, *http1.Response, error) {}) }
	get(3000)
	before := p.pipelined.Load()
	get(1000)
	if after := p.pipelined.Load(); before == 0 || after > before {
		t.Errorf("%d of 3000 requests were pipelined, %d of the next 1000; want some, and none", before, after-before)
	}
}

// A response that does not come delays those behind it by a second at most, and a body that
// comes slowly does not delay them either.
func TestPipeliningStalls(t *testing.T) {
	t.Parallel()
	for name, head := range map[string]string{"header": "", "body": "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nx"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p pipeliner
			c := newClient(t, serve(t, func(c net.Conn, r *bufio.Reader, _ int) {
				for target := p.next(r); target != ""; target = p.next(r) {
					if target == "/silent" {
						_, _ = io.WriteString(c, head)
						_, _ = io.Copy(io.Discard, r)
						return
					}
					say(c, resource(target))
				}
			}))
			var late atomic.Int64
			get := func(n int, patience time.Duration) {
				var wg sync.WaitGroup
				for i := range n {
					wg.Go(func() {
						r := c.request(fmt.Sprintf("/%d", i))
						if i == 0 {
							r.Target = "/silent"
						}
						r.Pipeline, r.Near, r.Length, r.Patience = true, true, -1, patience
						time.Sleep(time.Duration(min(i, 1)) * 10 * time.Millisecond) // the silent one is first
						start := time.Now()
						resp, err := c.Get(t.Context(), r)
						if err == nil {
							_, err = io.ReadAll(resp)
							_ = resp.Close()
						}
						switch {
						case i == 0 && !errors.Is(err, http1.ErrTimeout):
							t.Errorf("the silent one: %v", err)
						case i > 0 && err != nil:
							t.Errorf("/%d: %v", i, err)
						case i > 0 && time.Since(start) > patience-time.Second:
							late.Add(1)
						}
					})
				}
				wg.Wait()
			}
			getMany(t, c, false, true, 200, func(string, string, *http1.Response, error) {})
			for _, n := range []int{200, 4, 2} { // few do not fill a batch
				if get(n, 6*time.Second); late.Load() > 0 {
					t.Errorf("%d of %d were late", late.Load(), n-1)
				}
			}
		})
	}
}

// A request whose context ends leaves the others alone, whether it waits or was sent.
func TestPipeliningContext(t *testing.T) {
	t.Parallel()
	var p pipeliner
	c := newClient(t, serve(t, func(c net.Conn, r *bufio.Reader, _ int) {
		for p.usual(c, r, 10) {
			time.Sleep(time.Millisecond)
		}
	}))
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			for i := range 60 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				if g%4 == 0 {
					cancel()
					ctx, cancel = context.WithTimeout(t.Context(), time.Duration(rand.IntN(2000))*time.Microsecond)
				}
				r := c.request(fmt.Sprintf("/%d/%d", g, i))
				r.Pipeline, r.Length = true, -1
				resp, err := c.Get(ctx, r)
				var body []byte
				if err == nil {
					body, err = io.ReadAll(resp)
					_ = resp.Close()
				}
				if g%4 != 0 && (err != nil || string(body) != resource(r.Target)) {
					t.Errorf("%s: %.20q, %v", r.Target, body, err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
}

// After NoPipelining each request is sent alone.
func TestNoPipelining(t *testing.T) {
	t.Parallel()
	var p pipeliner
	c := newClient(t, serve(t, func(c net.Conn, r *bufio.Reader, _ int) { p.usual(c, r, -1) }))
	c.NoPipelining(false, c.server.address)
	getMany(t, c, false, true, 1000, func(target, body string, resp *http1.Response, err error) {
		if err != nil || body != resource(target) || resp.Pipelined {
			t.Errorf("%s: %.20q, %v", target, body, err)
		}
	})
	if n := p.pipelined.Load(); n > 0 {
		t.Errorf("%d requests were pipelined", n)
	}
}
