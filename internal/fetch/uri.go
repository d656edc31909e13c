package fetch

import (
	"net/url"
	"strings"
)

// A uriError reports something that is no http or https URI.
type uriError struct{ reason string }

func (e *uriError) Error() string { return e.reason }

// parse returns uri as something to ask for: IRIs and sloppy URIs in the form
// that goes over the wire (RS-AMB-24), the fragment gone (RS-AMB-22), any
// password gone: it is the Home's, or a stranger's.
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

// escape percent-encodes what cannot stand in a URI: other bytes of the path
// must stay as they are, and net/url would re-encode the path as a whole.
func escape(uri string) string {
	clean := true
	for i := 0; clean && i < len(uri); i++ {
		clean = stands(uri, i)
	}
	if clean {
		return uri
	}
	const hex = "0123456789ABCDEF"
	// A host is not percent-encoded: net/http takes names in other scripts.
	host := 0
	if i := strings.Index(uri, "://"); i >= 0 && !strings.ContainsAny(uri[:i], "/?#") { // in a query it begins no host
		host = len(uri)
		if j := strings.IndexAny(uri[i+3:], "/?#"); j >= 0 {
			host = i + 3 + j
		}
	}
	var b strings.Builder
	b.WriteString(uri[:host])
	for i := host; i < len(uri); i++ {
		if stands(uri, i) {
			b.WriteByte(uri[i])
		} else {
			b.Write([]byte{'%', hex[uri[i]>>4], hex[uri[i]&15]})
		}
	}
	return b.String()
}

// stands reports whether byte i of uri can stand in a URI as it is.
func stands(uri string, i int) bool {
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
