package catalog

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"lockstep/resourcesync"
)

// ErrMark reports a Mark that is no point in the kept history of a set.
var ErrMark = errors.New("no mark in the history of the set")

// The rules every implementation shares.

// Check refuses what no catalog can hold: a name that is empty or has a NUL
// byte in it. Every other byte is allowed, also where it makes no URI.
func Check(set string, updates []Update) error {
	if set == "" || strings.IndexByte(set, 0) >= 0 {
		return fmt.Errorf("set %q: a name must not be empty or hold a NUL byte", set)
	}
	for i := range updates {
		if uri := updates[i].URI; uri == "" || strings.IndexByte(uri, 0) >= 0 {
			return fmt.Errorf("update %d, uri %q: a URI must not be empty or hold a NUL byte", i, uri)
		}
	}
	return nil
}

// SameContent reports whether b says the same of the content as a: the test
// by which Apply tells a change from a refreshment.
func SameContent(a, b *Record) bool {
	return a.Length == b.Length && a.Type == b.Type && a.Encoding == b.Encoding &&
		sameHashes(a.Hashes, b.Hashes) &&
		(len(a.Hashes) > 0 || a.Lastmod.UnixMicro() == b.Lastmod.UnixMicro())
}

func sameHashes(a, b resourcesync.Hashes) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] && b.Get(a[i].Algorithm) != a[i].Digest {
			return false
		}
	}
	return true
}

// FirstEvent returns the event time of the first of n changes made now, in
// microseconds; each further one is a microsecond later. last is the latest
// time given out before, by an event or a Mark. The n times end at now, so that
// they run ahead of the clock only where last already does.
func FirstEvent(now time.Time, last int64, n int) int64 {
	return max(last+1, now.UnixMicro()-int64(n)+1)
}
