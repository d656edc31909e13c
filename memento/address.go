package memento

import (
	"strings"
	"time"

	"lockstep/internal/weblink"
)

// The prefixes below a base URL that a Source with versions reserves. It can
// publish no resource below them.
const (
	VersionsPrefix = "versions/"
	TimeGatePrefix = "timegate/"
	TimeMapPrefix  = "timemap/"
)

// A Base builds the addresses of versions. It is a URL with a trailing slash.
//
// The addresses contain the URI of the resource unchanged, including its query
// (ME-TG-08); only bytes that are invalid in a URI, or would end one, are
// escaped.
type Base string

// Memento returns the URI-M of the version of the resource uri at that instant,
// with microseconds.
func (b Base) Memento(uri string, at time.Time) string {
	return b.memento(escape(uri), at)
}

func (b Base) memento(escaped string, at time.Time) string {
	return string(b) + VersionsPrefix + stamp(at) + "/" + escaped
}

// TimeGate returns the URI-G of the resource uri.
func (b Base) TimeGate(uri string) string { return string(b) + TimeGatePrefix + escape(uri) }

// TimeMap returns the URI-T of the resource uri, whose format is negotiated.
func (b Base) TimeMap(uri string) string { return string(b) + TimeMapPrefix + escape(uri) }

// Links returns the value of the Link field for the answer to a request for the
// resource uri itself, existing or deleted, if its versions are stored
// (ME-LK-02, ME-LK-03, ME-LK-07). It has no link original, and Accept-Datetime
// does not affect the answer (ME-LK-06).
func (b Base) Links(uri string) string {
	value := weblink.Append(nil, b.TimeGate(uri), "rel", "timegate")
	return string(weblink.Append(value, b.TimeMap(uri), "rel", "timemap", "type", LinkFormat))
}

// DoNotNegotiate is the value of a Link field for documents that have no
// versions, but are served with resources that do (ME-IM-02).
const DoNotNegotiate = `<http://mementoweb.org/terms/donotnegotiate>; rel="type"`

// Contains reports whether rel, a slash-separated path below a base URL, is an
// address that a Source with versions reserves.
func Contains(rel string) bool {
	for _, prefix := range []string{VersionsPrefix, TimeGatePrefix, TimeMapPrefix} {
		if strings.HasPrefix(rel, prefix) || rel+"/" == prefix {
			return true
		}
	}
	return false
}

const (
	stampSeconds = "20060102150405"
	stampMicros  = stampSeconds + ".000000"
)

// stamp formats an instant for a URI-M: with microseconds only if they are not
// zero.
func stamp(t time.Time) string {
	t = t.UTC().Truncate(time.Microsecond)
	if t.Nanosecond() == 0 {
		return t.Format(stampSeconds)
	}
	return t.Format(stampMicros)
}

// parseStamp parses exactly the output of stamp: a version has one URI-M.
func parseStamp(s string) (time.Time, bool) {
	layout := stampSeconds
	if len(s) > len(stampSeconds) {
		layout = stampMicros
	}
	t, err := time.Parse(layout, s)
	return t, err == nil && stamp(t) == s
}

// escape escapes bytes that are invalid in a URI, or would end it.
func escape(uri string) string {
	const hex = "0123456789ABCDEF"
	odd := 0
	for i := range len(uri) {
		if !inURI[uri[i]] {
			odd++
		}
	}
	if odd == 0 {
		return uri
	}
	b := make([]byte, 0, len(uri)+2*odd)
	for i := range len(uri) {
		if c := uri[i]; inURI[c] {
			b = append(b, c)
		} else {
			b = append(b, '%', hex[c>>4], hex[c&15])
		}
	}
	return string(b)
}

// inURI are the bytes that are valid in a URI and do not end it.
var inURI = func() (in [256]bool) {
	for c := byte('!'); c < 0x7f; c++ {
		in[c] = strings.IndexByte("\"<>\\^`{|}#", c) < 0
	}
	return in
}()
