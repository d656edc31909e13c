package aggregator

import (
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
