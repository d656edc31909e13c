// Package desired describes the desired state of resources, as the entries of the
// Source's documents state it, and its encoding: in the scratch space of a run, and
// in the Journal while it is pending.
package desired

import (
	"time"

	"lockstep/destination/internal/content"
	"lockstep/resourcesync"
)

// A Resource is the state that one entry of the Source's documents states for one
// URI, and that the mirror should have.
type Resource struct {
	URI             string
	Gone            bool // the entry states a deletion
	Change          resourcesync.Change
	Lastmod         resourcesync.Datetime
	Length          int64 // -1 when not stated
	Hashes          resourcesync.Hashes
	Type            string
	Coding          string              // content coding
	Instead         string              // of a resource that is Gone: URI of the representation that the mirror has instead
	Refused         string              // why it must not be fetched; empty if it may be
	Links           []resourcesync.Link // the links that a Destination uses
	Member          Member              // location of its content in a package; zero: not stated
	ManifestPackage int                 // number of the package whose manifest contains this entry; zero: none
	Applied         bool                // it was applied earlier in this run
	Unconfirmed     bool                // stated only by a notification so far, by none of the Source's documents

	NotBefore time.Time // of pending work: when its server may be asked again; zero: any time
	Transient bool      // of pending work: it failed in this run for a transient reason

	MainURI string // of a further representation of a record in a feed: URI of the first representation
	Excused bool   // of pending work: it was already reported that the server does not have it

	Undescribed bool // the entry is not the Source's, or a version of the program wrote it that left out links: Type and Links state nothing
	Companion   bool // a selected resource names it in a link of a relation that is selected with it

	Foreign resourcesync.Foreign // what the entry has in namespaces of a community
	Patches []Patch              // chain of patches that produces it; not encoded
	Rank
}

// Description returns the description of the content.
func (w *Resource) Description() content.Description {
	return content.Description{URI: w.URI, Length: w.Length, Hashes: w.Hashes}
}

// A Member is the location of content in a package.
type Member struct {
	Package int    // number of the package in the reading of the dump, from 1; zero: none
	Path    string // as stated in the manifest
}

// A Patch is one step of a chain of patches: it turns one version of a resource
// into the next.
type Patch struct {
	From     resourcesync.Hashes // of the version that it applies to; none if not stated
	FromHeld bool                // the mirror holds that version unless From contradicts it
	Length   int64               // of the version that it produces; -1 if not stated
	Link     resourcesync.Link   // to the patch
	Member   Member              // location of the patch in a package; zero: none
}

// A Rank determines which of several entries for one URI prevails.
type Rank struct {
	Class    Class
	Doc      int   // number of the document within this reading
	Pos      int64 // position of the entry in it
	Nth      int   // number among the entries of that document with the same statement
	Event    resourcesync.Datetime
	Modified resourcesync.Datetime
}

// Event and Modified are the two candidates for the time of an event: datetime, and
// lastmod for documents without a single datetime. Which of them counts is
// only known at the end of the document (RS-EM-07), so both are kept. Entries
// without a time have that of their predecessor (RS-CHL-11).

// A Class is the kind of document that an entry comes from. A higher class is more
// recent evidence.
type Class uint8

const (
	Pending Class = iota + 1 // from an earlier run
	Packed                   // from a manifest: its package has content that the prevailing entry may turn out to describe; it never prevails itself
	Listed                   // from a Resource List, or the manifests of a Resource Dump read in place of one
	Changed                  // from a Change List, or the manifests of a Change Dump read in place of one
	Marked                   // from a link of another resource: it says only that the resource is a Companion
)

// SameLastmod reports whether the stated time equals the one recorded, at the
// granularity of the stated time.
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
