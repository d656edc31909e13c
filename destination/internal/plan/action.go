// Package plan defines actions. An Action is the step for one resource that brings
// the mirror's copy into step with what the Source states.
package plan

import (
	"slices"
	"time"

	"lockstep/destination/internal/desired"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// Relations of links to the versions of a resource.
const (
	RelTimeGate = "timegate" // negotiates for versions (RS-REL-52)
	RelTimeMap  = "timemap"  // lists versions (RS-REL-53)
)

// A Verb is the kind of an action.
type Verb uint8

// Kinds of actions.
const (
	Skip    Verb = iota // nothing: the set does not have the resource
	InStep              // nothing: the resource is in step
	Touch               // record what the Source states; the content is right
	Fetch               // fetch the content
	Refuse              // report that the content must not be fetched
	Release             // record that this set no longer has the resource; another has
	Remove              // remove the resource, which no set has any more
	Defer               // fetch the content later: it stays pending
)

// An Action is the step that brings the mirror's copy of one URI into step with
// what the Source states.
type Action struct {
	desired.Resource
	Verb        Verb
	Held        journal.Held      // the row of the resource; zero if the mirror does not hold it
	Conditional bool              // the content may be the version held: make the request conditional
	Rehash      bool              // the stated hashes use other algorithms than the recorded ones: compute them from the file
	Unselected  bool              // the Source has the resource, but it is no longer selected
	FileMissing bool              // Fetch: the file that the Journal lists does not exist
	Moves       bool              // Fetch: the file at the resource's path is not the mirror's; the resource gets another path
	Place       string            // Fetch: the path of its file, which is being freed, or has the content that is to replace it; "": choose a free one
	From        string            // address of the content, if it is not the URI
	Cause       error             // Defer: the reason
	Stated      *desired.Resource // what the Source stated about the URI, if the content is another representation
	Preferred   bool              // that representation is preferred to the resource's own
	PackageRead bool              // its package was read and did not yield its content
	Uncertain   bool              // InStep: only as far as is known; a change that could not be read may say otherwise
	Redescribed bool              // Touch, Release: the Source states another media type or other links
}

// IsHeld reports whether there is a row for the action's resource.
func (a *Action) IsHeld() bool { return a.Held.URI != "" }

// NewHeld returns the row for content that was fetched for a.
func NewHeld(a *Action, set int, path string) journal.Held {
	h := journal.Held{URI: a.URI, Path: path, Lastmod: a.Lastmod.Time().Truncate(time.Microsecond), Sets: WithSet(a.Held.Sets, set)}
	if a.Lastmod.IsZero() {
		h.Lastmod = time.Time{}
	}
	Describe(&h, a, set)
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

// AsStated returns what the Source stated, even if another representation is
// fetched.
func (a *Action) AsStated() desired.Resource {
	if a.Stated != nil {
		return *a.Stated
	}
	return a.Resource
}

// Address returns the address of the content.
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

// WithSet returns sets with n added.
func WithSet(sets []int, n int) []int {
	if i, found := slices.BinarySearch(sets, n); !found {
		return slices.Insert(slices.Clone(sets), i, n)
	}
	return sets
}

// WithoutSet returns sets with n removed.
func WithoutSet(sets []int, n int) []int {
	if i, found := slices.BinarySearch(sets, n); found {
		return slices.Delete(slices.Clone(sets), i, i+1)
	}
	return sets
}
