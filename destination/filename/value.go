package filename

import "strings"

// With Map.Value, one value of a query string follows the prefix: letters, digits,
// "-", ".", "_" and "~" unescaped, all else as %XX. In the file's path it is
// written like the path of a URI, so that
//
//	oai%3Aexample.org%3Amaps%2F7	is	oai:example.org:maps/7.xml
//
// if the suffix is .xml.

// unreserved reports whether c is never escaped in a URI.
func unreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

// pathOfValue converts a value to a path. It fails if the value is not escaped as
// above, so that no two values have the same path.
func pathOfValue(value string) (path string, ok bool) {
	var b strings.Builder
	b.Grow(len(value))
	slashes := 0
	for i := 0; i < len(value); i++ {
		c := value[i]
		if unreserved(c) {
			b.WriteByte(c)
			continue
		}
		if c != '%' || i+2 >= len(value) || unhex(value[i+1]) < 0 || unhex(value[i+2]) < 0 {
			return "", false
		}
		c = byte(unhex(value[i+1])<<4 | unhex(value[i+2]))
		if unreserved(c) || value[i:i+3] != escape(c) {
			return "", false
		}
		i += 2
		if c == '/' {
			slashes++
		}
		if c == '/' || literal[c] {
			b.WriteByte(c)
		} else {
			b.WriteString(escape(c))
		}
	}
	return b.String(), slashes <= maxFolders
}

// valueOfPath reverses pathOfValue.
func valueOfPath(path string) string {
	var b strings.Builder
	b.Grow(len(path))
	for i := range len(path) {
		if c := path[i]; unreserved(c) || c == '%' { // of an escape
			b.WriteByte(c)
		} else {
			b.WriteString(escape(c))
		}
	}
	return b.String()
}
