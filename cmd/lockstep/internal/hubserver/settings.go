package hubserver

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/help"
	"lockstep/cmd/lockstep/internal/release"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/hub"
	"lockstep/internal/fetch"
)

// Settings say how a hub behaves, be it on its own or within a Source.
type Settings struct {
	leaseMin, leaseDefault, leaseMax time.Duration
	retryFirst, retryMost, retryFor  time.Duration
	keep, timeout                    time.Duration
	maxBody                          string
	allowPrivate                     bool
	PublishTokenFile                 string
	PublishOpen                      bool
	publishPrefixes                  []string
	trustedProxies                   []string
	checkTopics                      bool
	signature                        string
	KeyFile                          string
	caFile                           string

	prefix string                 // of the flags
	given  func(flag string) bool // whether a flag was set, rather than left at its default
}

// Declare declares the flags, whose names begin with prefix.
func (s *Settings) Declare(all *pflag.FlagSet, prefix string) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.DurationVar(&s.leaseMin, prefix+"lease-min", hub.DefaultLeaseMin, "no subscription is shorter than this `DURATION`")
	flags.DurationVar(&s.leaseDefault, prefix+"lease-default", hub.DefaultLease, "`DURATION` of a subscription that requests none")
	flags.DurationVar(&s.leaseMax, prefix+"lease-max", hub.DefaultLeaseMax, "no subscription is longer than this `DURATION`; they are renewed")
	flags.DurationVar(&s.retryFirst, prefix+"retry-first", hub.DefaultRetryFirst, "`DURATION` until a failed delivery is tried again; doubles each time")
	flags.DurationVar(&s.retryMost, prefix+"retry-most", hub.DefaultRetryMost, "the longest `DURATION` between two attempts")
	flags.DurationVar(&s.retryFor, prefix+"retry-for", hub.DefaultRetryFor, "discard a message that a subscriber has not accepted for this `DURATION`")
	flags.DurationVar(&s.keep, prefix+"keep", hub.DefaultKeep, "keep delivered messages for this `DURATION`, so that they can be replayed")
	flags.DurationVar(&s.timeout, prefix+"delivery-timeout", hub.DefaultTimeout, "`DURATION` a subscriber may take to answer")
	flags.StringVar(&s.maxBody, prefix+"max-body", "5MiB", "refuse messages of more than `BYTES`, as 5242880 or 5MiB")
	flags.BoolVar(&s.allowPrivate, prefix+"allow-private", false, "callbacks and topics may be at private and loopback addresses")
	madeToken := "default publish-token in the state directory, made where there is none"
	if prefix != "" {
		madeToken = "default: no request may publish; the Source does so from inside"
	}
	flags.StringVar(&s.PublishTokenFile, prefix+"publish-token-file", "", "requests with a token of `FILE`, one a line, may publish; TOKEN URL: topics below that URL only ("+madeToken+")")
	flags.BoolVar(&s.PublishOpen, prefix+"publish-open", false, "requests without a token may publish, too, from anywhere")
	flags.StringArrayVar(&s.publishPrefixes, prefix+"publish-prefix", nil, "only topics below this `URL` may be published (repeatable; default: any)")
	flags.StringArrayVar(&s.trustedProxies, "trusted-proxy", nil, "believe this `ADDRESS` or network which client it asks for, in X-Forwarded-For; used for rate limits and in logs only (repeatable; default: none)")
	flags.BoolVar(&s.checkTopics, prefix+"check-topics", false, "take the first subscription to a topic only if the topic names this hub as its own")
	flags.StringVar(&s.signature, prefix+"signature", defaultSignature, "`METHOD` of signatures: sha1, sha256, sha384, sha512")
	flags.StringVar(&s.KeyFile, prefix+"key-file", "", "the key that seals subscribers' secrets is in `FILE` (default hub.key in the state directory, made where there is none)")
	flags.StringVar(&s.caFile, prefix+"ca-file", "", "trust the certificates in `FILE` (PEM) besides the system's, of callbacks and topics")
	s.prefix = prefix
	s.given = func(name string) bool { return all.Changed(prefix + name) }
	if prefix == "" {
		all.AddFlagSet(flags)
		return
	}
	help.Grouped(all, help.HubGroup, func(fs *pflag.FlagSet) { fs.AddFlagSet(flags) })
}

// ForThisMachine returns the settings of a hub that needs no configuration, and
// that every program on this machine may use.
func ForThisMachine() Settings {
	var s Settings
	s.Declare(pflag.NewFlagSet("", pflag.ContinueOnError), "")
	s.allowPrivate = true
	return s
}

// defaultSignature is strong enough and understood by all (WS-X-03).
const defaultSignature = "sha256"

// Options returns the options of a hub at publicURL. Options that were not set
// are left to the hub, which derives them from those that were.
func (s *Settings) Options(publicURL string) (o hub.Options, err error) {
	o = hub.Options{PublicURL: publicURL, AllowPrivate: s.allowPrivate, PublishOpen: s.PublishOpen, PublishPrefixes: s.publishPrefixes, CheckTopics: s.checkTopics, Method: s.signature, UserAgent: "lockstep/" + release.Version()}
	for _, d := range []struct {
		flag  string
		value time.Duration
		to    *time.Duration
		least time.Duration
	}{
		{"lease-min", s.leaseMin, &o.LeaseMin, time.Second}, // leases are stated in whole seconds
		{"lease-default", s.leaseDefault, &o.LeaseDefault, time.Second},
		{"lease-max", s.leaseMax, &o.LeaseMax, time.Second},
		{"retry-first", s.retryFirst, &o.RetryFirst, time.Millisecond},
		{"retry-most", s.retryMost, &o.RetryMost, time.Millisecond},
		{"retry-for", s.retryFor, &o.RetryFor, time.Millisecond},
		{"keep", s.keep, &o.Keep, time.Millisecond},
		{"delivery-timeout", s.timeout, &o.Timeout, time.Millisecond},
	} {
		if !s.given(d.flag) {
			continue
		}
		if d.value < d.least {
			return o, term.Usagef("--%s%s %s: want %s or more", s.prefix, d.flag, d.value, d.least)
		}
		*d.to = d.value
	}
	for _, d := range []struct {
		flag, above string
		value, most time.Duration
	}{
		{"lease-min", "lease-max", o.LeaseMin, o.LeaseMax},
		{"lease-min", "lease-default", o.LeaseMin, o.LeaseDefault},
		{"lease-default", "lease-max", o.LeaseDefault, o.LeaseMax},
		{"retry-first", "retry-most", o.RetryFirst, o.RetryMost},
	} {
		if d.most > 0 && d.value > d.most {
			return o, term.Usage(fmt.Errorf("--%[1]s%[2]s %[3]s is above --%[1]s%[4]s %[5]s", s.prefix, d.flag, d.value, d.above, d.most), "change one of them, or leave it out")
		}
	}
	if o.MaxBody, err = config.ParseSize(s.maxBody); err != nil || o.MaxBody <= 0 {
		return o, term.Usage(fmt.Errorf("--%smax-body %q: want a number of bytes", s.prefix, s.maxBody), "as 5242880, or 5MiB")
	}
	switch s.signature {
	case "sha1", "sha256", "sha384", "sha512":
	default:
		return o, term.Usagef("--%ssignature %q: want sha1, sha256, sha384 or sha512", s.prefix, s.signature)
	}
	for _, p := range s.publishPrefixes {
		if !config.IsAbsoluteURI(p) || !(strings.HasPrefix(p, "http://") || strings.HasPrefix(p, "https://")) {
			return o, term.Usage(fmt.Errorf("--%spublish-prefix %q is no http(s) URL", s.prefix, fetch.WithoutUser(p)), "write it in full, as https://data.example.org/")
		}
	}
	if o.RootCAs, err = fetch.Certificates(s.caFile); err != nil {
		return o, term.Usage(fmt.Errorf("--%sca-file: %w", s.prefix, err), "name a file of PEM certificates")
	}
	if o.TrustedProxies, err = s.Proxies(); err != nil {
		return o, err
	}
	if s.PublishOpen && s.PublishTokenFile != "" {
		return o, term.Usage(fmt.Errorf("--%spublish-open and --%[1]spublish-token-file contradict each other", s.prefix), "leave one of them out")
	}
	return o, nil
}

// Proxies returns the values of --trusted-proxy: addresses, and networks.
func (s *Settings) Proxies() ([]netip.Prefix, error) {
	var proxies []netip.Prefix
	for _, v := range s.trustedProxies {
		p, err := netip.ParsePrefix(v)
		if a, err2 := netip.ParseAddr(v); err2 == nil && a.Zone() == "" {
			a = a.Unmap()
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil || p.Addr().Is4In6() {
			return nil, term.Usage(fmt.Errorf("--trusted-proxy %q: want the IP address of a proxy, or a network", v), "as --trusted-proxy 127.0.0.1, or --trusted-proxy 10.0.0.0/8")
		}
		proxies = append(proxies, p.Masked())
	}
	return proxies, nil
}

// CheckFiles reads the token and key files that were named, where they exist. A key
// file that does not exist may be created later.
func (s *Settings) CheckFiles() error {
	if s.PublishTokenFile != "" {
		if _, err := OpenPublishTokens(s.prefix+"publish-token-file", s.PublishTokenFile, "", nil); err != nil {
			return err
		}
	}
	if s.KeyFile == "" {
		return nil
	}
	if _, err := readKey(s.KeyFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
