package xmlscan

// A class is a set of bytes of some grammar.
type class uint8

const (
	classNameStart class = 1 << iota // may begin an XML name (ASCII)
	className                        // valid in an XML name (ASCII)
	classSpace                       // XML white space
	classPlain                       // may be written unescaped in an attribute
)

// classes holds the classes of every byte.
var classes = func() (t [256]class) {
	for c := range 128 {
		b := byte(c)
		letter := b|0x20 >= 'a' && b|0x20 <= 'z'
		if letter || b >= '0' && b <= '9' || b == '-' || b == '.' {
			t[c] |= className
		}
		if letter || b == '_' || b == ':' {
			t[c] |= classNameStart | className
		}
		if b >= ' ' && b < 127 && b != '&' && b != '<' && b != '>' && b != '"' && b != '\'' {
			t[c] |= classPlain
		}
	}
	for _, b := range []byte(" \t\r\n") {
		t[b] |= classSpace
	}
	return t
}()

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
