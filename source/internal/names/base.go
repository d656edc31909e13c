package names

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"lockstep/internal/iri"
)

// A Base is the URL below which all addresses of a Source are.
type Base struct {
	Prefix string // with a slash at the end
	path   string // of it, decoded, without the first slash: "" or "a/b/"
}

// URI returns the address of a document.
func (b Base) URI(name string) string { return b.Prefix + name }

// Origin returns scheme and host.
func (b Base) Origin() string {
	_, host, _ := strings.Cut(b.Prefix, "://")
	return b.Prefix[:len(b.Prefix)-len(host)] + host[:strings.IndexByte(host, '/')]
}

// ParseBase checks and normalizes a base URL.
func ParseBase(s string) (Base, error) {
	if plain, had := iri.WithoutUser(s); had { // also from what cannot be parsed
		return Base{}, fmt.Errorf("base URL %q: must have no user name and password", plain)
	}
	u, err := url.Parse(s)
	if err != nil {
		if syntax, ok := errors.AsType[*url.Error](err); ok {
			err = syntax.Err
		}
		return Base{}, fmt.Errorf("base URL %q: %w", s, err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return Base{}, fmt.Errorf("base URL %q: want http://HOST/ or https://HOST/, with any path", s)
	case u.Port() != "" && !iri.IsPort(u.Port()):
		return Base{}, fmt.Errorf("base URL %q: there is no port %s", s, u.Port())
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return Base{}, fmt.Errorf("base URL %q: must have no query or fragment", s)
	}
	b := Base{Prefix: u.Scheme + "://" + u.Host + "/"}
	path := strings.Trim(u.EscapedPath(), "/")
	if path == "" {
		return b, nil
	}
	decoded, ok := decodePath(path)
	if !ok {
		return Base{}, fmt.Errorf("base URL %q: the path must have no empty segments, dots or encoded slashes", s)
	}
	return Base{Prefix: b.Prefix + path + "/", path: decoded + "/"}, nil
}

// Locate returns the path below the base URL that a request asks for: "" is
// the base URL itself. It takes the path as it was sent, and decodes it once.
// It rejects paths that cannot be an address of the Source instead of correcting
// them: empty segments, dots, encoded slashes and NUL bytes. The directory of the
// documents is the page in it, as on static servers. Clients request the
// well-known address and robots.txt at the origin (RS-DISC-02), so these are also
// found there, whatever the base URL's path.
func (b Base) Locate(escaped string) (rel string, ok bool) {
	p, ok := strings.CutPrefix(escaped, "/")
	if !ok {
		return "", false
	}
	if dir, isDir := strings.CutSuffix(p, "/"); isDir || p == "" {
		dir, ok := decodePath(dir)
		if ok && dir+"/" == b.path+DocumentsDir {
			return Hint, true
		}
		return "", (ok || p == "") && (p == "" && b.path == "" || p != "" && dir+"/" == b.path)
	}
	if p, ok = decodePath(p); !ok {
		return "", false
	}
	if rel, ok := strings.CutPrefix(p, b.path); ok {
		return rel, true
	}
	return p, p == WellKnown || p == Robots
}

// Below returns the rest of a request target after the base URL, still encoded.
func (b Base) Below(target string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(target, "/")
	if b.path == "" || !ok {
		return rest, ok
	}
	n := 0 // of the segments of b.path
	for range strings.Count(b.path, "/") {
		i := strings.IndexByte(rest[n:], '/')
		if i < 0 {
			return "", false
		}
		n += i + 1
	}
	dir, ok := decodePath(rest[:n-1])
	return rest[n:], ok && dir+"/" == b.path
}
