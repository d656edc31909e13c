package source

import (
	"mime"
	"path"
	"strings"
)

// locate returns the path below the base URL that a request asks for: "" is
// the base URL itself. It takes the path as it was sent, and decodes it once.
// What cannot be the address of anything here is refused, never made into one:
// empty segments, dots, encoded slashes and NUL bytes. The directory of the
// documents is the page in it, as static servers have it. The well-known address
// and robots.txt are looked for at the origin (RS-DISC-02) and answer there
// too, whatever the base URL's path.
func (b base) locate(escaped string) (rel string, ok bool) {
	p, ok := strings.CutPrefix(escaped, "/")
	if !ok {
		return "", false
	}
	if dir, isDir := strings.CutSuffix(p, "/"); isDir || p == "" {
		dir, ok := decodePath(dir)
		if ok && dir+"/" == b.path+documentsDir {
			return hintName, true
		}
		return "", (ok || p == "") && (p == "" && b.path == "" || p != "" && dir+"/" == b.path)
	}
	if p, ok = decodePath(p); !ok {
		return "", false
	}
	if rel, ok := strings.CutPrefix(p, b.path); ok {
		return rel, true
	}
	return p, p == wellKnownName || p == robotsName
}

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
		segment, ok := decodeSegment(segment)
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

// decodeSegment decodes one segment, which may hold any byte a file name can.
func decodeSegment(s string) (string, bool) {
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
			hi, lo := unhex(s[i+1]), unhex(s[i+2])
			if hi > 15 || lo > 15 {
				return "", false
			}
			c = hi<<4 | lo
			if c == '/' {
				return "", false
			}
			i += 2
		}
		b.WriteByte(c)
	}
	return b.String(), plainSegment(b.String())
}

func plainSegment(s string) bool {
	return s != "" && s != "." && s != ".." && strings.IndexByte(s, 0) < 0
}

func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 255
}

func typeByExtension(rel string, _ []byte) string { return mime.TypeByExtension(path.Ext(rel)) }
