package pathname

import (
	"fmt"
	"net/url"
	"strings"

	"lockstep/internal/iri"
)

const upperHex = "0123456789ABCDEF"

// literal contains the bytes that need no escaping in a path segment: unreserved,
// sub-delims, ":" and "@" of RFC 3986.
var literal = func() (t [256]bool) {
	const alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	for _, c := range []byte(alphanumeric + "-._~" + "!$&'()*+,;=" + ":@") {
		t[c] = true
	}
	return t
}()

// EscapePath returns the path, relative to the base URI, of the file at the
// slash-separated relative path rel, which may contain any bytes. Every byte that is
// not literal in a segment becomes %XX, so the result is canonical: no other path
// refers to the same file.
func EscapePath(rel string) string {
	for i := range len(rel) {
		if c := rel[i]; !literal[c] && c != '/' {
			return string(AppendEscaped(make([]byte, 0, len(rel)+16), rel))
		}
	}
	return rel
}

// UnescapePath is the inverse of [EscapePath]. It reports false for paths that
// EscapePath never returns: other spellings, empty or dot segments, NUL.
func UnescapePath(path string) (rel string, ok bool) {
	rel, ok = Unescape(path)
	return rel, ok && ValidRel(rel)
}

// Unescape is UnescapePath, but accepts any segments.
func Unescape(path string) (rel string, ok bool) {
	out := make([]byte, 0, len(path))
	for i := 0; i < len(path); i++ {
		c := path[i]
		switch {
		case literal[c] || c == '/':
		case c == '%' && i+2 < len(path):
			hi, lo := strings.IndexByte(upperHex, path[i+1]), strings.IndexByte(upperHex, path[i+2])
			if hi < 0 || lo < 0 {
				return "", false
			}
			c = byte(hi<<4 | lo)
			if literal[c] || c == '/' || c == 0 {
				return "", false
			}
			i += 2
		default:
			return "", false
		}
		out = append(out, c)
	}
	return string(out), true
}

// ValidRel reports whether rel can be the path of a file below a root.
func ValidRel(rel string) bool {
	for seg := range strings.SplitSeq(rel, "/") {
		if seg == "" || seg == "." || seg == ".." || strings.IndexByte(seg, 0) >= 0 {
			return false
		}
	}
	return true
}

// AppendEscaped appends s, escaped except for slashes.
func AppendEscaped[T string | []byte](dst []byte, s T) []byte {
	for i := range len(s) {
		if c := s[i]; literal[c] || c == '/' {
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return dst
}

// ParseBase checks the URI under which a directory is published.
func ParseBase(base string) (string, error) {
	if plain, had := iri.WithoutUser(base); had { // also from what cannot be parsed
		return "", fmt.Errorf("base URI %q: must have no user name and password", plain)
	}
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return "", fmt.Errorf("base URI %q: %w", base, err)
	case u.Scheme == "" || u.Host == "":
		return "", fmt.Errorf("base URI %q: is not absolute", base)
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("base URI %q: cannot be fetched: want http or https", base)
	case u.Port() != "" && !iri.IsPort(u.Port()):
		return "", fmt.Errorf("base URI %q: there is no port %s", base, u.Port())
	case strings.ContainsAny(base, "?#"):
		return "", fmt.Errorf("base URI %q: has a query or fragment", base)
	}
	if !strings.HasSuffix(base, "/") {
		base += "/"
	}
	return base, nil
}
