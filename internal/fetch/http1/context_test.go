//go:build unix

package http1_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/internal/fetch/http1"
)

// The end of a context interrupts a request at once, and only its own.
func TestContextEnds(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c net.Conn, r *bufio.Reader, n int) {
		for p := path(r); p != ""; p = path(r) {
			switch p {
			case "/silent":
			case "/half":
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\na")
			default:
				say(c, p)
			}
		}
	})
	why := errors.New("the reason")
	c := newClient(t, s)
	long, end := context.WithCancelCause(t.Context())
	for _, kept := range []bool{false, true} {
		if kept {
			if _, err := c.get(long, "/a"); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(20*time.Millisecond, func() { cancel(why) })
		if got, err := c.get(ctx, "/silent"); !errors.Is(err, why) {
			t.Errorf("get = %q, %v; want %v", got, err, why)
		}
		ctx, cancel = context.WithCancelCause(t.Context())
		r, err := c.Get(ctx, c.request("/half"))
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(20*time.Millisecond, func() { cancel(why) })
		if b, err := io.ReadAll(r); err == nil {
			t.Errorf("read %q, want an error", b)
		}
	}
	// A context that ends while its connection has no request leaves it alone.
	before := s.conns.Load()
	if _, err := c.get(long, "/a"); err != nil {
		t.Fatal(err)
	}
	end(why)
	c.mustGet(t, "/b", "/b")
	if _, err := c.get(long, "/a"); !errors.Is(err, why) {
		t.Errorf("get with a context that has ended: %v", err)
	}
	c.mustGet(t, "/c", "/c")
	if n := s.conns.Load() - before; n > 2 {
		t.Errorf("%d new connections, want at most 2", n)
	}
}

// A response can be closed while it is read.
func TestCloseWhileReading(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c net.Conn, r *bufio.Reader, n int) {
		for p := path(r); p != ""; p = path(r) {
			if p == "/half" {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\na")
			} else {
				say(c, p)
			}
		}
	})
	c := newClient(t, s)
	for range 20 {
		r, err := c.Get(t.Context(), c.request("/half"))
		if err != nil {
			t.Fatal(err)
		}
		began := make(chan bool)
		var wg sync.WaitGroup
		wg.Go(func() {
			var b [1]byte
			_, _ = r.Read(b[:])
			close(began)
			_, _ = r.Read(b[:]) // waits
		})
		<-began
		_ = r.Close()
		wg.Wait()
		c.mustGet(t, "/a", "/a")
	}
}

// Silence ends after Patience, in the header and in the body, on a new
// connection and on one whose read deadline is left from before.
func TestPatience(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c net.Conn, r *bufio.Reader, n int) {
		for p := path(r); p != ""; p = path(r) {
			switch p {
			case "/silent":
			case "/half":
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\na")
			case "/begin":
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			default:
				say(c, p)
			}
		}
	})
	c := newClient(t, s)
	for _, first := range []time.Duration{0, time.Minute, time.Millisecond} {
		for _, target := range []string{"/silent", "/begin", "/half"} {
			if first > 0 { // otherwise a new connection
				r := c.request("/a")
				r.Patience = time.Minute
				if resp, err := c.Get(t.Context(), r); err != nil {
					t.Fatal(err)
				} else if _, err := io.ReadAll(resp); err != nil {
					t.Fatal(err)
				}
			}
			r := c.request(target)
			r.Patience = 50 * time.Millisecond
			if target == "/half" {
				r.Patience = time.Minute
			}
			resp, err := c.Get(t.Context(), r)
			if err == nil {
				resp.Patience = 50 * time.Millisecond
				_, err = io.ReadAll(resp)
			}
			if took := time.Since(r.Began); !errors.Is(err, http1.ErrTimeout) || took < 50*time.Millisecond {
				t.Errorf("%s: %v after %s, want ErrTimeout after 50ms", target, err, took)
			}
		}
	}
}

// A connection that is not accepted within Patience is silence, too, whether the dialer notices first or the context.
func TestPatienceOfDialers(t *testing.T) {
	t.Parallel()
	c := newClient(t, serve(t, func(net.Conn, *bufio.Reader, int) {}))
	c.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		until, _ := ctx.Deadline()
		for time.Now().Before(until) { // a moment later the context would have ended
			runtime.Gosched()
		}
		return nil, os.ErrDeadlineExceeded
	}
	for range 100 {
		r := c.request("/")
		r.Patience = time.Millisecond
		if _, err := c.Get(t.Context(), r); !errors.Is(err, http1.ErrTimeout) {
			t.Fatalf("%v, want ErrTimeout", err)
		}
	}
}

// A read deadline that expires while a connection has no request, or early in the
// next request, does no harm.
func TestDeadlineLeft(t *testing.T) {
	t.Parallel()
	slow := make(chan bool)
	s := serve(t, func(c net.Conn, r *bufio.Reader, n int) {
		for p := path(r); p != ""; p = path(r) {
			if p == "/slow" {
				<-slow
			}
			say(c, p)
		}
	})
	c := newClient(t, s)
	short := func() {
		t.Helper()
		r := c.request("/a")
		r.Patience = 200 * time.Millisecond
		resp, err := c.Get(t.Context(), r)
		if err != nil {
			t.Skipf("the machine is too busy: %v", err)
		}
		_, _ = io.ReadAll(resp)
	}
	short()
	time.AfterFunc(250*time.Millisecond, func() { slow <- true })
	c.mustGet(t, "/slow", "/slow") // the deadline expires meanwhile
	c.mustGet(t, "/b", "/b")
}

// Connections without a request are limited in number and time.
func TestIdle(t *testing.T) {
	t.Parallel()
	var open atomic.Int64
	arrived := make(chan bool, 10)
	proceed := make(chan bool)
	s := serve(t, func(c net.Conn, r *bufio.Reader, n int) {
		open.Add(1)
		defer open.Add(-1)
		for p := path(r); p != ""; p = path(r) {
			arrived <- true
			<-proceed
			say(c, p)
		}
	})
	c := newClient(t, s)
	c.MaxIdle, c.Idle = 3, time.Hour
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if got, err := c.get(t.Context(), "/a"); err != nil || got != "/a" {
				t.Errorf("get = %q, %v", got, err)
			}
		})
	}
	for range 10 {
		<-arrived
	}
	close(proceed)
	wg.Wait()
	wait(t, func() bool { return open.Load() == 3 })
	c.mustGet(t, "/b", "/b")
	wantConns(t, s, 10)
	c.Close()
	wait(t, func() bool { return open.Load() == 0 })
	resp, err := c.Get(t.Context(), c.request("/c"))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	_, _ = io.ReadAll(resp)
	wait(t, func() bool { return open.Load() == 0 })
	c.Idle = 10 * time.Millisecond
	c.mustGet(t, "/d", "/d")
	wait(t, func() bool { return open.Load() == 0 })
}
