package aggregator

import (
	"net/url"
	"path"
	"strings"

	"lockstep/destination/filename"
)

// names gives the resources of a mirror their own URIs. Each is the prefix and the name
// that the file of the resource has on a file system that takes all names, with nothing in
// its way: that depends on the URI of the resource alone, and no two have the same one.
// Where the file really is depends on the file system, and on what came first.
type names struct {
	prefix string
	paths  *filename.Mapping // nil: the resources keep their URIs
}

// own returns the URI at which a resource is republished, and its path below the prefix.
func (n *names) own(uri string) (own, path string, err error) {
	if n.paths == nil {
		return uri, "", nil
	}
	path, err = n.paths.Path(uri)
	return n.prefix + escapePath(path), path, err
}

const upperHex = "0123456789ABCDEF"

// literal contains the bytes that need no escaping in a path segment: unreserved,
// sub-delims, ":" and "@" of RFC 3986.
var literal = func() (t [256]bool) {
	const alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	for _, c := range []byte(alphanumeric + "-._~" + "!$&'()*+,;=" + ":@" + "/") {
		t[c] = true
	}
	return t
}()

// escapePath returns a slash-separated path of any bytes as the path of a URI. Every
// byte that is not literal becomes %XX, so each path has one URI.
func escapePath(path string) string {
	plain := true
	for i := range len(path) {
		plain = plain && literal[path[i]]
	}
	if plain {
		return path
	}
	out := make([]byte, 0, len(path)+16)
	for i := range len(path) {
		if c := path[i]; literal[c] {
			out = append(out, c)
		} else {
			out = append(out, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return string(out)
}

// isBelow reports whether a URI is below base, which ends with a slash.
func isBelow(uri, base string) bool {
	return base != "" && (strings.HasPrefix(uri, base) || uri+"/" == base)
}

// isHere reports whether a URI, however it is written, leads to this Source at base, which
// ends with a slash: another spelling of the host, a default port, http for https, a user
// name and escapes make no difference.
func isHere(uri, base string) bool {
	if base == "" || isBelow(uri, base) {
		return base != ""
	}
	if !strings.EqualFold(hostname(uri), hostname(base)) { // as nearly always
		return false
	}
	u, err := url.Parse(uri)
	if err != nil {
		return false
	}
	b, err := url.Parse(base)
	if err != nil || hostOf(u) != hostOf(b) {
		return false
	}
	return strings.HasPrefix(path.Clean("/"+u.Path)+"/", b.Path)
}

// hostname returns the name in the authority of a URI, without a dot at its end.
func hostname(uri string) string {
	_, rest, _ := strings.Cut(uri, "://")
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	rest = rest[strings.LastIndexByte(rest, '@')+1:]
	if i := strings.LastIndexByte(rest, ':'); i >= 0 && !strings.HasSuffix(rest, "]") {
		rest = rest[:i]
	}
	return strings.TrimSuffix(rest, ".")
}

// hostOf returns host and port of a web address in one spelling; the default ports of http
// and https are the same.
func hostOf(u *url.URL) string {
	host, port := strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), u.Port()
	switch scheme := strings.ToLower(u.Scheme); {
	case scheme != "http" && scheme != "https":
		return scheme + ":" // no web address
	case port == "80" && scheme == "http", port == "443" && scheme == "https":
		port = ""
	}
	return host + ":" + port
}

// after returns the end of the range of URIs that begin with prefix; "" if the range has
// no end.
func after(prefix string) string {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			return prefix[:i] + string(prefix[i]+1)
		}
	}
	return ""
}
