// Package lexical checks the values of attributes and elements by their form:
// URIs, media types, content codings, paths in packages, change frequencies.
package lexical

import "lockstep/internal/iri"

// A class is a set of bytes of some grammar.
type class uint8

const (
	classToken    class = 1 << iota // token of RFC 9110: media types, relations
	classURIPlain                   // may be written unescaped anywhere in a URI in an attribute
	classHost                       // in a host name
)

// classes holds the classes of every byte.
var classes = func() (t [256]class) {
	for c := range 128 {
		if b := byte(c); b|0x20 >= 'a' && b|0x20 <= 'z' || b >= '0' && b <= '9' {
			t[c] |= classToken | classHost
		}
	}
	t['.'] |= classHost
	t['-'] |= classHost
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
