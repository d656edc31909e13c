package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/resourcesync"
)

// ErrMark reports a Mark that is not a point in the stored history of a set.
var ErrMark = errors.New("no mark in the history of the set")

// Rules that every implementation shares.

// Check returns an error for what no catalog can hold: a name that is empty or
// has a NUL byte in it. Every other byte is allowed, even if it is invalid in a
// URI.
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

// SameContent reports whether a and b describe the same content: by this test
// Apply distinguishes a change from a refresh.
func SameContent(a, b *Record) bool {
	return a.Length == b.Length && a.Type == b.Type && a.Encoding == b.Encoding && a.Foreign == b.Foreign &&
		sameHashes(a.Hashes, b.Hashes) && sameLinks(a.Links, b.Links) &&
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

// sameLinks compares links in their order. It ignores patches: each belongs to
// the change that brought it, not to the resource. It also ignores mementos:
// they locate a stored copy of this same content.
func sameLinks(a, b []resourcesync.Link) bool {
	for {
		a, b = skipBeside(a), skipBeside(b)
		if len(a) == 0 || len(b) == 0 {
			return len(a) == len(b)
		}
		if !sameLink(&a[0], &b[0]) {
			return false
		}
		a, b = a[1:], b[1:]
	}
}

func sameLink(x, y *resourcesync.Link) bool {
	return x.Rel == y.Rel && x.Href == y.Href && x.Type == y.Type && x.Encoding == y.Encoding && x.Pri == y.Pri &&
		x.Length == y.Length && x.HasLength == y.HasLength && x.Foreign == y.Foreign && x.Modified.Compare(y.Modified) == 0 && sameHashes(x.Hashes, y.Hashes)
}

func skipBeside(links []resourcesync.Link) []resourcesync.Link {
	for len(links) > 0 && (links[0].Rel == resourcesync.RelPatch || links[0].Rel == resourcesync.RelMemento) {
		links = links[1:]
	}
	return links
}

// NoMemento returns a link that an update contains to remove the memento link
// of its resource. It is never stored.
func NoMemento() resourcesync.Link { return resourcesync.Link{Rel: resourcesync.RelMemento} }

// Memento returns the memento link among links, or nil. RS-REL-51: there is at
// most one; of several the first is used.
func Memento(links []resourcesync.Link) *resourcesync.Link {
	i := slices.IndexFunc(links, isMemento)
	if i < 0 {
		return nil
	}
	return &links[i]
}

func isMemento(l resourcesync.Link) bool { return l.Rel == resourcesync.RelMemento }

// Settle removes from links what is only an instruction to Apply: [NoMemento]. It
// does not modify what links points to.
func Settle(links []resourcesync.Link) []resourcesync.Link {
	if m := Memento(links); m == nil || m.Href != "" {
		return links
	}
	return slices.DeleteFunc(slices.Clone(links), func(l resourcesync.Link) bool { return isMemento(l) && l.Href == "" })
}

// Refresh updates now from an update that is equal in content, and reports
// whether now changed: Lastmod and Token become those of the update. So does the
// memento link, if the update has one; with [NoMemento] it is removed; otherwise
// it remains. Refresh does not modify what now.Links points to.
func Refresh(now, update *Record) (changed bool) {
	if now.Token != update.Token || now.Lastmod.UnixMicro() != update.Lastmod.UnixMicro() {
		now.Token, now.Lastmod, changed = update.Token, update.Lastmod, true
	}
	said := Memento(update.Links)
	if said == nil {
		return changed
	}
	is := Memento(now.Links)
	if is == nil && said.Href == "" || is != nil && sameLink(is, said) {
		return changed
	}
	now.Links = slices.DeleteFunc(slices.Clone(now.Links), isMemento)
	if said.Href != "" {
		now.Links = append(now.Links, *said)
	}
	return true
}

// Restated reports whether a Refresh, which made after of before, has changed what
// documents state of the resource: its Lastmod or its memento link.
func Restated(before, after *Record) bool {
	a, b := Memento(before.Links), Memento(after.Links)
	return before.Lastmod.UnixMicro() != after.Lastmod.UnixMicro() || (a == nil) != (b == nil) || a != nil && !sameLink(a, b)
}

// FirstEvent returns the event time of the first of n changes made now, in
// microseconds; each further one is a microsecond later. last is the latest
// time assigned before, by an event or a Mark. The n times end at now, so that
// they are ahead of the clock only if last already is.
func FirstEvent(now time.Time, last int64, n int) int64 {
	return max(last+1, now.UnixMicro()-int64(n)+1)
}
