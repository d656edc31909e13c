package names

import (
	"net/url"
	"strings"
)

// A Place is the address below which the resources of a set are.
type Place struct {
	Prefix  string // what their URIs begin with
	Path    string // decoded segments behind it, without slashes at the ends
	Nowhere bool   // there is no such place
}

// Find returns the path of a URI below the place, encoded and decoded; ok is
// false if the URI is not below it.
func (p *Place) Find(uri string) (encoded, decoded string, ok bool) {
	rest, ok := strings.CutPrefix(uri, p.Prefix)
	if !ok || p.Nowhere {
		return "", "", false
	}
	if p.Path != "" {
		n := 0 // of the segments of p.path
		for range strings.Count(p.Path, "/") + 1 {
			i := strings.IndexByte(rest[n:], '/')
			if i < 0 {
				return "", "", false
			}
			n += i + 1
		}
		if dir, ok := decodePath(rest[:n-1]); !ok || dir != p.Path {
			return "", "", false
		}
		rest = rest[n:]
	}
	plain, _, _ := strings.Cut(rest, "?")
	if s, err := url.PathUnescape(plain); err == nil {
		plain = s
	}
	return rest, plain, true
}
