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
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lockstep/internal/fetch/http1"
)

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
