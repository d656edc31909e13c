package destination

import (
	"context"

	"lockstep/destination/internal/representation"
	"lockstep/resourcesync"
)

// A Finder is an Origin some of whose resources are representations of the same
// record, each at a URI of its own: the first has rel="alternate" links to the
// others, these a rel="canonical" link to the first (RS-REL-21). Of each record
// one is kept.
type Finder interface {
	// Find returns what there is now at a URI; it reports whether there is anything.
	// It may be called by several goroutines, also while Entries or Changes are read.
	Find(ctx context.Context, uri string) (resourcesync.Entry, bool, error)
}

// newChooser returns what chooses among the representations of a record.
func newChooser(r *setRun) *representation.Chooser {
	c := &representation.Chooser{Reader: r.reader}
	if f, ok := r.origin.(Finder); ok {
		c.Finder = f
	}
	return c
}
