package fetch

import (
	"net/url"
	"strings"

	"lockstep/internal/fetch/escape"
)

// A uriError reports text that is not an http or https URI.
type uriError struct{ reason string }

func (e *uriError) Error() string { return e.reason }

// parse returns uri in the form for a request: IRIs and malformed URIs are
// escaped (RS-AMB-24), the fragment is removed (RS-AMB-22), and so is a
// password, which is either Home's or a stranger's.
func parse(uri string) (*url.URL, error) {
	u, err := url.Parse(escape.Address(uri))
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
