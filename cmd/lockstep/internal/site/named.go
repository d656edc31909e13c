package site

import (
	"context"
	"sync"

	"lockstep/catalog"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
	"lockstep/source"
)

// A changeNamer names the resources of changes that were published.
type changeNamer struct {
	catalog catalog.Catalog
	io      term.IO

	mu    sync.Mutex             // guards the rest
	named map[string]catalog.Seq // by list: the changes up to that one
	begun map[string]bool        // lists of which nothing was named yet
}

func newChangeNamer(cat catalog.Catalog, io term.IO) *changeNamer {
	return &changeNamer{catalog: cat, io: io, named: map[string]catalog.Seq{}, begun: map[string]bool{}}
}

// begin has the changes of sets named that they have from now on.
func (n *changeNamer) begin(ctx context.Context, sets ...*siteSet) error {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, set := range sets {
		if _, ok := n.named[set.list]; ok {
			continue
		}
		status, err := n.catalog.Status(ctx, set.list)
		if err != nil {
			return err
		}
		n.named[set.list], n.begun[set.list] = status.Last, true
	}
	return nil
}

// published names the changes that a publication of sets has brought.
func (n *changeNamer) published(ctx context.Context, sets []*siteSet, r *source.Report) error {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range r.Sets {
		one := &r.Sets[i]
		for _, set := range sets {
			after := n.named[set.list]
			if n.begun[set.list] { // a run that was killed has not published all of its changes
				after = min(after, one.Seq-catalog.Seq(one.Changes))
			}
			if set.name != one.Set || one.Held || one.Seq <= after {
				continue
			}
			if err := n.name(ctx, set.list, after, one.Seq); err != nil {
				return err
			}
			n.named[set.list] = one.Seq
			delete(n.begun, set.list)
		}
	}
	return nil
}

// name names the changes of a set above one number, up to another.
func (n *changeNamer) name(ctx context.Context, list string, after, last catalog.Seq) error {
	status, err := n.catalog.Status(ctx, list)
	if err != nil {
		return err
	}
	if status.Kept.Seq > after { // as before the first publication
		for r, err := range n.catalog.Resources(ctx, list, catalog.Range{}) {
			if err != nil {
				return err
			}
			if r.Seq > after && r.Seq <= last {
				n.say("created", &r)
			}
		}
		return nil
	}
	for c, err := range n.catalog.Changes(ctx, list, after) {
		if err != nil || c.Seq > last {
			return err
		}
		switch c.Change {
		case resourcesync.Created:
			n.say("created", &c.Record)
		case resourcesync.Deleted:
			c.Length = -1
			n.say("deleted", &c.Record)
		default:
			n.say("updated", &c.Record)
		}
	}
	return nil
}

func (n *changeNamer) say(done string, r *catalog.Record) {
	n.io.Resource(term.Resource{Done: done, URI: fetch.Printable(fetch.WithoutUser(r.URI)), Length: r.Length})
}
