package resourcesync

// A class is a set of bytes that some grammar names.
type class uint8

const (
	classToken    class = 1 << iota // token of RFC 9110: media types, relations
	classURI                        // may stand in a URI
	classURIPlain                   // may be written in a URI in an attribute as it is, in any place
)

// classes tells the classes of every byte.
var classes = func() (t [256]class) {
	for c := range 128 {
		if b := byte(c); b|0x20 >= 'a' && b|0x20 <= 'z' || b >= '0' && b <= '9' {
			t[c] |= classToken | classURI
		}
	}
	for _, b := range []byte("!#$%&'*+-.^_`|~") {
		t[b] |= classToken
	}
	for _, b := range []byte("-._~:/?#[]@!$&'()*+,;=%") {
		t[b] |= classURI
	}
	for c := range t {
		if t[c]&classURI != 0 && c != '%' && c != '&' && c != '\'' {
			t[c] |= classURIPlain
		}
	}
	return t
}()

// allOf reports whether all bytes of b are of a class.
func allOf(b []byte, c class) bool {
	all := c
	for ; len(b) >= 8; b = b[8:] {
		all &= classes[b[0]] & classes[b[1]] & classes[b[2]] & classes[b[3]] & classes[b[4]] & classes[b[5]] & classes[b[6]] & classes[b[7]]
	}
	for _, x := range b {
		all &= classes[x]
	}
	return all == c
}

// validURI reports whether s is an absolute URI of allowed characters; more
// than that is the business of who follows it.
func validURI(s string) bool {
	if !hasScheme(s) {
		return false
	}
	for i := range len(s) {
		if classes[s[i]]&classURI == 0 {
			return false
		}
		if s[i] == '%' && (i+2 >= len(s) || unhex[s[i+1]] > 15 || unhex[s[i+2]] > 15) {
			return false
		}
	}
	return true
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
