// Package catalog records the current resources of a set and every change to
// it, numbered.
//
// It is the only link between the code that fills a catalog (package intake)
// and the code that publishes it (package source). A change enters by
// [Catalog.Apply] and gets the next [Seq] of its set and an event time later
// than every one before. From then on a Source reads it as part of the current
// state ([Catalog.Resources]) or of the changes since some number
// ([Catalog.Changes]).
package catalog

import (
	"context"
	"iter"
	"time"

	"lockstep/resourcesync"
)

// Seq numbers the changes of one set: 1, 2, 3, … The catalog assigns them; they
// increase, and are never reused. 0 is before the first change.
type Seq int64

// A Record describes a resource.
type Record struct {
	URI       string
	Lastmod   time.Time // zero when unknown; stored to the microsecond
	Length    int64     // bytes; -1 when unknown
	Type      string    // media type, or ""
	Encoding  string    // content coding, or ""
	Hashes    resourcesync.Hashes
	Links     []resourcesync.Link  // to related resources (RS-REL-01), in order; Path is not stored
	Foreign   resourcesync.Foreign // attributes and elements of an entry in namespaces of a community (RS-XML-07)
	Token     string               // set by the intake to detect unchanged resources; opaque to the catalog
	Seq       Seq                  // of the resource's last change; assigned by the catalog
	EventTime time.Time            // of that change; assigned by the catalog
}

// An Update puts one resource or, with Deleted, deletes it. For a deletion only
// Record.URI is used.
type Update struct {
	Record
	Deleted bool
}

// A Change is one numbered event in the history of a set. The Record is the
// state after the change; for a deletion only URI, Seq and EventTime are set.
type Change struct {
	Record
	Change resourcesync.Change
}

// Applied counts the results of an Apply.
type Applied struct {
	Created, Updated, Deleted int
	Unchanged                 int // no change was numbered: the content was the same and the Record was refreshed, or an unknown resource was deleted
}

// A Range limits Resources to URIs with From <= URI < To in byte order; an
// empty bound means no bound.
type Range struct{ From, To string }

// A Mark is a point in the history of a set: every change up to Seq happened at
// or before At, every later one happens after At, even if the clock is set.
type Mark struct {
	Seq Seq
	At  time.Time
}

// Status describes a set.
type Status struct {
	Resources int64     // number of resources now
	Last      Seq       // number of the newest change
	LastTime  time.Time // no event is later than this; zero if there was none
	Kept      Mark      // Changes(after) is complete for after >= Kept.Seq, that is since Kept.At; zero before the first Mark
}

// A Catalog stores sets of resources, each with a name chosen by the caller (a Source uses the URI
// of the set's Capability List). A set exists from its first use.
//
// Every method is one transaction, durable when it returns. All methods are safe for concurrent
// use; one Apply at a time makes progress, and it does not block readers. Names of sets and URIs
// are any bytes but NUL, and not empty. A catalog may retain the slices and strings it is given;
// those it returns belong to the caller. Iterators stop after the first error, which they yield
// with a zero value, and see one state of the catalog from beginning to end.
type Catalog interface {
	// Apply applies the updates in order, all or none. An update whose content equals
	// the stored one (Length, Type, Encoding, Hashes, Foreign, and Links except patches and
	// mementos; without hashes on either side also Lastmod) refreshes Lastmod and
	// Token but is no change; nor is the deletion of an unknown URI. A memento link
	// stays with the content until such an update has another one, or [NoMemento]; a
	// change has the memento link of its update. Event times are microseconds,
	// strictly increasing within a set, never before those assigned or marked earlier
	// (RS-CHL-07).
	//
	// Before the first Mark of a set, changes are numbered but not stored for Changes:
	// no reader can have seen an earlier state.
	Apply(ctx context.Context, set string, updates []Update) (Applied, error)

	// Resources yields the resources in r, ordered by the bytes of their URIs.
	Resources(ctx context.Context, set string, r Range) iter.Seq2[Record, error]

	// Split yields the URIs that begin the second, third, … run of n resources:
	// bounds by which readers can share the work.
	Split(ctx context.Context, set string, n int) iter.Seq2[string, error]

	// Changes yields the changes numbered above after, in order.
	Changes(ctx context.Context, set string, after Seq) iter.Seq2[Change, error]

	// Refreshed yields the URIs of resources whose Lastmod or memento link an Apply
	// after m has refreshed without numbering a change, each once, in the order of
	// their bytes. Some of them may be gone since. It is complete for Marks that are not
	// before Status.Kept.
	Refreshed(ctx context.Context, set string, m Mark) iter.Seq2[string, error]

	// Mark marks the current point in history: it reads the clock and ensures that
	// no later change gets an event time at or before the Mark's.
	Mark(ctx context.Context, set string) (Mark, error)

	// Forget drops the changes up to and including m.Seq, which readers can no
	// longer request; Status.Kept becomes m. Forgetting them again does nothing. m
	// is a Mark of this set, or the Seq and EventTime of a stored change; anything
	// else is refused with [ErrMark].
	Forget(ctx context.Context, set string, m Mark) error

	// Status describes the set; a set that was never used has the zero Status.
	Status(ctx context.Context, set string) (Status, error)
}

// A LaterMarker is a Catalog that can mark a point in history which its clock has not reached.
type LaterMarker interface {
	// MarkAfter is [Catalog.Mark], with a Mark that is not before at.
	MarkAfter(ctx context.Context, set string, at time.Time) (Mark, error)
}

// MarkAfter marks the current point in the history of a set, as one that is not before at if c is
// a [LaterMarker].
func MarkAfter(ctx context.Context, c Catalog, set string, at time.Time) (Mark, error) {
	if later, ok := c.(LaterMarker); ok {
		return later.MarkAfter(ctx, set, at)
	}
	return c.Mark(ctx, set)
}
