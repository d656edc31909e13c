package lexical

import (
	"bytes"
	"net/url"
	"strings"

	"lockstep/internal/byteset"
	"lockstep/internal/iri"
	"lockstep/internal/xmlscan"
)

// URI reports whether s is an absolute URI of allowed characters. Further
// checks are up to the code that requests it.
func URI(s string) bool {
	if !iri.HasScheme(s) {
		return false
	}
	for i := range len(s) {
		if !iri.Byte(s[i]) || s[i] == '%' && !iri.Escape(s[i:]) {
			return false
		}
	}
	return true
}

// Requestable reports whether s, whose characters are all allowed in a URI, is
// one that a client can request, or has a scheme for which that is unknown.
func Requestable[T string | []byte](s T) bool {
	if simple(s) {
		return true
	}
	u, err := url.Parse(string(s))
	if err != nil {
		return false
	}
	if strings.EqualFold(u.Scheme, "http") || strings.EqualFold(u.Scheme, "https") {
		return u.Hostname() != ""
	}
	return true
}

// PlainURL reports whether text is a URI of the usual form, without user name and
// escapes: all that [URI] and [Requestable] examine is then in order.
func PlainURL(text []byte) bool {
	i, ok := origin(text)
	return ok && rare.Index(text[i:]) == len(text)-i
}

// rare are the bytes that are not valid in a URI, and those of escapes and of user
// names.
var rare = byteset.New(func(c byte) bool { return !iri.Byte(c) || c == '%' || c == '@' })

// simple reports whether s is a URI of the usual form: http or https, a host of
// letters, digits, dots and hyphens, perhaps a port, and complete escapes.
func simple[T string | []byte](s T) bool {
	i, ok := origin(s)
	if !ok {
		return false
	}
	for ; i < len(s); i++ {
		if s[i] == '%' && (len(s)-i < 3 || !iri.Escape(string(s[i:i+3]))) {
			return false
		}
	}
	return true
}

// origin returns the end of the scheme, host and port of a URI of the usual form.
func origin[T string | []byte](s T) (end int, ok bool) {
	var i int
	switch {
	case len(s) > 7 && string(s[:7]) == "http://":
		i = 7
	case len(s) > 8 && string(s[:8]) == "https://":
		i = 8
	default:
		return 0, false
	}
	host := i
	for i < len(s) && classes[s[i]]&classHost != 0 {
		i++
	}
	if i == host {
		return 0, false
	}
	if port := i + 1; i < len(s) && s[i] == ':' {
		for i = port; i < len(s) && s[i] >= '0' && s[i] <= '9'; {
			i++
		}
		if i == port {
			return 0, false
		}
	}
	if i < len(s) && s[i] != '/' {
		return 0, false
	}
	return i, true
}

// RelativeURI reports whether text may be a relative URI: words without a slash
// between them are not.
func RelativeURI(text []byte) bool {
	return bytes.IndexByte(text, '/') >= 0 || !bytes.ContainsAny(text, " \t\r\n<>\"{}|\\^`")
}

// AppendURI appends an absolute URI, escaped for XML; ok is false if s is not
// valid (RS-XML-02, RS-AMB-24).
func AppendURI(b []byte, s string) (_ []byte, ok bool) {
	if !iri.HasScheme(s) {
		return b, false
	}
	done := 0
	for i := 0; i < len(s); i++ {
		for i+8 <= len(s) { // most bytes need no escape: check eight at a time
			p := s[i : i+8]
			if classes[p[0]]&classes[p[1]]&classes[p[2]]&classes[p[3]]&classes[p[4]]&classes[p[5]]&classes[p[6]]&classes[p[7]]&classURIPlain == 0 {
				break
			}
			i += 8
		}
		if i == len(s) {
			break
		}
		c := s[i]
		if classes[c]&classURIPlain != 0 {
			continue
		}
		switch {
		case !iri.Byte(c):
			return b, false
		case c == '%':
			if !iri.Escape(s[i:]) {
				return b, false
			}
		default: // & or '
			b = append(b, s[done:i]...)
			b = xmlscan.AppendEntity(b, c)
			done = i + 1
		}
	}
	return append(b, s[done:]...), true
}
