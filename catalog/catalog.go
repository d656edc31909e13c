// Package catalog is what a set of resources holds now, and every change to
// it, numbered.
//
// What fills a catalog (package intake) and what publishes it (package source)
// meet here and nowhere else. A change enters by [Catalog.Apply], gets the next
// [Seq] of its set and an event time later than every one before; from there on
// a Source reads it as part of what is now ([Catalog.Resources]) or of what
// changed since some number ([Catalog.Changes]).
package catalog

import (
	"context"
	"iter"
	"time"

	"lockstep/resourcesync"
)

// Seq numbers the changes of one set: 1, 2, 3, … Numbers come from the
// catalog, rise, and are never reused. 0 is before the first change.
type Seq int64

// A Record is what the catalog knows of a resource.
type Record struct {
	URI       string
	Lastmod   time.Time // zero when unknown; kept to the microsecond
	Length    int64     // bytes; -1 when unknown
	Type      string    // media type, or ""
	Encoding  string    // content coding, or ""
	Hashes    resourcesync.Hashes
	Links     []resourcesync.Link // to related resources (RS-REL-01), in order; Path is not kept
	Token     string              // the intake's own mark, by which it sees that nothing changed; opaque here
	Seq       Seq                 // of the resource's last change; assigned by the catalog
	EventTime time.Time           // of that change; assigned by the catalog
}

// An Update asks for one resource to be put or, with Deleted, to be gone.
// Of a deletion only Record.URI counts.
type Update struct {
	Record
	Deleted bool
}

// A Change is one numbered event in the life of a set. The Record is the state
// after the change; of a deletion only URI, Seq and EventTime are set.
type Change struct {
	Record
	Change resourcesync.Change
}

// Applied counts what an Apply came to.
type Applied struct {
	Created, Updated, Deleted int
	Unchanged                 int // no change numbered: same content, the Record was refreshed; or a deletion of what is not there
}

// A Range bounds a reading of Resources: From <= URI < To in byte order; an
// empty bound is none.
type Range struct{ From, To string }

// A Mark is a point in the history of a set: every change up to Seq happened
// at or before At, every later one happens after At, whatever the clock does.
type Mark struct {
	Seq Seq
	At  time.Time
}

// Status describes a set.
type Status struct {
	Resources int64     // how many there are now
	Last      Seq       // number of the newest change
	LastTime  time.Time // no event is later than this; zero if there was none
	Kept      Mark      // Changes(after) is complete for after >= Kept.Seq, that is since Kept.At; zero before the first Mark
}

// A Catalog keeps sets of resources, each named by a string of the caller's
// choosing (a Source uses the URI of the set's Capability List). A set exists
// from its first use.
//
// Every method is one transaction, durable when it returns. All are safe for
// concurrent use; one Apply at a time makes progress, readers are not blocked by
// it. Names of sets and URIs are any bytes but NUL, and not empty. Slices and
// strings handed in may be kept; those handed out are the caller's. Iterators stop after the first error, which they yield with a zero
// value, and see one state of the catalog from begin to end.
type Catalog interface {
	// Apply makes the updates true, in order, all or none. An update equal in
	// content (Length, Type, Encoding, Hashes, and Links but for patches and mementos;
	// without hashes on either side also Lastmod) to what is there refreshes Lastmod
	// and Token but is no change; nor is the deletion of an unknown URI. A memento
	// link stays with the content until such an update has another, or [NoMemento];
	// a change has the one its update has. Event times are
	// microseconds, strictly rising within a set, never before those given out
	// or marked earlier (RS-CHL-07).
	//
	// Before the first Mark of a set changes are numbered but not kept for
	// Changes: nobody can have seen an earlier state.
	Apply(ctx context.Context, set string, updates []Update) (Applied, error)

	// Resources yields the resources in r, ordered by the bytes of their URIs.
	Resources(ctx context.Context, set string, r Range) iter.Seq2[Record, error]

	// Split yields the URIs that begin the second, third, … run of n
	// resources: the bounds by which readers can share the work.
	Split(ctx context.Context, set string, n int) iter.Seq2[string, error]

	// Changes yields the changes numbered above after, in order.
	Changes(ctx context.Context, set string, after Seq) iter.Seq2[Change, error]

	// Mark takes a point in history: it reads the clock and sees to it that no
	// later change gets an event time at or before the Mark's.
	Mark(ctx context.Context, set string) (Mark, error)

	// Forget drops the changes up to and including m.Seq, which a reader can
	// no longer ask for; Status.Kept becomes m. Forgetting what is forgotten
	// does nothing. m is a Mark of this set, or the Seq and EventTime of a
	// change it keeps; anything else is refused with [ErrMark].
	Forget(ctx context.Context, set string, m Mark) error

	// Status describes the set; a set that was never used has the zero Status.
	Status(ctx context.Context, set string) (Status, error)
}
