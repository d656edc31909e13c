package resourcesync

import "lockstep/internal/iri"

// A class is a set of bytes of some grammar.
type class uint8

const (
	classToken    class = 1 << iota // token of RFC 9110: media types, relations
	classURIPlain                   // may be written unescaped anywhere in a URI in an attribute
)

// classes holds the classes of every byte.
var classes = func() (t [256]class) {
	for c := range 128 {
		if b := byte(c); b|0x20 >= 'a' && b|0x20 <= 'z' || b >= '0' && b <= '9' {
			t[c] |= classToken
		}
	}
	for _, b := range []byte("!#$%&'*+-.^_`|~") {
		t[b] |= classToken
	}
	for c := range t {
		if iri.Byte(byte(c)) && c != '%' && c != '&' && c != '\'' {
			t[c] |= classURIPlain
		}
	}
	return t
}()

// validURI reports whether s is an absolute URI of allowed characters. Further
// checks are up to the code that requests it.
func validURI(s string) bool {
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

// unhex holds the value of each hex digit, and 0xff for other bytes.
var unhex = func() (t [256]byte) {
	for i := range t {
		switch c := byte(i); {
		case c >= '0' && c <= '9':
			t[i] = c - '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			t[i] = c | 0x20 - 'a' + 10
		default:
			t[i] = 0xff
		}
	}
	return t
}()
