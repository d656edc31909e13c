// Package fetch is a polite HTTP client: it limits its request rate, retries
// where that can help, follows redirects under one policy, sends credentials
// only to the Source, and connects only to addresses that strangers may name.
//
// A [Client] is created once per run and shared by everything that sends
// requests:
//
//	c, err := fetch.New(fetch.Options{Home: address})
//	r, err := c.Get(ctx, fetch.Request{URI: uri})
//	defer r.Body.Close()
//	_, err = io.Copy(dst, r.Body)
//
// The number of concurrent requests adapts to each host: to its distance, its
// speed and its responses; see adapt.go. [Client.Room] helps a caller with work
// for several hosts to choose one that can take more.
//
// Get repeats a request until there is an answer. After an error while reading
// the body the caller decides whether to repeat it, because only the caller
// knows what to do with the bytes already read; [Client.Fetch] helps with that.
package fetch

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	"lockstep/internal/fetch/concurrency"
	"lockstep/internal/fetch/http1"
	"lockstep/internal/fetch/requestlog"
	"lockstep/internal/ondemand"
)

const (
	// DefaultJobs is the initial number of concurrent requests per host of a Client
	// that adapts: few enough for a small server.
	DefaultJobs = concurrency.Initial
	// MaxJobs caps the number that can be configured, and that of a Client that
	// adapts: with a round trip of 50 ms enough for 10,000 answers a second.
	MaxJobs = 512
	// MaxTries is the maximum number of attempts of one request.
	MaxTries = 5
	// MaxRedirects is how many redirects one request follows.
	MaxRedirects = 10
	// DefaultTimeout is how long a Source may take to answer, and how long it may
	// pause within an answer.
	DefaultTimeout = 60 * time.Second

	// MaxHeader caps the header of an answer, which is held in memory.
	MaxHeader = 64 << 10

	// leastConns is the minimum number of connections to a host however few the
	// Jobs, and the number for documents when all others are taken.
	leastConns = 8

	idleConnTimeout = 60 * time.Second
	dialTimeout     = 20 * time.Second // for one address; an unreachable one must not use up the whole Timeout
	readBuffer      = 16 << 10         // a small resource and its header in one read
	wideBuffer      = 8 << 10          // of the connections beyond a host's initial ones
	sessionCache    = 64               // TLS sessions kept for resumption

	// What HTTP/2 may send ahead of its reader, which is held in memory.
	streamBuffer = 1 << 20
	connBuffer   = 16 << 20
	// A connection that is silent for this long is pinged.
	pingAfter = 15 * time.Second

	// OwnFiles is how many open files a process needs besides those of its
	// requests: databases, locks, directories, standard streams.
	OwnFiles = 24

	filesPerJob = 4 // maximum number of open files per request: connection, content, and others
)

// ProxyEnvironment as [Options.Proxy] takes the proxy from the environment, by
// the usual variables.
const ProxyEnvironment = "environment"

// EnvironmentProxy returns [ProxyEnvironment] if the environment names a proxy,
// and otherwise "", because with a proxy the client cannot check the addresses
// that it connects to.
func EnvironmentProxy(lookup func(string) (string, bool)) string {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		if v, ok := lookup(name); ok && v != "" {
			return ProxyEnvironment
		}
	}
	return ""
}

// Options configures a [Client]. The zero value is ready to use.
type Options struct {
	Header       http.Header    // sent with every request to Home, and to no other host
	BearerToken  string         // likewise, as Authorization
	Netrc        string         // path of a netrc file; its entry for Home is used
	Proxy        string         // URL of a proxy, or ProxyEnvironment; default: none
	CAFile       string         // path of PEM certificates to trust besides the system's
	RootCAs      *x509.CertPool // replaces CAFile and the system's certificates, unless nil
	Timeout      time.Duration  // for the header of an answer, and for each pause within its body; default DefaultTimeout
	Retries      int            // further attempts after the first; default and maximum MaxTries-1, negative: none
	Jobs         int            // concurrent requests per host, at most MaxJobs; default: from DefaultJobs up to MostJobs, adapted to the host
	MostJobs     int            // the most of a Client that adapts; default MaxJobs
	Rate         float64        // requests per second and host; default: no limit
	Bandwidth    int64          // bytes per second for all bodies together; default: no limit
	Total        *Bandwidth     // shared with other Clients, in addition to Bandwidth; default: no limit
	UserAgent    string         // default "lockstep"
	AllowPrivate bool           // connect to private and loopback addresses
	Ungated      bool           // send requests even to hosts that fail all of them: the caller has a schedule for repeating requests
	Idle         time.Duration  // for which a connection stays open without requests; default a minute
	Limits       *Limits        // shared with other Clients; default: the Client has its own
	Home         *url.URL       // the Source as the user named it; its host gets credentials and determines the allowed addresses
	Logger       *slog.Logger   // default: discards
}

// A Client sends requests. It is safe for concurrent use.
type Client struct {
	opts      Options
	pool      *ondemand.Value[transports]
	simple    *simple // nil: net/http sends all requests
	guard     *guard
	home      origin
	homeHead  http.Header // for Home: with credentials
	plainHead http.Header // for all other hosts
	secret    bool        // homeHead has more than plainHead
	logged    bool        // each request is
	up        upgrade
	hosts     *hosts
	bandwidth budget
	deferrals deferrals
	requests  atomic.Int64
	bytes     atomic.Int64
	held      atomic.Int64 // see Held
}

// HasHome reports whether the Source, as the user named it, is on the network:
// then its documents must not refer to local files.
func (c *Client) HasHome() bool { return c.home.host != "" }

// New returns a Client. It reads the files that the options name and returns a
// descriptive error if an option is invalid.
func New(o Options) (*Client, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	roots, err := Certificates(o.CAFile)
	if err != nil {
		return nil, err
	}
	if o.RootCAs != nil {
		roots = o.RootCAs
	}
	proxy, err := proxyFunc(o.Proxy)
	if err != nil {
		return nil, err
	}
	c := &Client{opts: o, home: originOf(o.Home), logged: requestlog.Enabled(o.Logger)}
	c.guard = newGuard(o.Home, o.AllowPrivate)
	if err := c.prepareHeaders(); err != nil {
		return nil, err
	}
	if c.hosts = newHosts(&o); o.Limits != nil {
		c.hosts = o.Limits.of(c.hosts)
	}
	c.bandwidth.own.Rate, c.bandwidth.own.Shares, c.bandwidth.total = float64(o.Bandwidth), c.hosts.divisor.get, o.Total
	tls := &tls.Config{
		RootCAs:            roots,
		MinVersion:         tls.VersionTLS12,
		ClientSessionCache: tls.NewLRUClientSessionCache(sessionCache),
	}
	c.pool = ondemand.New(o.Idle, func() *transports { return c.transports(proxy, tls) }, (*transports).closeIdle)
	if proxy == nil && http1.Supported && os.Getenv(generalVariable) == "" {
		c.simple = newSimple(c)
	}
	return c, nil
}

func (c *Client) transports(proxy func(*http.Request) (*url.URL, error), tls *tls.Config) *transports {
	ts := &transports{}
	for i, n := range c.hosts.lanes {
		ts.lanes[i] = c.transport(n, proxy, tls)
		ts.streams[i] = ts.lanes[i] // the first has a connection already
		if i > 0 {
			ts.streams[i] = c.transport(n, proxy, tls)
			ts.streams[i].MaxConnsPerHost = 1 // otherwise a burst of requests would open as many connections
		}
	}
	ts.lanes[laneDocument] = c.transport(leastConns, proxy, tls)
	ts.streams[laneDocument] = ts.lanes[laneDocument]
	ts.sends = c.transport(leastConns, proxy, tls)
	ts.sends.MaxConnsPerHost, ts.sends.ResponseHeaderTimeout = 0, c.opts.Timeout
	if c.simple != nil {
		ts.single = c.transport(leastConns, proxy, tls)
		ts.single.MaxConnsPerHost, ts.single.DisableKeepAlives = 0, true
		ts.simple = &http1.Pool{Dial: c.guard.connect, TLS: tls, MaxIdle: 2 * c.Jobs(), Idle: c.opts.Idle}
	}
	return ts
}

// transport returns a transport with up to conns connections to a host.
func (c *Client) transport(conns int, proxy func(*http.Request) (*url.URL, error), tls *tls.Config) *http.Transport {
	t := &http.Transport{
		Proxy:              c.guard.behind(proxy),
		DialContext:        c.guard.dial,
		TLSClientConfig:    tls.Clone(),
		ForceAttemptHTTP2:  true,
		DisableCompression: true, // decoded here, to count the bytes
		// The default keeps two: a sync would open thousands of connections.
		MaxIdleConns:           2 * conns,
		MaxIdleConnsPerHost:    conns,
		MaxConnsPerHost:        max(conns, leastConns),
		IdleConnTimeout:        c.opts.Idle,
		TLSHandshakeTimeout:    c.opts.Timeout, // also ends handshakes of connections that are no longer needed
		MaxResponseHeaderBytes: MaxHeader,
		ReadBufferSize:         readBuffer,
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream:     streamBuffer,
			MaxReceiveBufferPerConnection: connBuffer,
			SendPingTimeout:               pingAfter,
			PingTimeout:                   pingAfter,
		},
	}
	if conns > DefaultJobs {
		t.ReadBufferSize = wideBuffer
	}
	return t
}

func (o Options) withDefaults() (Options, error) {
	if o.Timeout < 0 || o.Rate < 0 || o.Bandwidth < 0 || o.Jobs < 0 || o.MostJobs < 0 {
		return o, errors.New("timeout, rate, bandwidth and jobs cannot be negative")
	}
	o.Timeout, o.Idle = cmp.Or(o.Timeout, DefaultTimeout), cmp.Or(o.Idle, idleConnTimeout)
	o.Jobs, o.MostJobs = min(o.Jobs, MaxJobs), min(o.MostJobs, MaxJobs)
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

// Requests returns how many requests were sent, counting each attempt and each
// redirect.
func (c *Client) Requests() int64 { return c.requests.Load() }

// Bytes returns how many bytes of bodies were received.
func (c *Client) Bytes() int64 { return c.bytes.Load() }

// Held returns for how long transfers have waited because of Bandwidth: if several waited at a
// time, the sum.
func (c *Client) Held() time.Duration { return time.Duration(c.held.Load()) }

// Jobs returns the maximum number of concurrent requests per host.
func (c *Client) Jobs() int { return max(c.hosts.jobs, c.hosts.most) }

// Close closes idle connections. The Client can still be used.
func (c *Client) Close() {
	if ts := c.pool.Now(); ts != nil {
		ts.closeIdle()
	}
}

// Certificates returns the system's certificates and those of a PEM file; nil,
// which means the system's, if file is empty.
func Certificates(file string) (*x509.CertPool, error) {
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
	if err == nil {
		_, err = net.LookupPort("tcp", u.Port())
	}
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("proxy %s: not a URL such as http://proxy.example.org:3128", Printable(WithoutUser(proxy)))
	}
	switch u.Scheme {
	case "http", "https", "socks5", "socks5h":
		return http.ProxyURL(u), nil
	}
	return nil, fmt.Errorf("proxy %s: scheme %s is not http, https or socks5", Printable(u.Redacted()), u.Scheme)
}
