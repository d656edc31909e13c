package oaipmh

import (
	"lockstep/intake/internal/pathname"
	"net/url"
	"strings"
)

// recordSuffix ends the path of a record, which is an XML document.
const recordSuffix = ".xml"

// RecordName is the name of the file in which a record can lie: the identifier and
// .xml. Slashes stay where no empty or dot segment, and no name of a Source's own,
// comes of it; others become %2F, and % becomes %25. Two identifiers never have
// the same name.
func RecordName(identifier string) string {
	segments := strings.Split(strings.ReplaceAll(identifier, "%", "%25"), "/")
	var b strings.Builder
	for i, s := range segments {
		if i > 0 {
			last := i == len(segments)-1 // and becomes a name by its suffix
			if plainSegment(segments[i-1], i == 1) && (last || plainSegment(s, false)) {
				b.WriteByte('/')
			} else {
				b.WriteString("%2F")
			}
		}
		b.WriteString(s)
	}
	b.WriteString(recordSuffix)
	return b.String()
}

// plainSegment reports whether s can stand before or between slashes; first, if
// nothing stands before it.
func plainSegment(s string, first bool) bool {
	switch s {
	case "", ".", "..", pathname.StateDir:
		return false
	case ".well-known", "resourcesync", "-": // a Source's own
		return !first
	}
	return true
}

// RecordPath is the path of a record below the URI of its set: [RecordName],
// percent-encoded.
func RecordPath(identifier string) string {
	segments := strings.Split(RecordName(identifier), "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return strings.Join(segments, "/")
}
