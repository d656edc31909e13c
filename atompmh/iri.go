package atompmh

import "bytes"

// encodeIRI returns the URI of an IRI, or of a URI that someone forgot to
// encode: what cannot stand in one is percent-encoded. The host stays, for
// hosts are not written so.
func encodeIRI(text []byte) []byte {
	if allOf(text, byteURI) {
		return text
	}
	const hex = "0123456789ABCDEF"
	host := 0
	if i := bytes.Index(text, []byte("://")); i >= 0 {
		host = len(text)
		if j := bytes.IndexAny(text[i+3:], "/?#"); j >= 0 {
			host = i + 3 + j
		}
	}
	b := append(make([]byte, 0, len(text)+32), text[:host]...)
	for _, c := range text[host:] {
		if bytesOf[c]&byteURI != 0 {
			b = append(b, c)
		} else {
			b = append(b, '%', hex[c>>4], hex[c&15])
		}
	}
	return b
}

// The classes of bytes.
const (
	byteURI = 1 << iota // may stand in a URI
	byteIRI             // may stand in an IRI, as far as one byte tells
)

var bytesOf = func() (t [256]uint8) {
	for c := range t {
		b := byte(c)
		if b|0x20 >= 'a' && b|0x20 <= 'z' || b >= '0' && b <= '9' {
			t[c] = byteURI | byteIRI
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

// allOf reports whether all bytes of s are of a class.
func allOf[T string | []byte](s T, class uint8) bool {
	all := class
	for ; len(s) >= 8; s = s[8:] {
		all &= bytesOf[s[0]] & bytesOf[s[1]] & bytesOf[s[2]] & bytesOf[s[3]] & bytesOf[s[4]] & bytesOf[s[5]] & bytesOf[s[6]] & bytesOf[s[7]]
	}
	for i := range len(s) {
		all &= bytesOf[s[i]]
	}
	return all == class
}

// hasScheme reports whether s begins with a scheme and goes on behind it.
func hasScheme[T string | []byte](s T) bool {
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

// validID reports whether id is an absolute IRI, as far as can be told without
// knowing its scheme (AP-DOC-09).
func validID[T string | []byte](id T) bool {
	return hasScheme(id) && allOf(id, byteIRI)
}
