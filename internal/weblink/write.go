package weblink

// Append appends a link to target, with parameters given as names and values in
// turn, to the value of a header or to a document, after a comma if b is not
// empty. Names must be valid; invalid characters of targets and values are
// escaped or omitted, so that no address can end its link.
func Append(b []byte, target string, params ...string) []byte {
	if len(b) > 0 {
		b = append(b, ", "...)
	}
	return AppendOne(b, target, params...)
}

// AppendOne is Append without a comma.
func AppendOne(b []byte, target string, params ...string) []byte {
	const hex = "0123456789ABCDEF"
	b = append(b, '<')
	for i := range len(target) {
		if c := target[i]; c <= ' ' || c >= 0x7f || c == '<' || c == '>' || c == '"' {
			b = append(b, '%', hex[c>>4], hex[c&15])
		} else {
			b = append(b, c)
		}
	}
	b = append(b, '>')
	for i := 0; i+1 < len(params); i += 2 {
		b = append(b, "; "...)
		b = append(b, params[i]...)
		b = append(b, `="`...)
		for j := range len(params[i+1]) {
			switch c := params[i+1][j]; {
			case c < ' ' || c == 0x7f: // not allowed in a header
			case c == '"' || c == '\\':
				b = append(b, '\\', c)
			default:
				b = append(b, c)
			}
		}
		b = append(b, '"')
	}
	return b
}
