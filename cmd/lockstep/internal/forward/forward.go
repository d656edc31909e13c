// Package forward passes requests from one process of a Source to the one that publishes, which
// answers them as if their clients had reached it directly.
//
// The process that publishes states in the database where it is reached, and a key. A forwarded
// request has a header with the address of its client and a code made with the key, so that the
// receiver believes the address: limits for each client and logs depend on it. The code is for one
// term of one publisher. A process that is not, or no longer, that publisher refuses the request, so
// that none is forwarded twice.
package forward

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"
)

// A Target is the process that publishes.
type Target struct {
	Address string `json:"address"` // of its listener, HOST:PORT
	TLS     bool   `json:"tls,omitempty"`
	Term    string `json:"term"` // distinguishes all publishers
	Key     string `json:"key"`
}

// NewTarget returns the target that this process is during a term.
func NewTarget(address string, tls bool, term string) *Target {
	return &Target{Address: address, TLS: tls, Term: term, Key: rand.Text()}
}

// header marks a forwarded request: the term, the address of the client and the code.
const header = "Lockstep-Forwarded"

// code returns the code of a request.
func (t *Target) code(method, path, client string) string {
	m := hmac.New(sha256.New, []byte(t.Key))
	m.Write([]byte(strings.Join([]string{t.Term, method, path, client}, "\n")))
	return hex.EncodeToString(m.Sum(nil))
}

// retryAfter is how many seconds a client waits that found no publisher: a successor is there
// within 10 s, and most often sooner.
const retryAfter = "2"

// Refuse answers a request that only a publisher can answer, while there is none.
func Refuse(w http.ResponseWriter, text string) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Retry-After", retryAfter)
	http.Error(w, text, http.StatusServiceUnavailable)
}

// Accept examines a request that may have been forwarded. own is the target that this process is;
// nil: it does not publish. It returns the request as its client sent it, or nil if it has
// answered it.
func Accept(w http.ResponseWriter, r *http.Request, own *Target) *http.Request {
	values := r.Header[header]
	if len(values) == 0 {
		return r
	}
	term, rest, _ := strings.Cut(values[0], " ")
	client, code, _ := strings.Cut(rest, " ")
	switch {
	case own == nil || term != own.Term:
		Refuse(w, "this process no longer publishes; try again")
		return nil
	case !hmac.Equal([]byte(code), []byte(own.code(r.Method, r.URL.EscapedPath(), client))):
		http.Error(w, "the request is marked as one that a process of this Source has forwarded, and is none", http.StatusForbidden)
		return nil
	}
	sent := *r
	sent.RemoteAddr, sent.Header = client, r.Header.Clone()
	sent.Header.Del(header)
	return &sent
}

// A Forwarder forwards requests. It is safe for concurrent use.
type Forwarder struct {
	transport *http.Transport
	log       *slog.Logger
}

const (
	dialTime   = 2 * time.Second  // in one data center
	answerTime = 60 * time.Second // until an answer begins
	idleConns  = 64
	idleTime   = 30 * time.Second // less than servers wait for the next request
)

// New returns a Forwarder. Targets that speak TLS have a certificate for the host name, which config
// verifies.
func New(host string, config *tls.Config, log *slog.Logger) *Forwarder {
	config.ServerName = host
	return &Forwarder{log: log, transport: &http.Transport{
		DialContext: (&net.Dialer{Timeout: dialTime}).DialContext, TLSClientConfig: config, TLSHandshakeTimeout: 2 * dialTime,
		ResponseHeaderTimeout: answerTime, MaxIdleConnsPerHost: idleConns, IdleConnTimeout: idleTime, DisableCompression: true,
	}}
}

// Forward has a target answer a request, until its term has ended: what is not answered by then, the
// client has to repeat.
func (f *Forwarder) Forward(w http.ResponseWriter, r *http.Request, to *Target, ended <-chan struct{}) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	go func() {
		select {
		case <-ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	proxy := httputil.ReverseProxy{
		Transport: f.transport, FlushInterval: -1, ErrorLog: slog.NewLogLogger(f.log.Handler(), slog.LevelDebug),
		Rewrite: func(p *httputil.ProxyRequest) {
			scheme := "http"
			if to.TLS {
				scheme = "https"
			}
			p.Out.URL = &url.URL{Scheme: scheme, Host: to.Address, Path: p.In.URL.Path, RawPath: p.In.URL.RawPath, RawQuery: p.In.URL.RawQuery}
			p.Out.Host = p.In.Host
			for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
				if values, ok := p.In.Header[name]; ok { // of a proxy in front of this process
					p.Out.Header[name] = values
				}
			}
			p.Out.Header.Set(header, strings.Join([]string{to.Term, p.In.RemoteAddr, to.code(p.In.Method, p.In.URL.EscapedPath(), p.In.RemoteAddr)}, " "))
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			f.log.DebugContext(r.Context(), "cannot forward a request", slog.String("to", to.Address), slog.Any("err", err))
			Refuse(w, "the process that publishes does not answer; try again")
		},
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
}

// Close closes idle connections.
func (f *Forwarder) Close() { f.transport.CloseIdleConnections() }
