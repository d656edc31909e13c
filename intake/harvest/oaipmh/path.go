package oaipmh

import (
	"lockstep/intake/internal/pathname"
	"net/url"
	"strings"
)

// recordSuffix ends the path of a record, which is an XML document.
const recordSuffix = ".xml"

// RecordName returns a file name for a record: the identifier and .xml. A slash is
// kept where it creates neither an empty or dot segment nor a name reserved for a
// Source's own documents; other slashes become %2F, and % becomes %25. Different
// identifiers have different names.
func RecordName(identifier string) string {
	segments := strings.Split(strings.ReplaceAll(identifier, "%", "%25"), "/")
	var b strings.Builder
	for i, s := range segments {
		if i > 0 {
			last := i == len(segments)-1 // any last segment is a valid name with its suffix
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

// plainSegment reports whether s can be a path segment that is followed by a slash;
// first says that it is the first one.
func plainSegment(s string, first bool) bool {
	switch s {
	case "", ".", "..", pathname.StateDir:
		return false
	case ".well-known", "resourcesync", "-": // paths of a Source's own documents
		return !first
	}
	return true
}

// RecordPath returns the path of a record below the URI of its set: [RecordName],
// percent-encoded.
func RecordPath(identifier string) string {
	segments := strings.Split(RecordName(identifier), "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return strings.Join(segments, "/")
}
