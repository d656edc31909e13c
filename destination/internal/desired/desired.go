// Package desired describes what the Source states of its resources, entry by
// entry, and how such a statement is stored: in the scratch space of a run, and
// in the Journal as long as it is pending.
package desired

import (
	"time"

	"lockstep/destination/internal/content"
	"lockstep/resourcesync"
)

// A Resource is what one entry of the Source states of one URI: the state the
// mirror should have.
type Resource struct {
	URI             string
	Gone            bool // the entry states a deletion
	Change          resourcesync.Change
	Lastmod         resourcesync.Datetime
	Length          int64 // -1 when not stated
	Hashes          resourcesync.Hashes
	Type            string
	Coding          string              // content coding
	Instead         string              // of a resource that is Gone: the URI of the representation that the mirror has in its place
	Refused         string              // why it must not be fetched; empty if it may be
	Links           []resourcesync.Link // those that a Destination uses
	Member          Member              // where its content is in a package; zero if not stated
	ManifestPackage int                 // number of the package whose manifest has this entry; zero if no manifest has it
	Applied         bool                // it was applied earlier in this run
	Unconfirmed     bool                // only a notification states it so far, none of the Source's documents

	NotBefore time.Time // of pending work: when its server may be asked again; zero if at any time
	Transient bool      // of pending work: it failed in this run for a transient reason

	MainURI string // of a further representation of a record in a feed: the URI of the first
	Excused bool   // of pending work: that the server does not have it was already reported

	Patches []Patch // the chain of patches that makes it; not encoded
	Rank
}

// Description returns what is stated of the content.
func (w *Resource) Description() content.Description {
	return content.Description{URI: w.URI, Length: w.Length, Hashes: w.Hashes}
}

// A Member is a place in a package.
type Member struct {
	Package int    // its number in the reading of the dump, from 1; zero: none
	Path    string // as the manifest has it
}

// A Patch is one link of a chain of patches: what turns one version of a
// resource into the next.
type Patch struct {
	From     resourcesync.Hashes // of the version it starts from; none if not stated
	FromHeld bool                // the mirror holds that version unless From contradicts it
	Length   int64               // of the version it makes; -1 if not stated
	Link     resourcesync.Link   // to the patch
	Member   Member              // where the patch is in a package; zero: in none
}

// A Rank determines which of several entries for one URI prevails.
type Rank struct {
	Class    Class
	Doc      int   // number of the document within this reading
	Pos      int64 // of the entry in it
	Nth      int   // among the entries of that document that state the same
	Event    resourcesync.Datetime
	Modified resourcesync.Datetime
}

// Event and Modified are the two candidates for the time of an event: datetime, and
// lastmod for documents without a single datetime. Which of them counts is
// only known at the end of the document (RS-EM-07), so both are kept. Entries
// without a time have that of their predecessor (RS-CHL-11).

// A Class is the kind of document that an entry is from. A higher class is more
// recent evidence.
type Class uint8

const (
	Pending Class = iota + 1 // from an earlier run
	Packed                   // from a manifest: a package has content that the prevailing entry may turn out to describe; it never prevails itself
	Listed                   // from a Resource List, or the manifests of a Resource Dump read in place of one
	Changed                  // from a Change List, or the manifests of a Change Dump read in place of one
)

// SameLastmod reports whether the stated time is the one held, at the stated
// granularity.
func SameLastmod(held time.Time, stated resourcesync.Datetime) bool {
	if held.IsZero() || stated.IsZero() {
		return false
	}
	t := stated.Time()
	if held.Equal(t.Truncate(time.Microsecond)) {
		return true
	}
	switch held = held.UTC(); stated.Granularity() {
	case resourcesync.Minute:
		return held.Truncate(time.Minute).Equal(t)
	case resourcesync.Day:
		return held.Truncate(24 * time.Hour).Equal(t)
	case resourcesync.Month:
		return held.Year() == t.Year() && held.Month() == t.Month()
	case resourcesync.Year:
		return held.Year() == t.Year()
	}
	return false
}
