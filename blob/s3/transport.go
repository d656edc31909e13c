package s3

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"lockstep/internal/fetch/dialerror"
)

// Timeouts and bounds of the default transport.
const (
	dialTimeout   = 15 * time.Second
	answerTimeout = time.Minute // some services take long to complete a large upload
	stallTimeout  = time.Minute // without one byte: a peer that keeps a connection open without sending
	idlePerHost   = 64          // kept open for the next request: a handshake costs more than a small object
)

// NewTransport returns the default transport. It trusts the certificates in roots; nil: those
// of the system.
func NewTransport(roots *x509.CertPool) http.RoundTripper {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &stallConn{Conn: c}, nil
		},
		TLSClientConfig:       &tls.Config{RootCAs: roots},
		MaxIdleConns:          2 * idlePerHost,
		MaxIdleConnsPerHost:   idlePerHost,
		IdleConnTimeout:       stallTimeout / 2, // before stallConn ends it
		TLSHandshakeTimeout:   dialTimeout,
		ResponseHeaderTimeout: answerTimeout,
		ExpectContinueTimeout: 5 * time.Second,
		DisableCompression:    true, // bytes as stored
	}
}

// A stallConn fails when no byte is transferred for stallTimeout.
type stallConn struct{ net.Conn }

func (c *stallConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(stallTimeout + answerTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c *stallConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(stallTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// maxIdlePages is how many pages of a listing may come without a key. Services
// that skip deleted objects send some; endless empty pages would occupy the
// client forever.
const maxIdlePages = 1000

var errIdlePages = errors.New("the service answers with one page of the listing after another, all without a key")

// A guard counts the pages of a listing, whose context carries a *pages. The error of a
// service that does not answer in time is not taken for the end of the caller's run.
type guard struct{ next http.RoundTripper }

type pages struct{ idle atomic.Int64 } // requested since the last key

type pagesKey struct{}

func withPages(ctx context.Context) (context.Context, *pages) {
	p := new(pages)
	return context.WithValue(ctx, pagesKey{}, p), p
}

func (g guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if p, ok := r.Context().Value(pagesKey{}).(*pages); ok && p.idle.Add(1) > maxIdlePages {
		return nil, errIdlePages
	}
	resp, err := g.next.RoundTrip(r)
	return resp, dialerror.NotCanceled(r.Context(), err)
}
