// Package address decides which URLs may name a topic, and which the hub calls
// on behalf of strangers.
package address

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"lockstep/internal/fetch"
	"lockstep/websub"
)

// maxURL caps the length of a topic or a callback: each is stored, and sent with
// every delivery.
const maxURL = 2048

// refusedPorts are the ports above 1023 whose services could mistake lines of
// HTTP for their own commands, from the list of the Fetch standard (2.9). Of
// the ports below 1024, the hub calls only those of HTTP.
var refusedPorts = []int{2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080}

// Check returns an error if the hub must not call a URL on behalf of a
// stranger (WS-H-04, WS-SEC-02). The addresses that its host resolves to are
// checked when it is dialled.
func Check(raw string, allowPrivate bool) (*url.URL, error) {
	u, err := CheckTopic(raw)
	if err != nil {
		return nil, err
	}
	if !allowPrivate {
		if err := checkPort(u.Port()); err != nil {
			return nil, &Refused{err}
		}
	}
	if err := fetch.CheckHost(u.Hostname(), allowPrivate); err != nil {
		return nil, &Refused{err}
	}
	return u, nil
}

// CheckTopic returns an error if a URL cannot name a topic. Since the hub
// does not call it, any address is allowed.
func CheckTopic(raw string) (*url.URL, error) {
	if raw == "" {
		return nil, errors.New("is missing")
	}
	if len(raw) > maxURL {
		return nil, fmt.Errorf("is longer than %d bytes", maxURL)
	}
	for i := range len(raw) {
		if c := raw[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`<>"\`, c) >= 0 {
			return nil, fmt.Errorf("has a byte, number %d, that is not allowed in a URL: percent-encode it", i+1)
		}
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, errors.New("is no URL")
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return nil, errors.New("is no absolute http or https URL")
	case strings.Contains(raw, "#"):
		return nil, errors.New("has a fragment")
	case u.User != nil:
		return nil, errors.New("has user information")
	}
	if p := u.Port(); p != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 {
			return nil, errors.New("has a port that is none")
		}
	}
	return u, nil
}

// An Refused reports a valid URL that strangers may not make the hub
// call.
type Refused struct{ err error }

// Error names the flags of both commands that run a hub: the subscriber reads
// the message and passes it on to the hub's operator.
func (e *Refused) Error() string {
	var a *fetch.AddressError
	if !errors.As(e.err, &a) || a.Class != "loopback" && a.Class != "private" {
		return "is refused: " + e.err.Error()
	}
	return fmt.Sprintf("is refused: %s is a %s address, which the hub calls only with --allow-private (serve: --hub-allow-private)", fetch.Printable(a.Host), a.Class)
}

// Unwrap returns the reason.
func (e *Refused) Unwrap() error { return e.err }

// checkPort refuses ports that do not speak HTTP.
func checkPort(port string) error {
	n, err := strconv.Atoi(port)
	if err != nil || n == 80 || n == 443 || n >= 1024 && !slices.Contains(refusedPorts, n) {
		return nil // the default port of the scheme
	}
	return fmt.Errorf("port %d is not one of HTTP", n)
}

// Host returns the host of a URL without its port, the key of the limits
// per host.
func Host(u *url.URL) string {
	return strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
}

// HostPort returns the host and port of a URL, the key by which connections are
// shared.
func HostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "80"
		if strings.EqualFold(u.Scheme, "https") {
			port = "443"
		}
	}
	return strings.ToLower(u.Hostname()) + ":" + port
}

// A Prefix is a URL below which topics are.
type Prefix struct{ origin, rest string }

// ParsePrefixes parses http(s) URLs.
func ParsePrefixes(prefixes []string) ([]Prefix, error) {
	var all []Prefix
	for _, p := range prefixes {
		u, err := url.Parse(p)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.Contains(p, "#") {
			return nil, fmt.Errorf("publish prefix %q is no absolute http or https URL", fetch.WithoutUser(p))
		}
		all = append(all, Prefix{originOf(u), pathOf(u)})
	}
	return all, nil
}

// Within reports whether topic begins with one of the prefixes. Origins are
// compared as a whole: a prefix without a slash after its host does not match
// longer host names. A topic that leaves the prefix by way of dot segments is
// not within it.
func Within(prefixes []Prefix, topic *url.URL) bool {
	if len(prefixes) == 0 {
		return true
	}
	for s := range strings.SplitSeq(topic.Path, "/") { // decoded
		if s == "." || s == ".." {
			return false
		}
	}
	origin, rest := originOf(topic), pathOf(topic)
	return slices.ContainsFunc(prefixes, func(p Prefix) bool {
		return p.origin == origin && strings.HasPrefix(rest, p.rest)
	})
}

// Touches reports whether topic begins with one of the prefixes, or might once
// a server has resolved its dot segments or decoded it. It is used to refuse
// topics below a prefix.
func Touches(prefixes []Prefix, topic *url.URL) bool {
	clean := *topic
	clean.Path, clean.RawPath = path.Clean("/"+topic.Path), ""
	if strings.HasSuffix(topic.Path, "/") && clean.Path != "/" {
		clean.Path += "/"
	}
	return Within(prefixes, topic) || Within(prefixes, &clean)
}

func originOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + Host(u) + ":" + port
}

// pathOf returns what follows the origin, in the spelling in which topics are
// compared.
func pathOf(u *url.URL) string {
	c := *u
	c.Scheme, c.Host, c.User = "", "", nil
	if c.Path == "" {
		c.Path = "/"
	}
	return websub.Canonical(c.String())
}

// SameOrigin reports whether two URLs have the same scheme, host and port.
func SameOrigin(a, b string) bool {
	u, err := url.Parse(a)
	v, err2 := url.Parse(b)
	return err == nil && err2 == nil && originOf(u) == originOf(v)
}
