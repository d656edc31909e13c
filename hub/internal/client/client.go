// Package client is the HTTP client with which a hub calls addresses that
// strangers have named.
package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"lockstep/internal/certerror"
	"lockstep/internal/fetch"
	"lockstep/internal/fetch/requestlog"
	"lockstep/internal/fetch/shown"
)

const (
	idleConns    = 1024             // idle connections kept open, in all
	idleFor      = 90 * time.Second // as long as servers commonly keep them
	maxHeader    = 64 << 10         // of an answer
	writeBuffer  = 8 << 10          // a message of ordinary size and its header in one write
	tlsResumable = 1024             // TLS sessions remembered
)

// A DialError reports that no connection to an endpoint could be made: any
// other delivery there would have failed as well.
type DialError struct{ error }

// Unwrap returns the reason.
func (e *DialError) Unwrap() error { return e.error }

// Options configure a client.
type Options struct {
	AllowPrivate bool // it may connect to private and loopback addresses
	RootCAs      *x509.CertPool
	Timeout      time.Duration
	IdlePerHost  int          // connections
	Logger       *slog.Logger // gets each request at debug level; nil: none does
}

// New returns the client for callbacks. It follows no redirects (WS-C-08)
// and connects only to allowed addresses (WS-SEC-02).
func New(o Options) *http.Client {
	dial := fetch.Dialer(o.AllowPrivate)
	return &http.Client{
		Transport: requestlog.Transport(certerror.Transport(&http.Transport{
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				ctx, cancel := context.WithTimeout(ctx, o.Timeout*3/4) // shorter than the timeout of an answer, to distinguish the two
				defer cancel()
				c, err := dial(ctx, network, address)
				if err != nil && !errors.Is(err, context.Canceled) {
					err = &DialError{err}
				}
				return c, err
			},
			TLSClientConfig: &tls.Config{
				MinVersion:         tls.VersionTLS12,
				RootCAs:            o.RootCAs,
				ClientSessionCache: tls.NewLRUClientSessionCache(tlsResumable),
			},
			TLSHandshakeTimeout:    o.Timeout,
			DisableCompression:     true, // WS-X-12, and answers are not read
			MaxIdleConns:           idleConns,
			MaxIdleConnsPerHost:    o.IdlePerHost,
			IdleConnTimeout:        idleFor,
			MaxResponseHeaderBytes: maxHeader,
			WriteBufferSize:        writeBuffer,
		}), o.Logger, shown.WithoutQuery),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
