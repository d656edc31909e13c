//go:build unix

package http1_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
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
			start := time.Now()
			resp, err := c.Get(t.Context(), r)
			if err == nil {
				resp.Patience = 50 * time.Millisecond
				_, err = io.ReadAll(resp)
			}
			if took := time.Since(start); !errors.Is(err, http1.ErrTimeout) || took < 50*time.Millisecond {
				t.Errorf("%s: %v after %s, want ErrTimeout after 50ms", target, err, took)
			}
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

// secureClient returns a client of a TLS server whose connections are passed to on after
// the handshake.
func secureClient(t *testing.T, on func(c net.Conn, r *bufio.Reader, n int)) (*client, *server) {
	t.Helper()
	cert := httptest.NewUnstartedServer(nil)
	cert.StartTLS()
	defer cert.Close()
	config := cert.TLS.Clone()
	config.NextProtos = []string{"h2", "http/1.1"}
	s := serve(t, func(c net.Conn, _ *bufio.Reader, n int) {
		secure := tls.Server(&corked{Conn: c}, config)
		if secure.Handshake() == nil {
			on(secure, bufio.NewReader(secure), n)
		}
	})
	c := newClient(t, s)
	roots := x509.NewCertPool()
	roots.AddCert(cert.Certificate())
	c.TLS = &tls.Config{RootCAs: roots}
	return c, s
}

func (c *client) getSecure(ctx context.Context, target string) (string, error) {
	r := c.request(target)
	r.Secure = true
	resp, err := c.Get(ctx, r)
	if err != nil {
		return "", err
	}
	defer resp.Close()
	b, err := io.ReadAll(resp)
	return string(b), err
}

// Over TLS, connections are reused, and not if a second response is in the same
// record, in another one, or arrives later.
func TestTLS(t *testing.T) {
	t.Parallel()
	const smuggled = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong"
	large := strings.Repeat("x", 1<<20)
	read := make(chan bool)
	c, s := secureClient(t, func(c net.Conn, r *bufio.Reader, n int) {
		if p := c.(*tls.Conn).ConnectionState().NegotiatedProtocol; p != "http/1.1" {
			t.Errorf("protocol %q", p)
		}
		for p := path(r); p != ""; p = path(r) {
			switch p {
			case "/record":
				_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s%s", len(p), p, smuggled)
			case "/records":
				both := c.(*tls.Conn).NetConn().(*corked)
				both.hold = true
				say(c, p)
				_, _ = io.WriteString(c, smuggled)
				both.flush()
			case "/later":
				say(c, p)
				<-read
				_, _ = io.WriteString(c, smuggled)
			case "/large":
				say(c, large)
			default:
				say(c, p)
			}
		}
	})
	want := int64(1)
	for range 3 {
		for _, target := range []string{"/a", "/large", "/b", "/record", "/c", "/records", "/d", "/later"} {
			text := target
			if target == "/large" {
				text = large
			}
			if got, err := c.getSecure(t.Context(), target); err != nil || got != text {
				t.Fatalf("get %s = %.80q, %v", target, got, err)
			}
			switch target {
			case "/later":
				read <- true
				c.arrived(t)
				want++
			case "/record", "/records":
				want++
			}
		}
	}
	if n := s.conns.Load(); n != want-1 {
		t.Errorf("%d connections, want %d", n, want-1)
	}
}

// A corked connection sends several writes together.
type corked struct {
	net.Conn
	hold bool
	held []byte
}

func (c *corked) Write(p []byte) (int, error) {
	if c.hold {
		c.held = append(c.held, p...)
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *corked) flush() {
	_, _ = c.Conn.Write(c.held)
	c.hold, c.held = false, nil
}

// A certificate that is not trusted is refused, and so is a server without TLS.
func TestTLSRefused(t *testing.T) {
	t.Parallel()
	c, _ := secureClient(t, echo)
	c.TLS = &tls.Config{}
	var verify *tls.CertificateVerificationError
	if _, err := c.getSecure(t.Context(), "/a"); !errors.As(err, &verify) {
		t.Errorf("get = %v, want a CertificateVerificationError", err)
	}
	c = newClient(t, serve(t, func(c net.Conn, r *bufio.Reader, _ int) {
		_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
	}))
	c.TLS = &tls.Config{}
	var record tls.RecordHeaderError
	if _, err := c.getSecure(t.Context(), "/a"); !errors.As(err, &record) {
		t.Errorf("get = %v, want a RecordHeaderError", err)
	}
	silent := serve(t, func(c net.Conn, r *bufio.Reader, _ int) { _, _ = io.Copy(io.Discard, r) })
	c = newClient(t, silent)
	c.TLS = &tls.Config{}
	r := c.request("/a")
	r.Secure, r.Patience = true, 50*time.Millisecond
	if _, err := c.Get(t.Context(), r); !errors.Is(err, http1.ErrTimeout) {
		t.Errorf("get = %v, want ErrTimeout", err)
	}
}
