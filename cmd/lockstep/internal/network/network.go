// Package network has the flags of commands that send requests, and makes
// clients of them.
package network

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/help"
	"lockstep/cmd/lockstep/internal/release"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/discover"
	"lockstep/internal/certerror"
	"lockstep/internal/fetch"
	"lockstep/internal/fetch/requestlog"
)

// Options are the flags every command shares that asks others for
// something over the network.
type Options struct {
	headers      []string
	bearerFile   string
	netrc        string
	Proxy        string
	caFile       string
	Timeout      time.Duration
	Retries      int
	Jobs         int
	Rate         float64
	bandwidth    string
	UserAgent    string
	allowPrivate bool

	// MostJobs is the most to which the number of concurrent requests to a host grows
	// where it adapts; default [fetch.MaxJobs].
	MostJobs int

	// Idle is how long a connection stays open without requests; default a minute.
	Idle time.Duration

	// Limits are shared by the clients of the process, if not nil.
	Limits *fetch.Limits

	// Total limits the bytes of all clients together; nil: there is no limit.
	Total *fetch.Bandwidth
}

// NoProxy is the value of --proxy that disables proxies, whatever the
// environment says.
const NoProxy = "none"

// proxyOption returns the proxy of a client. The environment is used only if it
// names a proxy, because the proxy then has to check the addresses.
func (o *Options) proxyOption(lookup func(string) (string, bool)) string {
	switch o.Proxy {
	case NoProxy:
		return ""
	case "":
		return fetch.EnvironmentProxy(lookup)
	}
	return o.Proxy
}

// netrcDefault is the value that means the netrc file at its usual path.
const netrcDefault = "true"

// A netrcValue is a flag that may be given with and without a value.
type netrcValue string

func (v *netrcValue) String() string     { return string(*v) }
func (v *netrcValue) Set(s string) error { *v = netrcValue(s); return nil }
func (v *netrcValue) Type() string       { return "bool" } // help then shows no value

// TheSource is the server that commands with a SOURCE argument send requests to.
const TheSource = "the Source"

// Declare declares the flags; whom names the server that gets the credentials.
func (o *Options) Declare(all *pflag.FlagSet, whom string) {
	help.Grouped(all, help.NetworkGroup, func(flags *pflag.FlagSet) { o.declareFlags(flags, whom) })
}

func (o *Options) declareFlags(flags *pflag.FlagSet, whom string) {
	flags.StringArrayVar(&o.headers, "header", nil, "send the header `'K: V'` to "+whom+", and to no other server (repeatable)")
	flags.StringVar(&o.bearerFile, "bearer-token-file", "", "send the token in `FILE` to "+whom+", and to no other server")
	flags.Var((*netrcValue)(&o.netrc), "netrc", "take user and password for "+whom+" from $NETRC or ~/.netrc; --netrc=`FILE` from FILE")
	flags.Lookup("netrc").NoOptDefVal = netrcDefault
	flags.StringVar(&o.Proxy, "proxy", "", "go through the proxy at `URL`, or none (default: what HTTP_PROXY, HTTPS_PROXY and NO_PROXY say)")
	flags.StringVar(&o.caFile, "ca-file", "", "trust the certificates in `FILE` (PEM) besides the system's")
	flags.DurationVar(&o.Timeout, "timeout", fetch.DefaultTimeout, "abort a request after this `DURATION` without a byte; a transfer that makes progress has no limit")
	flags.IntVar(&o.Retries, "retries", fetch.MaxTries-1, "retry a request that failed temporarily up to `N` times")
	flags.IntVar(&o.Jobs, "jobs", 0, "send at most `N` requests at a time; 0 adapts to the server")
	flags.Float64Var(&o.Rate, "rate", 0, "make at most `R` requests a second to one host; 0 is no limit")
	flags.StringVar(&o.bandwidth, "bandwidth", "", "read at most `BYTES` a second, as 500k, 2M; empty is no limit")
	flags.StringVar(&o.UserAgent, "user-agent", "", "send `NAME` as the User-Agent")
	flags.BoolVar(&o.allowPrivate, "allow-private", false, "let documents name private and loopback addresses; without it only a Source that is itself at one, or a file, may")
}

// Client returns a client for the Source at home, an address as the user gave
// it.
func (o *Options) Client(home string, lookup func(string) (string, bool), log *slog.Logger) (*fetch.Client, error) {
	h := discover.Home(home)
	return o.client(h, o.allowPrivate || h == nil, lookup, log) // a file on this machine may name what only this machine can reach
}

// Check refuses values that no client for the Source at home can be made with. The files
// that they name are not read.
func (o *Options) Check(home string) error {
	bare := *o
	bare.bearerFile, bare.netrc, bare.caFile = "", "", ""
	c, err := bare.client(discover.Home(home), false, func(string) (string, bool) { return "", false }, slog.New(slog.DiscardHandler))
	if err == nil {
		c.Close()
	}
	return err
}

// OriginClient returns a client for addresses that strangers have named, and to which
// the Source has no relation. It has no credentials, and connects to private and
// loopback addresses only with --allow-private, wherever the Source is.
func (o *Options) OriginClient(lookup func(string) (string, bool), log *slog.Logger) (*fetch.Client, error) {
	bare := *o
	bare.headers, bare.bearerFile, bare.netrc = nil, "", ""
	return bare.client(nil, o.allowPrivate, lookup, log)
}

// client returns a client for the Source at home, if it is on the network.
func (o *Options) client(home *url.URL, allowPrivate bool, lookup func(string) (string, bool), log *slog.Logger) (*fetch.Client, error) {
	opts := fetch.Options{
		Header: http.Header{}, Proxy: o.proxyOption(lookup), CAFile: o.caFile, Timeout: o.Timeout, Retries: o.Retries, Jobs: o.Jobs, MostJobs: o.MostJobs,
		Rate: o.Rate, UserAgent: o.UserAgent, AllowPrivate: allowPrivate, Home: home, Limits: o.Limits, Total: o.Total, Idle: o.Idle, Logger: log,
	}
	if opts.UserAgent == "" {
		opts.UserAgent = "lockstep/" + release.Version()
	}
	if o.Retries == 0 {
		opts.Retries = -1 // zero asks for the default there
	}
	switch {
	case o.Timeout <= 0:
		return nil, term.Usagef("--timeout must be above 0")
	case o.Retries < 0:
		return nil, term.Usagef("--retries must not be below 0")
	case o.Jobs < 0:
		return nil, term.Usagef("--jobs must not be below 0")
	case o.Rate < 0:
		return nil, term.Usagef("--rate must not be below 0")
	}
	for _, h := range o.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, term.Usagef("--header: want 'Name: value'; one of them has no name before a colon") // its text may be a secret
		}
		opts.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	var err error
	if opts.Bandwidth, err = parseBandwidth(o.bandwidth); err != nil {
		return nil, err
	}
	if o.bearerFile != "" {
		token, err := os.ReadFile(o.bearerFile)
		if err != nil {
			return nil, term.Usagef("read the bearer token: %w", err)
		}
		opts.BearerToken = strings.TrimSpace(string(token))
	}
	opts.Netrc = netrcPath(o.netrc, lookup)
	c, err := fetch.New(opts)
	if err != nil {
		return nil, term.Usage(err, "")
	}
	return c, nil
}

// ShareBandwidth has the limit that --bandwidth sets apply to all clients together. A value
// that is no limit is left for [Options.Client] to refuse.
func (o *Options) ShareBandwidth() {
	if n, err := parseBandwidth(o.bandwidth); err == nil && n > 0 {
		o.Total, o.bandwidth = fetch.NewBandwidth(n), ""
	}
}

// parseBandwidth reads the value of --bandwidth.
func parseBandwidth(s string) (int64, error) {
	n, err := config.ParseSize(s)
	if err != nil {
		return 0, term.Usagef("--bandwidth %q: %w", s, err)
	}
	return n, nil
}

// netrcPath resolves --netrc without a value to the usual place of the file.
func netrcPath(netrc string, lookup func(string) (string, bool)) string {
	if netrc != netrcDefault {
		return netrc
	}
	if path, ok := lookup("NETRC"); ok && path != "" {
		return path
	}
	home, _ := lookup("HOME")
	return filepath.Join(home, ".netrc")
}

// Certificates returns the certificates to trust; nil: those of the system.
func (o *Options) Certificates() (*x509.CertPool, error) {
	roots, err := fetch.Certificates(o.caFile)
	if err != nil {
		return nil, term.Usage(fmt.Errorf("--ca-file: %w", err), "")
	}
	return roots, nil
}

// HubClient returns a client for hubs, which the user has named: nothing keeps
// them from being anywhere.
func (o *Options) HubClient(log *slog.Logger) (*http.Client, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	switch o.Proxy {
	case "": // as the environment says
	case NoProxy:
		t.Proxy = nil
	default:
		u, err := url.Parse(o.Proxy)
		if err != nil {
			return nil, term.Usagef("--proxy %q is no URL", o.Proxy)
		}
		t.Proxy = http.ProxyURL(u)
	}
	roots, err := o.Certificates()
	if err != nil {
		return nil, err
	}
	if roots != nil {
		t.TLSClientConfig = &tls.Config{RootCAs: roots}
	}
	return &http.Client{Transport: requestlog.Transport(certerror.Transport(t), log, nil), Timeout: hubTimeout}, nil
}

// hubTimeout is how long a hub may take to accept a notification.
const hubTimeout = 30 * time.Second
