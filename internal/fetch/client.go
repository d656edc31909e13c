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
// How many requests are under way at a host adapts to it: to how far away it
// is, how fast it answers and what it says; see adapt.go. [Client.Room] tells
// who has work for several hosts which of them takes more.
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
	"slices"
	"sync/atomic"
	"time"
)

const (
	// DefaultJobs is the number of requests under way per host at a time with
	// which a Client that adapts begins: few enough for a small server.
	DefaultJobs = 16
	// MaxJobs caps what can be asked for, and what a Client that adapts comes
	// to: at 50 ms of round trip enough for 10,000 answers a second.
	MaxJobs = 512
	// MaxTries is how often one thing is asked for in all.
	MaxTries = 5
	// MaxRedirects is how many redirects one request follows.
	MaxRedirects = 10
	// DefaultTimeout is how long a Source may think before it answers, and how
	// long it may pause within an answer.
	DefaultTimeout = 60 * time.Second

	// MaxHeader caps the header of an answer, which is held in memory.
	MaxHeader = 64 << 10

	// leastConns is how many connections a host may have however few the Jobs,
	// and how many for documents where all others are taken.
	leastConns = 8

	idleConnTimeout = 60 * time.Second
	dialTimeout     = 20 * time.Second // for one address; a dead one must not eat the whole Timeout
	readBuffer      = 16 << 10         // a small resource and its header in one read
	wideBuffer      = 8 << 10          // of the connections beyond those a host begins with
	sessionCache    = 64               // TLS sessions kept for resumption

	// What HTTP/2 may send ahead of its reader: what is held in memory.
	streamBuffer = 1 << 20
	connBuffer   = 16 << 20
	// A connection that is silent for so long is asked whether it is alive.
	pingAfter = 15 * time.Second

	// OwnFiles is how many open files a process needs besides those of its
	// requests: databases, locks, directories, standard streams.
	OwnFiles = 24

	filesPerJob = 4 // open at a time, at most: connection, content, and what else there is
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
	RootCAs      *x509.CertPool // in place of CAFile and the system's; nil: those
	Timeout      time.Duration  // for the header of an answer, and for each pause within its body; default DefaultTimeout
	Retries      int            // further tries after the first; default and most MaxTries-1, negative: none
	Jobs         int            // requests under way per host, most MaxJobs; default: from DefaultJobs up to MaxJobs, as the host keeps up
	Rate         float64        // requests per second and host; default: no limit
	Bandwidth    int64          // bytes per second for all bodies together; default: no limit
	UserAgent    string         // default "lockstep"
	AllowPrivate bool           // connect to private and loopback addresses
	Ungated      bool           // ask hosts that fail everything all the same: the caller has a schedule for repeating requests
	Home         *url.URL       // the Source as the user named it; see the package's guard and credentials
	Logger       *slog.Logger   // default: discards
}

// A Client sends requests. It is safe for concurrent use.
type Client struct {
	opts      Options
	lanes     [maxLanes]*http.Transport // those in use, and that for documents
	streams   [maxLanes]*http.Transport // likewise, for hosts that speak HTTP/2
	sends     *http.Transport           // of Do
	guard     *guard
	home      origin
	homeHead  http.Header // for Home: with credentials
	plainHead http.Header // for everybody else
	secret    bool        // homeHead has more than plainHead
	up        upgrade
	hosts     hosts
	bandwidth pace
	deferrals deferrals
	requests  atomic.Int64
	bytes     atomic.Int64
}

// HasHome reports whether the Source, as the user named it, is somewhere on the
// network: then nothing it names is to be looked for among the files here.
func (c *Client) HasHome() bool { return c.home.host != "" }

// New returns a Client. It reads the files the options name and fails, in
// words, if an option cannot be used.
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
	c := &Client{opts: o, home: originOf(o.Home)}
	c.guard = newGuard(o.Home, o.AllowPrivate)
	if err := c.prepareHeaders(); err != nil {
		return nil, err
	}
	c.hosts.jobs, c.hosts.rate = o.Jobs, o.Rate
	c.hosts.patience, c.hosts.ungated = min(GiveUpAfter, GiveUpTimeouts*o.Timeout), o.Ungated
	if o.Jobs == 0 {
		c.hosts.jobs, c.hosts.most = DefaultJobs, min(MaxJobs, max(OpenFiles()/filesPerJob, DefaultJobs))
	}
	// Where few files may be open, even the connections of a small server are too many.
	few := max((OpenFiles()-OwnFiles)/(2*filesPerJob), 1)
	c.hosts.jobs, c.hosts.most = min(c.hosts.jobs, few), min(c.hosts.most, few)
	c.hosts.lanes = lanesOf(c.hosts.jobs, c.hosts.most)
	c.bandwidth.rate = float64(o.Bandwidth)
	tls := &tls.Config{
		RootCAs:            roots,
		MinVersion:         tls.VersionTLS12,
		ClientSessionCache: tls.NewLRUClientSessionCache(sessionCache),
	}
	for i, n := range c.hosts.lanes {
		c.lanes[i] = c.transport(n, proxy, tls)
		c.streams[i] = c.lanes[i] // the first has a connection already
		if i > 0 {
			c.streams[i] = c.transport(n, proxy, tls)
			c.streams[i].MaxConnsPerHost = 1 // else a burst of requests dials as many
		}
	}
	c.lanes[laneDocument] = c.transport(leastConns, proxy, tls)
	c.streams[laneDocument] = c.lanes[laneDocument]
	c.sends = c.transport(leastConns, proxy, tls)
	c.sends.MaxConnsPerHost, c.sends.ResponseHeaderTimeout = 0, c.opts.Timeout
	return c, nil
}

// transport returns one with up to conns connections to a host.
func (c *Client) transport(conns int, proxy func(*http.Request) (*url.URL, error), tls *tls.Config) *http.Transport {
	t := &http.Transport{
		Proxy:              c.guard.behind(proxy),
		DialContext:        c.guard.dial,
		TLSClientConfig:    tls.Clone(),
		ForceAttemptHTTP2:  true,
		DisableCompression: true, // our own, counted
		// The default keeps two: thousands of connections for one sync.
		MaxIdleConns:           2 * conns,
		MaxIdleConnsPerHost:    conns,
		MaxConnsPerHost:        max(conns, leastConns),
		IdleConnTimeout:        idleConnTimeout,
		TLSHandshakeTimeout:    c.opts.Timeout, // of a connection nobody waits for any more, too
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
	for _, t := range slices.Concat(c.lanes[:], c.streams[:]) {
		if t != nil {
			t.CloseIdleConnections()
		}
	}
	c.sends.CloseIdleConnections()
}

// Certificates returns the system's certificates and those of a PEM file; nil,
// which stands for the system's, where file is empty.
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
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("proxy %s: not a URL such as http://proxy.example.org:3128", Printable(withoutUser(proxy)))
	}
	switch u.Scheme {
	case "http", "https", "socks5", "socks5h":
		return http.ProxyURL(u), nil
	}
	return nil, fmt.Errorf("proxy %s: scheme %s is not http, https or socks5", Printable(u.Redacted()), u.Scheme)
}
