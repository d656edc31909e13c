package names

import (
	"strconv"
	"strings"
)

// decodePath decodes the segments of a path.
func decodePath(p string) (string, bool) {
	if !strings.ContainsRune(p, '%') {
		for segment := range strings.SplitSeq(p, "/") {
			if !plainSegment(segment) {
				return "", false
			}
		}
		return p, true
	}
	var b strings.Builder
	for segment := range strings.SplitSeq(p, "/") {
		segment, ok := DecodeSegment(segment)
		if !ok {
			return "", false
		}
		if b.Len() > 0 {
			b.WriteByte('/')
		}
		b.WriteString(segment)
	}
	return b.String(), true
}

// DecodeSegment decodes one segment, which may contain any byte that a file name
// can.
func DecodeSegment(s string) (string, bool) {
	if strings.IndexByte(s, '%') < 0 {
		return s, plainSegment(s)
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '%' {
			if i+2 >= len(s) {
				return "", false
			}
			decoded, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
			if err != nil || decoded == '/' {
				return "", false
			}
			c = byte(decoded)
			i += 2
		}
		b.WriteByte(c)
	}
	return b.String(), plainSegment(b.String())
}

func plainSegment(s string) bool {
	return s != "" && s != "." && s != ".." && strings.IndexByte(s, 0) < 0
}
