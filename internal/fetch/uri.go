package fetch

import (
	"net/url"
	"strings"
)

// A uriError reports text that is not an http or https URI.
type uriError struct{ reason string }

func (e *uriError) Error() string { return e.reason }

// parse returns uri in the form for a request: IRIs and malformed URIs are
// escaped (RS-AMB-24), the fragment is removed (RS-AMB-22), and so is a
// password, which is either Home's or a stranger's.
func parse(uri string) (*url.URL, error) {
	u, err := url.Parse(escape(uri))
	if err != nil {
		return nil, &uriError{"not a valid URI"}
	}
	if reason := unfetchable(u); reason != "" {
		return nil, &uriError{reason}
	}
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	return u, nil
}

func unfetchable(u *url.URL) string {
	switch {
	case u.Scheme == "":
		return "not an absolute URI"
	case u.Scheme != "http" && u.Scheme != "https":
		return "scheme " + Printable(u.Scheme) + " is not http or https"
	case u.Hostname() == "":
		return "no host in the URI"
	}
	return ""
}

// escape percent-encodes bytes that are invalid in a URI: all other bytes of
// the path must remain unchanged, while net/url would re-encode the whole path.
func escape(uri string) string {
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

// textOf returns u as text: uri itself, where that is the same.
func textOf(u *url.URL, uri string) string {
	rest, scheme := strings.CutPrefix(uri, u.Scheme)
	rest, slashes := strings.CutPrefix(rest, "://")
	rest, host := strings.CutPrefix(rest, u.Host)
	if scheme && slashes && host && u.Host != "" && u.User == nil && u.Path != "" && u.Fragment == "" && !strings.ContainsFunc(u.Host, escapedInHost) && rest == u.RequestURI() {
		return uri
	}
	return u.String()
}

// escapedInHost reports whether a character of a host may be written in another form.
func escapedInHost(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(".-_:[]", r))
}
