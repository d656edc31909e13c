// Package iri recognizes URIs (RFC 3986) and IRIs (RFC 3987) in untrusted text,
// and converts IRIs to URIs. It checks only characters; the code that requests
// an address checks the rest.
package iri

import (
	"bytes"
	"strconv"
	"strings"
)

// The classes of bytes.
const (
	byteURI = 1 << iota // valid in a URI
	byteIRI             // valid in an IRI, as far as one byte shows
	byteHex
)

var classes = func() (t [256]uint8) {
	for c := range t {
		b := byte(c)
		if b|0x20 >= 'a' && b|0x20 <= 'z' || b >= '0' && b <= '9' {
			t[c] = byteURI | byteIRI
		}
		if b >= '0' && b <= '9' || b|0x20 >= 'a' && b|0x20 <= 'f' {
			t[c] |= byteHex
		}
		if b > 0x7f {
			t[c] = byteIRI
		}
	}
	for _, b := range []byte("-._~:/?#[]@!$&'()*+,;=%") {
		t[b] = byteURI | byteIRI
	}
	return t
}()

// Byte reports whether c is valid in a URI.
func Byte(c byte) bool { return classes[c]&byteURI != 0 }

// Plain reports whether all bytes of s are valid in a URI.
func Plain[T string | []byte](s T) bool { return allOf(s, byteURI) }

// Absolute reports whether s is an absolute IRI, as far as can be determined
// without knowing its scheme: every absolute URI is one.
func Absolute[T string | []byte](s T) bool { return HasScheme(s) && allOf(s, byteIRI) }

func allOf[T string | []byte](s T, class uint8) bool {
	all := class
	for ; len(s) >= 8; s = s[8:] {
		all &= classes[s[0]] & classes[s[1]] & classes[s[2]] & classes[s[3]] & classes[s[4]] & classes[s[5]] & classes[s[6]] & classes[s[7]]
	}
	for i := range len(s) {
		all &= classes[s[i]]
	}
	return all == class
}

// HasScheme reports whether s begins with a scheme that is followed by
// something.
func HasScheme[T string | []byte](s T) bool {
	if len(s) == 0 || s[0]|0x20 < 'a' || s[0]|0x20 > 'z' {
		return false
	}
	for i := 1; i < len(s); i++ {
		c := s[i]
		switch {
		case c == ':':
			return i+1 < len(s)
		case c|0x20 >= 'a' && c|0x20 <= 'z', c >= '0' && c <= '9', c == '+', c == '-', c == '.':
		default:
			return false
		}
	}
	return false
}

// Escape reports whether s begins with an escape: a percent sign and two
// hexadecimal digits.
func Escape(s string) bool {
	return len(s) > 2 && s[0] == '%' && classes[s[1]]&classes[s[2]]&byteHex != 0
}

// Encode returns the URI of an IRI, or of a URI with unencoded characters: it
// percent-encodes bytes that are invalid in a URI. It does not change the host,
// which has another encoding. It returns text itself if there is nothing to
// encode.
func Encode(text []byte) []byte {
	if Plain(text) {
		return text
	}
	const hex = "0123456789ABCDEF"
	host := 0
	if i := bytes.Index(text, []byte("://")); i >= 0 && !bytes.ContainsAny(text[:i], "/?#") { // in a query it does not begin a host
		host = len(text)
		if j := bytes.IndexAny(text[i+3:], "/?#"); j >= 0 {
			host = i + 3 + j
		}
	}
	b := append(make([]byte, 0, len(text)+32), text[:host]...)
	for _, c := range text[host:] {
		if Byte(c) {
			b = append(b, c)
		} else {
			b = append(b, '%', hex[c>>4], hex[c&15])
		}
	}
	return b
}

// HasUser reports whether a URI has a user name in its authority, which may be empty.
func HasUser(s string) bool {
	if strings.IndexByte(s, '@') < 0 { // as nearly always
		return false
	}
	_, has := WithoutUser(s)
	return has
}

// WithoutUser returns a URI without the user name and password in its authority,
// and whether it had some: they belong to the client, and have no use in a
// document. It also removes them from malformed URIs; see [UserUnclear].
func WithoutUser[T string | []byte](s T) (T, bool) {
	start, end := authority(s)
	if InPassword(s[start:end]) {
		if at := lastAt(s[end:]); at >= 0 {
			end += at + 1
		}
	}
	at := lastAt(s[start:end])
	if at < 0 {
		return s, false
	}
	out := make([]byte, 0, len(s))
	out = append(out, s[:start]...)
	return T(append(out, s[start+at+1:]...)), true
}

// UserUnclear reports whether s is a malformed URI that appears to have a password with /, ?
// or # in it, so that it is not certain what the host is. [WithoutUser] removes everything
// that may be of the password: its result can be displayed, but is no substitute for s.
func UserUnclear[T string | []byte](s T) bool {
	start, end := authority(s)
	return InPassword(s[start:end]) && lastAt(s[end:]) >= 0
}

// InPassword reports whether an authority that ends at a /, ? or # is none, but the first part
// of a user name and a password with that character: what would be its port is no number.
func InPassword[T string | []byte](authority T) bool {
	host := authority[lastAt(authority)+1:]
	if len(host) > 0 && host[0] == '[' {
		return false
	}
	port := 0
	for port < len(host) && host[port] != ':' {
		port++
	}
	for i := port + 1; i < len(host); i++ {
		if host[i] < '0' || host[i] > '9' {
			return true
		}
	}
	return false
}

// IsPort reports whether a port in an authority is a number that a port can have.
func IsPort(port string) bool {
	_, err := strconv.ParseUint(port, 10, 16)
	return err == nil
}

// authority returns where the authority of a URI begins and ends; if there is none it is
// empty.
func authority[T string | []byte](s T) (start, end int) {
	for start < len(s) && s[start] != ':' && s[start] != '/' {
		start++
	}
	if start < len(s) && s[start] == ':' {
		start++
	}
	if len(s)-start < 2 || s[start] != '/' && s[start] != '\\' || s[start+1] != '/' && s[start+1] != '\\' {
		return 0, 0
	}
	start += 2
	for end = start; end < len(s) && s[end] != '/' && s[end] != '?' && s[end] != '#'; {
		end++
	}
	return start, end
}

// lastAt returns the index of the last at sign in s, or -1.
func lastAt[T string | []byte](s T) int {
	i := len(s) - 1
	for i >= 0 && s[i] != '@' {
		i--
	}
	return i
}
