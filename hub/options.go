package hub

import (
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"lockstep/hub/internal/request"
)

// Defaults of [Options].
const (
	DefaultLeaseMin = time.Minute         // with shorter leases, verifications cost more than deliveries
	DefaultLease    = 10 * 24 * time.Hour // the advice of the WebSub Recommendation
	DefaultLeaseMax = 30 * 24 * time.Hour // a subscriber that has disappeared is forgotten after that time

	DefaultRetryFirst = time.Second
	DefaultRetryMost  = time.Hour
	DefaultRetryFor   = 24 * time.Hour

	DefaultKeep    = time.Hour
	DefaultForget  = 7 * 24 * time.Hour
	DefaultTimeout = 10 * time.Second
	DefaultMaxBody = 5 << 20
	DefaultMaxLog  = 4 << 30

	DefaultMaxSubscriptions = 1_000_000
	DefaultMaxPerHost       = 10_000
)

// Options configures a [Hub].
type Options struct {
	// PublicURL is the hub's address as subscribers know it, for Link headers. It
	// is required.
	PublicURL string

	// A lease is LeaseDefault long unless the subscriber requests a length.
	// Requested lengths are limited to LeaseMin and LeaseMax (WS-L-01).
	LeaseMin, LeaseDefault, LeaseMax time.Duration

	// After a failed delivery the hub retries after RetryFirst, then waits twice as
	// long each time, up to RetryMost. A message that an endpoint has refused for
	// RetryFor is given up, and counted.
	RetryFirst, RetryMost, RetryFor time.Duration

	Keep    time.Duration // how long messages delivered to all subscribers are kept, to be replayed
	Forget  time.Duration // messages of this age are deleted even if subscribers lack them; those count as given up
	Timeout time.Duration // of one delivery
	MaxBody int64         // bytes of a message
	MaxLog  int64         // bytes of a topic's stored messages; beyond it the hub accepts no more

	AllowPrivate  bool           // topics and callbacks may be at private and loopback addresses
	PublishTokens []PublishToken // a request with one of them may publish
	// CurrentPublishTokens, if not nil, replaces PublishTokens: it returns the tokens
	// that are valid now, the same slice as long as they are the same. It is called
	// for each publication. After an error, no token is accepted.
	CurrentPublishTokens func() ([]PublishToken, error)
	PublishOpen          bool     // requests without a token may publish too; without tokens and PublishOpen only [Hub.Publish] does
	OwnTopics            []string // URLs: only [Hub.Publish] publishes topics below them, whatever credentials a request carries
	PublishPrefixes      []string // topics below them may be published; none: any topic

	// MaySubscribe, if not nil, is called for each request to subscribe. It returns a
	// [*Refusal] for a topic that the request may not subscribe to, and otherwise how long the
	// subscription may last at most; 0: as long as any.
	MaySubscribe func(r *http.Request, topic string) (most time.Duration, err error)

	// TrustedProxies are the proxies whose X-Forwarded-For the hub trusts to name
	// the client. Only rate limits depend on it.
	TrustedProxies []netip.Prefix

	// RootCAs verify the https certificates of callbacks and topics; nil: the
	// system's certificates.
	RootCAs *x509.CertPool

	CheckTopics bool // before the first subscription to a topic, check that it names this hub (WS-SEC-05)

	Method    string // of signatures; default "sha256" (WS-X-03)
	Secret    []byte // 32 bytes: encrypts the secrets of subscribers at rest; nil: a random key, for stores that do not outlive the process
	UserAgent string // default "lockstep"

	MaxSubscriptions int // in all
	MaxPerHost       int // of callbacks at one host

	Logger *slog.Logger     // default: discards
	Clock  func() time.Time // default: time.Now
}

// A PublishToken authorizes requests that carry it to publish.
type PublishToken struct {
	Token    string
	Prefixes []string // URLs: the token covers only topics below them; none: any topic
}

func (o Options) withDefaults() (Options, error) {
	u, err := url.Parse(o.PublicURL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return o, fmt.Errorf("hub: %q is no http(s) address others could reach the hub by", o.PublicURL)
	}
	if err := o.durations(); err != nil {
		return o, err
	}
	if o.LeaseMin > o.LeaseMax || o.LeaseDefault < o.LeaseMin || o.LeaseDefault > o.LeaseMax {
		return o, fmt.Errorf("hub: leases of %v, at least %v, at most %v contradict each other", o.LeaseDefault, o.LeaseMin, o.LeaseMax)
	}
	if o.RetryFirst > o.RetryMost {
		return o, fmt.Errorf("hub: the first wait of %v is longer than the longest, %v", o.RetryFirst, o.RetryMost)
	}
	o.Forget = max(o.Forget, o.Keep, o.RetryFor)
	if o.MaxBody < 0 || o.MaxLog < 0 || o.MaxSubscriptions < 0 || o.MaxPerHost < 0 {
		return o, errors.New("hub: limits cannot be negative")
	}
	o.MaxBody = orDefault(o.MaxBody, DefaultMaxBody)
	o.MaxLog = orDefault(o.MaxLog, DefaultMaxLog)
	o.MaxSubscriptions = orDefault(o.MaxSubscriptions, DefaultMaxSubscriptions)
	o.MaxPerHost = orDefault(o.MaxPerHost, DefaultMaxPerHost)
	o.Method = orDefault(o.Method, "sha256")
	o.UserAgent = orDefault(o.UserAgent, "lockstep")
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return o, nil
}

// terms returns the terms of subscriptions.
func (o *Options) terms() request.Terms {
	return request.Terms{AllowPrivate: o.AllowPrivate, LeaseMin: o.LeaseMin, LeaseDefault: o.LeaseDefault, LeaseMax: o.LeaseMax}
}

// durations sets the durations that are not given, consistently with those that
// are.
func (o *Options) durations() error {
	for _, d := range []struct {
		value *time.Duration
		def   func() time.Duration // may depend on the values above
		name  string
	}{
		{&o.LeaseMax, func() time.Duration { return max(DefaultLeaseMax, o.LeaseMin, o.LeaseDefault) }, "longest lease"},
		{&o.LeaseDefault, func() time.Duration { return min(max(DefaultLease, o.LeaseMin), o.LeaseMax) }, "default lease"},
		{&o.LeaseMin, func() time.Duration { return min(DefaultLeaseMin, o.LeaseDefault) }, "shortest lease"},
		{&o.RetryMost, func() time.Duration { return max(DefaultRetryMost, o.RetryFirst) }, "longest wait"},
		{&o.RetryFirst, func() time.Duration { return min(DefaultRetryFirst, o.RetryMost) }, "first wait"},
		{&o.RetryFor, func() time.Duration { return DefaultRetryFor }, "time of retries"},
		{&o.Keep, func() time.Duration { return DefaultKeep }, "time messages are kept"},
		{&o.Forget, func() time.Duration { return DefaultForget }, "time messages are forgotten after"},
		{&o.Timeout, func() time.Duration { return DefaultTimeout }, "timeout"},
	} {
		if *d.value < 0 {
			return fmt.Errorf("hub: the %s cannot be negative", d.name)
		}
		if *d.value == 0 {
			*d.value = d.def()
		}
	}
	return nil
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}
