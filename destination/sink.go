package destination

import (
	"context"
	"io"

	"lockstep/destination/internal/apply"
	"lockstep/resourcesync"
)

// A Sink takes resources in place of files: a search index, a database, a
// queue. With a [SinkStore] over it a Destination keeps it in step with a
// Source and keeps no files; the Journal remembers what was delivered, so that
// the next run brings what changed since.
type Sink interface {
	// Apply takes the changes of a batch: what was created or updated with its
	// content, verified, and what was deleted. They are recorded as delivered
	// when it returns nil; if it returns an error the run stops with a
	// [SinkError].
	//
	// Each change is delivered at least once: after an error or a crash, all of
	// a batch may come again in the next run, as updates, or newer content in
	// its place, or a deletion of what never came. Of one resource, changes come
	// in order; between resources there is none.
	// Calls do not overlap. Nothing of the batch may be used after the return.
	Apply(ctx context.Context, batch []Delivery) error
}

// A Describer is a [Sink] that also takes changes of the media type or the links of
// resources whose content is the same: their Content is ContentSame. To other Sinks
// such a change comes with the next content.
type Describer interface {
	Sink

	// Describe takes such changes, under the conditions of Apply.
	Describe(ctx context.Context, batch []Change) error
}

// A Delivery is one change with its content.
type Delivery struct {
	Change  // its Path is the name that a file would have
	content rereadable
}

// A rereadable is content that can be read from its beginning more than once.
type rereadable interface {
	Reader() io.ReadSeeker
}

// Open returns the content of a resource that was created or updated, all of
// it; of one that was deleted there is none. It may be called repeatedly, and
// needs no closing.
func (d *Delivery) Open() io.ReadSeeker {
	if d.Kind == resourcesync.Deleted || d.content == nil {
		return io.NewSectionReader(nothing{}, 0, 0)
	}
	return d.content.Reader()
}

type nothing struct{}

func (nothing) ReadAt([]byte, int64) (int, error) { return 0, io.EOF }

// isForgetful reports whether the store keeps nothing.
func (d *Destination) isForgetful() bool {
	return apply.IsForgetful(d.store)
}
