package xmlscan

import (
	"strconv"
	"unicode/utf8"
)

// AppendEscaped appends s, escaped for use in an attribute or as text, so that
// it is read back unchanged; ok is false if XML cannot represent s.
func AppendEscaped(b []byte, s string) (_ []byte, ok bool) {
	done := 0
	for i := 0; i < len(s); i++ {
		for i+8 <= len(s) { // most bytes need no escape: check eight at a time
			p := s[i : i+8]
			if classes[p[0]]&classes[p[1]]&classes[p[2]]&classes[p[3]]&classes[p[4]]&classes[p[5]]&classes[p[6]]&classes[p[7]]&classPlain == 0 {
				break
			}
			i += 8
		}
		if i == len(s) {
			break
		}
		c := s[i]
		if classes[c]&classPlain != 0 {
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 || r == 0xFFFE || r == 0xFFFF {
				return b, false
			}
			i += n - 1
			continue
		}
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' {
			return b, false
		}
		b = append(b, s[done:i]...)
		b = AppendEntity(b, c)
		done = i + 1
	}
	return append(b, s[done:]...), true
}

// AppendEntity appends the reference to c, an ASCII character.
func AppendEntity(b []byte, c byte) []byte {
	switch c {
	case '&':
		return append(b, "&amp;"...)
	case '<':
		return append(b, "&lt;"...)
	case '>':
		return append(b, "&gt;"...)
	case '"':
		return append(b, "&quot;"...)
	case '\'':
		return append(b, "&apos;"...)
	}
	b = append(b, "&#"...)
	b = strconv.AppendInt(b, int64(c), 10)
	return append(b, ';')
}
