// Package plan says what to do about a resource: an Action closes the gap between what
// the Source states of it and what the mirror holds.
package plan

import (
	"slices"
	"time"

	"lockstep/destination/internal/desired"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// Relations of links to what leads to the versions of a resource.
const (
	RelTimeGate = "timegate" // negotiates for versions (RS-REL-52)
	RelTimeMap  = "timemap"  // lists versions (RS-REL-53)
)

// A Verb says what an action does.
type Verb uint8

// The verbs.
const (
	Skip    Verb = iota // nothing: the set does not have the resource
	InStep              // nothing: the resource is in step
	Touch               // record what the Source states; the content is right
	Fetch               // fetch the content
	Refuse              // report that the content must not be fetched
	Release             // record that this set no longer has the resource; another has
	Remove              // remove the resource, which no set has any longer
	Defer               // fetch the content later: it stays pending
)

// An Action closes the gap between what the Source states of one URI and what the
// mirror holds.
type Action struct {
	desired.Resource
	Verb        Verb
	Held        journal.Held      // zero when it is not held
	Conditional bool              // the content may be what we hold: ask with its validators
	Rehash      bool              // the stated hashes are of other algorithms than are recorded: compute them from the file that is held
	Unselected  bool              // the Source has it, but it is not selected any more
	FileMissing bool              // Fetch: the file that the Journal lists does not exist
	Moves       bool              // Fetch: the file at its path is not ours; it gets another path
	Place       string            // Fetch: the place of its file, which is being made free; "": one that is
	From        string            // where the content is, if not at the URI
	Cause       error             // Defer: why
	Stated      *desired.Resource // what the Source stated of the URI, if the content is another representation
	Preferred   bool              // and it is one that is preferred to the resource's own
	PackageRead bool              // its package was read, and did not yield its content
}

// IsHeld reports whether there is a row for the action's resource.
func (a *Action) IsHeld() bool { return a.Held.URI != "" }

// NewHeld returns the row for content that was fetched for a.
func NewHeld(a *Action, set int, path string) journal.Held {
	h := journal.Held{URI: a.URI, Path: path, Lastmod: a.Lastmod.Time().Truncate(time.Microsecond), Sets: WithSet(a.Held.Sets, set)}
	if a.Lastmod.IsZero() {
		h.Lastmod = time.Time{}
	}
	return h
}

// KindOf returns the kind of change that an event reports for the action.
func KindOf(a *Action) resourcesync.Change {
	switch {
	case a.Verb == Remove:
		return resourcesync.Deleted
	case a.IsHeld():
		return resourcesync.Updated
	}
	return resourcesync.Created
}

// HasMemento reports whether the Source names a memento of the desired version.
func (a *Action) HasMemento() bool {
	return slices.ContainsFunc(a.Links, func(l resourcesync.Link) bool { return l.Rel == resourcesync.RelMemento })
}

// AsStated returns what the Source stated, also where another representation is
// fetched.
func (a *Action) AsStated() desired.Resource {
	if a.Stated != nil {
		return *a.Stated
	}
	return a.Resource
}

// Address returns where the content is.
func (a *Action) Address() string {
	if a.From != "" {
		return a.From
	}
	return a.URI
}

// HasSet reports whether n is among the sets of a row.
func HasSet(sets []int, n int) bool {
	for _, s := range sets {
		if s == n {
			return true
		}
	}
	return false
}

// WithSet returns the sets of a row that set n also has.
func WithSet(sets []int, n int) []int {
	if i, found := slices.BinarySearch(sets, n); !found {
		return slices.Insert(slices.Clone(sets), i, n)
	}
	return sets
}

// WithoutSet returns the sets of a row that set n no longer has.
func WithoutSet(sets []int, n int) []int {
	if i, found := slices.BinarySearch(sets, n); found {
		return slices.Delete(slices.Clone(sets), i, i+1)
	}
	return sets
}
