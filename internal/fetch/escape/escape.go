// Package escape escapes what is invalid in the addresses of requests.
package escape

import "strings"

// Address percent-encodes bytes that are invalid in a URI: all other bytes of
// the path must remain unchanged, while net/url would re-encode the whole path.
func Address(uri string) string {
	clean := true
	for i := 0; clean && i < len(uri); i++ {
		clean = isURIByte(uri, i)
	}
	if clean {
		return uri
	}
	const hex = "0123456789ABCDEF"
	// A host is not percent-encoded: net/http takes names in other scripts.
	host := 0
	if i := strings.Index(uri, "://"); i >= 0 && !strings.ContainsAny(uri[:i], "/?#") { // in a query it does not begin a host
		host = len(uri)
		if j := strings.IndexAny(uri[i+3:], "/?#"); j >= 0 {
			host = i + 3 + j
		}
	}
	var b strings.Builder
	b.WriteString(uri[:host])
	for i := host; i < len(uri); i++ {
		if isURIByte(uri, i) {
			b.WriteByte(uri[i])
		} else {
			b.Write([]byte{'%', hex[uri[i]>>4], hex[uri[i]&15]})
		}
	}
	return b.String()
}

// isURIByte reports whether byte i of uri is valid in a URI.
func isURIByte(uri string, i int) bool {
	switch c := uri[i]; {
	case c <= ' ' || c >= 0x7f:
		return false
	case c == '%':
		return i+2 < len(uri) && isHex(uri[i+1]) && isHex(uri[i+2])
	default:
		return strings.IndexByte("\"<>\\^`{|}", c) < 0
	}
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}
