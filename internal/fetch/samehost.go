package fetch

import (
	"net/url"
	"strings"
)

// SameHost reports whether two URLs have the same host and the same port:
// another port of a host is another server, possibly with another operator. The
// default ports of http and https count as no port, so that a Source may move
// from one to the other. Credentials require more: see trusts.
func SameHost(a, b *url.URL) bool {
	return bareHost(a) != "" && bareHost(a) == bareHost(b) && portOf(a) == portOf(b)
}

// WithinHost reports whether u is at the host of own, or at a host below it, and
// at the same port.
func WithinHost(u, own *url.URL) bool {
	return SameHost(u, own) || bareHost(own) != "" && strings.HasSuffix(bareHost(u), "."+bareHost(own)) && portOf(u) == portOf(own)
}

// HostPort returns the host of a URL in the form in which a user would allow
// it: with its port, unless that is the default of its scheme.
func HostPort(u *url.URL) string {
	host := bareHost(u)
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port := portOf(u); port != "" {
		host += ":" + port
	}
	return host
}

// Allows reports whether an entry of a list of allowed hosts matches u: HOST
// matches any port of it, HOST:PORT one, * everything.
func Allows(entry string, u *url.URL) bool {
	return entry == "*" || strings.EqualFold(strings.TrimSuffix(entry, "."), bareHost(u)) || strings.EqualFold(entry, HostPort(u)) || strings.EqualFold(entry, u.Host)
}

func bareHost(u *url.URL) string {
	if u == nil {
		return ""
	}
	return strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
}

// portOf returns the port of a URL; "" if it is the default of its scheme.
func portOf(u *url.URL) string {
	if port := u.Port(); port != defaultPort(strings.ToLower(u.Scheme)) {
		return port
	}
	return ""
}
