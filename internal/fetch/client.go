// Package fetch is a polite HTTP client: it asks no faster than it may, tries
// again where that can help, follows redirects under one policy, shows
// credentials to nobody but the Source, and connects to no address a stranger
// has no business to name.
//
// A [Client] is made once per run and shared by everything that asks:
//
//	c, err := fetch.New(fetch.Options{Home: address})
//	r, err := c.Get(ctx, fetch.Request{URI: uri})
//	defer r.Body.Close()
//	_, err = io.Copy(dst, r.Body)
//
// Get repeats a request until there is an answer. What happens while the body
// is read is the caller's to repeat, for only the caller knows what to do with
// the bytes that came; [Client.Fetch] helps with it.
package fetch

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"sync/atomic"
	"time"
)

const (
	// DefaultJobs is the number of requests under way per host at a time with
	// which a Client that adapts begins: few enough for a small server.
	DefaultJobs = 16
	// MaxJobs caps what can be asked for: more gains nothing and looks like an attack.
	MaxJobs = 64
	// MaxTries is how often one thing is asked for in all.
	MaxTries = 5
	// MaxRedirects is how many redirects one request follows.
	MaxRedirects = 10
	// DefaultTimeout is how long a Source may think before it answers, and how
	// long it may pause within an answer.
	DefaultTimeout = 60 * time.Second

	// MaxHeader caps the header of an answer, which is held in memory.
	MaxHeader = 256 << 10

	// leastConns is how many connections a host may have however few the Jobs:
	// one for every document held open at a time, and one beside them.
	leastConns = 8

	idleConnTimeout = 60 * time.Second
	dialTimeout     = 20 * time.Second // for one address; a dead one must not eat the whole Timeout
	readBuffer      = 16 << 10         // a small resource and its header in one read
	sessionCache    = 64               // TLS sessions kept for resumption
)

// ProxyEnvironment as [Options.Proxy] takes the proxy from the environment, by
// the usual variables.
const ProxyEnvironment = "environment"

// Options configures a [Client]. The zero value is ready to use.
type Options struct {
	Header       http.Header   // sent with every request to Home, and to nobody else
	BearerToken  string        // likewise, as Authorization
	Netrc        string        // path of a netrc file; its entry for Home is used
	Proxy        string        // URL of a proxy, or ProxyEnvironment; default: none
	CAFile       string        // path of PEM certificates to trust besides the system's
	Timeout      time.Duration // for the header of an answer, and for each pause within its body; default DefaultTimeout
	Retries      int           // further tries after the first; default and most MaxTries-1, negative: none
	Jobs         int           // requests under way per host, most MaxJobs; default: from DefaultJobs up to MaxJobs, as the host keeps up
	Rate         float64       // requests per second and host; default: no limit
	Bandwidth    int64         // bytes per second for all bodies together; default: no limit
	UserAgent    string        // default "lockstep"
	AllowPrivate bool          // connect to private and loopback addresses
	Home         *url.URL      // the Source as the user named it; see the package's guard and credentials
	Logger       *slog.Logger  // default: discards
}

// A Client sends requests. It is safe for concurrent use.
type Client struct {
	opts      Options
	narrow    *http.Transport // connections for the requests a host begins with
	wide      *http.Transport // and for those it grows to have, where it adapts
	guard     *guard
	home      origin
	homeHead  http.Header // for Home: with credentials
	plainHead http.Header // for everybody else
	hosts     hosts
	bandwidth pace
	requests  atomic.Int64
	bytes     atomic.Int64
}

// New returns a Client. It reads the files the options name and fails, in
// words, if an option cannot be used.
func New(o Options) (*Client, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	roots, err := certificates(o.CAFile)
	if err != nil {
		return nil, err
	}
	proxy, err := proxyFunc(o.Proxy)
	if err != nil {
		return nil, err
	}
	c := &Client{opts: o, home: originOf(o.Home)}
	c.guard = newGuard(o.Home, o.AllowPrivate)
	if err := c.prepareHeaders(); err != nil {
		return nil, err
	}
	c.hosts.jobs, c.hosts.rate = o.Jobs, o.Rate
	if o.Jobs == 0 {
		c.hosts.jobs, c.hosts.most = DefaultJobs, MaxJobs
	}
	c.bandwidth.rate = float64(o.Bandwidth)
	c.narrow = &http.Transport{
		Proxy:       c.guard.behind(proxy),
		DialContext: c.guard.dial,
		TLSClientConfig: &tls.Config{
			RootCAs:            roots,
			MinVersion:         tls.VersionTLS12,
			ClientSessionCache: tls.NewLRUClientSessionCache(sessionCache),
		},
		ForceAttemptHTTP2:  true,
		DisableCompression: true, // our own, counted
		// The default keeps two: thousands of connections for one sync.
		MaxIdleConns:           4 * c.hosts.jobs,
		MaxIdleConnsPerHost:    c.hosts.jobs,
		MaxConnsPerHost:        max(c.hosts.jobs, leastConns),
		IdleConnTimeout:        idleConnTimeout,
		MaxResponseHeaderBytes: MaxHeader,
		ReadBufferSize:         readBuffer,
	}
	// A Transport that may open more connections does, whether they are needed
	// or not; so those a short run can do without are another's to open.
	c.wide = c.narrow.Clone()
	c.wide.MaxIdleConns = 4 * (MaxJobs - DefaultJobs)
	c.wide.MaxIdleConnsPerHost, c.wide.MaxConnsPerHost = MaxJobs-DefaultJobs, MaxJobs-DefaultJobs
	return c, nil
}

func (o Options) withDefaults() (Options, error) {
	if o.Timeout < 0 || o.Rate < 0 || o.Bandwidth < 0 || o.Jobs < 0 {
		return o, errors.New("timeout, rate, bandwidth and jobs cannot be negative")
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	o.Jobs = min(o.Jobs, MaxJobs)
	if o.Retries == 0 {
		o.Retries = MaxTries - 1
	}
	o.Retries = min(max(o.Retries, 0), MaxTries-1)
	if o.UserAgent == "" {
		o.UserAgent = "lockstep"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// Requests returns how many requests were sent, each try and each hop counted.
func (c *Client) Requests() int64 { return c.requests.Load() }

// Bytes returns how many bytes of bodies came over the wire.
func (c *Client) Bytes() int64 { return c.bytes.Load() }

// Jobs returns how many requests the Client has under way per host at most.
func (c *Client) Jobs() int { return max(c.hosts.jobs, c.hosts.most) }

// Close closes the connections nobody uses. The Client can still be used.
func (c *Client) Close() {
	c.narrow.CloseIdleConnections()
	c.wide.CloseIdleConnections()
}

func certificates(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil // the system's
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read certificates: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read certificates %s: no PEM certificate in it", file)
	}
	return pool, nil
}

func proxyFunc(proxy string) (func(*http.Request) (*url.URL, error), error) {
	switch proxy {
	case "":
		return nil, nil
	case ProxyEnvironment:
		return http.ProxyFromEnvironment, nil
	}
	u, err := url.Parse(proxy)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("proxy %s: not a URL such as http://proxy.example.org:3128", Printable(proxy))
	}
	switch u.Scheme {
	case "http", "https", "socks5", "socks5h":
		return http.ProxyURL(u), nil
	}
	return nil, fmt.Errorf("proxy %s: scheme %s is not http, https or socks5", Printable(u.Redacted()), u.Scheme)
}
