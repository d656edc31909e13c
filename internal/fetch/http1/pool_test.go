//go:build unix

package http1_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lockstep/internal/fetch/http1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A server handles each connection with on, numbered from 1.
type server struct {
	address string
	conns   atomic.Int64
}

func serve(t *testing.T, on func(c net.Conn, r *bufio.Reader, n int)) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{address: l.Addr().String()}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n := int(s.conns.Add(1))
			wg.Go(func() {
				defer c.Close()
				on(c, bufio.NewReader(c), n)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	return s
}

// path reads a request and returns its path; "" after the last one.
func path(r *bufio.Reader) string {
	req, err := http.ReadRequest(r)
	if err != nil {
		return ""
	}
	return req.URL.Path
}

func say(c net.Conn, body string) {
	_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// echo answers each request with its path.
func echo(c net.Conn, r *bufio.Reader, _ int) {
	for p := path(r); p != ""; p = path(r) {
		say(c, p)
	}
}

// A client is a Pool that remembers its connections.
type client struct {
	http1.Pool
	server *server
	mu     sync.Mutex
	dialed []net.Conn
}

func newClient(t *testing.T, s *server) *client {
	c := &client{server: s}
	c.MaxIdle, c.Idle = 100, time.Minute
	c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, address)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.dialed = append(c.dialed, conn)
		return conn, err
	}
	t.Cleanup(c.Close)
	return c
}

func (c *client) request(target string) *http1.Request {
	return &http1.Request{Host: c.server.address, Target: target, Began: time.Now(), Patience: time.Minute}
}

// get returns the body of a response.
func (c *client) get(ctx context.Context, target string) (string, error) {
	r, err := c.Get(ctx, c.request(target))
	if err != nil {
		return "", err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	return string(b), err
}

func (c *client) mustGet(t *testing.T, target, want string) {
	t.Helper()
	if got, err := c.get(t.Context(), target); err != nil || got != want {
		t.Fatalf("get %s = %q, %v; want %q", target, got, err, want)
	}
}

// arrived waits until the last connection has something to read, or its end.
func (c *client) arrived(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	raw, err := c.dialed[len(c.dialed)-1].(*net.TCPConn).SyscallConn()
	c.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	wait(t, func() (there bool) {
		if raw.Control(func(fd uintptr) {
			_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			there = err == nil
		}) != nil {
			return true // closed
		}
		return there
	})
}

// wait waits for a condition.
func wait(t *testing.T, done func() bool) {
	t.Helper()
	for start := time.Now(); !done(); {
		if time.Since(start) > time.Minute {
			t.Fatal("waited for a minute")
		}
		runtime.Gosched()
		time.Sleep(time.Millisecond)
	}
}

func wantConns(t *testing.T, s *server, want int64) {
	t.Helper()
	if n := s.conns.Load(); n != want {
		t.Errorf("%d connections, want %d", n, want)
	}
}

// One connection serves many requests, whatever the length of the bodies.
func TestReuse(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 1<<20)
	s := serve(t, func(c net.Conn, r *bufio.Reader, _ int) {
		for p := path(r); p != ""; p = path(r) {
			switch p {
			case "/large":
				say(c, large)
			case "/chunked":
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
			case "/none":
				_, _ = io.WriteString(c, "HTTP/1.1 304 Not Modified\r\n\r\n")
			case "/interim":
				_, _ = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\n\r\n")
				fallthrough
			default:
				say(c, p)
			}
		}
	})
	c := newClient(t, s)
	for range 3 {
		c.mustGet(t, "/a", "/a")
		c.mustGet(t, "/large", large)
		c.mustGet(t, "/chunked", "abc")
		c.mustGet(t, "/none", "")
		c.mustGet(t, "/interim", "/interim")
	}
	wantConns(t, s, 1)
}

// A connection with bytes that no request has asked for is not used again,
// whenever they arrive.
func TestUnexpectedBytes(t *testing.T) {
	t.Parallel()
	const smuggled = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong"
	for name, end := range map[string]string{
		"a response": smuggled, "one byte": "H", "an empty line": "\r\n",
		"a timeout": "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
	} {
		t.Run("with the response: "+name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(c net.Conn, r *bufio.Reader, _ int) {
				for p := path(r); p != ""; p = path(r) {
					say(c, p+end) // in one segment
				}
			})
			// The length is that of the path alone.
			s2 := serve(t, func(c net.Conn, r *bufio.Reader, _ int) {
				for p := path(r); p != ""; p = path(r) {
					_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s%s", len(p), p, end)
				}
			})
			newClient(t, s).mustGet(t, "/a", "/a"+end)
			c := newClient(t, s2)
			for i := range 5 {
				c.mustGet(t, fmt.Sprint("/", i), fmt.Sprint("/", i))
			}
			wantConns(t, s2, 5)
		})
		t.Run("later: "+name, func(t *testing.T) {
			t.Parallel()
			read := make(chan bool)
			s := serve(t, func(c net.Conn, r *bufio.Reader, _ int) {
				for p := path(r); p != ""; p = path(r) {
					say(c, p)
					if !<-read {
						return // closed: the test has failed
					}
					_, _ = io.WriteString(c, end)
				}
			})
			c := newClient(t, s)
			t.Cleanup(func() { close(read) })
			for i := range 5 {
				c.mustGet(t, fmt.Sprint("/", i), fmt.Sprint("/", i))
				read <- true
				c.arrived(t)
			}
			wantConns(t, s, 5)
		})
	}
}

// A request on a kept connection that the server closes is sent again once, on a new
// connection; on a new connection it is not.
func TestStaleConnection(t *testing.T) {
	t.Parallel()
	t.Run("closed before", func(t *testing.T) {
		t.Parallel()
		s := serve(t, func(c net.Conn, r *bufio.Reader, _ int) { say(c, path(r)) })
		c := newClient(t, s)
		for i := range 3 {
			c.mustGet(t, fmt.Sprint("/", i), fmt.Sprint("/", i))
			c.arrived(t)
		}
		wantConns(t, s, 3)
	})
	t.Run("closed by the request", func(t *testing.T) {
		t.Parallel()
		var requests atomic.Int64
		s := serve(t, func(c net.Conn, r *bufio.Reader, n int) {
			requests.Add(1)
			say(c, path(r))
			if path(r) != "" {
				requests.Add(1) // and closes
			}
		})
		c := newClient(t, s)
		c.mustGet(t, "/a", "/a")
		c.mustGet(t, "/b", "/b")
		wantConns(t, s, 2)
		if n := requests.Load(); n != 3 {
			t.Errorf("%d requests, want 3", n)
		}
	})
	t.Run("closed every time", func(t *testing.T) {
		t.Parallel()
		s := serve(t, func(c net.Conn, r *bufio.Reader, n int) {
			if n == 1 {
				say(c, path(r))
			}
			path(r)
		})
		c := newClient(t, s)
		c.mustGet(t, "/a", "/a")
		if got, err := c.get(t.Context(), "/b"); !errors.Is(err, io.EOF) {
			t.Errorf("get = %q, %v; want EOF", got, err)
		}
		wantConns(t, s, 2)
	})
	t.Run("after the first byte", func(t *testing.T) {
		t.Parallel()
		s := serve(t, func(c net.Conn, r *bufio.Reader, n int) {
			say(c, path(r))
			path(r)
			_, _ = io.WriteString(c, "H")
		})
		c := newClient(t, s)
		c.mustGet(t, "/a", "/a")
		if got, err := c.get(t.Context(), "/b"); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("get = %q, %v; want ErrUnexpectedEOF", got, err)
		}
		wantConns(t, s, 1)
	})
}

// After an error, or a response that was not read to its end, a connection is closed.
func TestNoReuse(t *testing.T) {
	t.Parallel()
	for name, response := range map[string]string{
		"announces it": "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na",
		"HTTP/1.0":     "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na",
		"unread":       "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\na",
		"unusual":      "HTTP/1.1 200 OK\nContent-Length: 1\n\na",
		"bad chunk":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
		"trailer":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(c net.Conn, r *bufio.Reader, n int) {
				if n > 1 {
					echo(c, r, n)
				}
				path(r)
				_, _ = io.WriteString(c, response)
				path(r) // until the client closes the connection
			})
			c := newClient(t, s)
			if r, err := c.Get(t.Context(), c.request("/a")); err == nil {
				var b [2]byte
				for err = error(nil); err == nil && name != "unread"; {
					_, err = r.Read(b[:])
				}
				_ = r.Close()
				if _, err := r.Read(b[:]); err == nil {
					t.Error("read after the end")
				}
			}
			c.mustGet(t, "/b", "/b")
			wantConns(t, s, 2)
		})
	}
}
