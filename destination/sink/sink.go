// Package sink delivers the resources of a Source to a program in place of files: a
// search index, a database, a queue. A [Store] over the program's [Sink] takes the
// place of the directory of a mirror. Package destination offers all of these names as
// its own.
package sink

import (
	"context"
	"io"

	"lockstep/destination/report"
	"lockstep/resourcesync"
)

// A Sink receives resources in place of files: a search index, a database, a queue.
// With a [Store] over it, a Destination keeps the Sink in step with a Source and
// stores no files; the Journal records what was delivered, so that the next run
// delivers what has changed since.
type Sink interface {
	// Apply receives the changes of a batch: created and updated resources with
	// their verified content, and deletions. They are recorded as delivered
	// when it returns nil; if it returns an error the run stops with a
	// [report.SinkError].
	//
	// Each change is delivered at least once: after an error or a crash, the next
	// run may deliver a batch again as updates, or newer content in its place, or
	// the deletion of a resource that was never delivered. The changes of one
	// resource are in order; those of different resources are not.
	// Calls do not overlap. The batch must not be used after the return.
	Apply(ctx context.Context, batch []Delivery) error
}

// A Describer is a [Sink] that also takes changes of the media type or the links of
// resources whose content is the same: their Content is ContentSame. To other Sinks
// such a change comes with the next content.
type Describer interface {
	Sink

	// Describe takes such changes, under the conditions of Apply. With
	// [Options.DescriptionsOnly] it also takes created and updated resources, whose
	// Content is ContentReplaced.
	Describe(ctx context.Context, batch []report.Change) error
}

// A Delivery is one change with its content.
type Delivery struct {
	report.Change // its Path is the name that a file would have
	content       rereadable
}

// A rereadable is content that can be read from its beginning more than once.
type rereadable interface {
	Reader() io.ReadSeeker
}

// Open returns the whole content of a resource that was created or updated, and no
// content for one that was deleted. It may be called repeatedly, and the result needs
// no closing.
func (d *Delivery) Open() io.ReadSeeker {
	if d.Kind == resourcesync.Deleted || d.content == nil {
		return io.NewSectionReader(nothing{}, 0, 0)
	}
	return d.content.Reader()
}

type nothing struct{}

func (nothing) ReadAt([]byte, int64) (int, error) { return 0, io.EOF }
