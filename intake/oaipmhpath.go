package intake

import (
	"net/url"
	"strings"
)

// recordSuffix ends the path of a record, which is an XML document.
const recordSuffix = ".xml"

// RecordPath is the path of a record below the URI of its set, escaped: the
// identifier, percent-encoded but for what stands for itself in a path, and
// .xml. Slashes stay where no empty or dot segment comes of it. Two identifiers
// never have the same path.
func RecordPath(identifier string) string {
	var b strings.Builder
	segments := strings.Split(identifier, "/")
	for i, s := range segments {
		if i > 0 {
			if plainSegment(segments[i-1], i == 1) && plainSegment(s, false) || i == len(segments)-1 && plainSegment(segments[i-1], i == 1) {
				b.WriteByte('/')
			} else {
				b.WriteString("%2F")
			}
		}
		b.WriteString(strings.ReplaceAll(url.PathEscape(s), "+", "%2B"))
	}
	b.WriteString(recordSuffix)
	return b.String()
}

// plainSegment reports whether s can stand between slashes; first, if what comes
// before it is the URI of the set.
func plainSegment(s string, first bool) bool {
	switch s {
	case "", ".", "..":
		return false
	case ".well-known", "resourcesync", "-", ".lockstep": // a Source's own
		return !first
	}
	return true
}

// RecordIdentifier reads what [RecordPath] made; ok is false for any other path.
func RecordIdentifier(path string) (identifier string, ok bool) {
	s, err := url.PathUnescape(strings.TrimSuffix(path, recordSuffix))
	if err != nil || RecordPath(s) != path {
		return "", false
	}
	return s, true
}
