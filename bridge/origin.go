package bridge

import (
	"context"
	"fmt"
	"io"
	"iter"
	"strings"

	"lockstep/catalog"
	"lockstep/destination"
	"lockstep/destination/filename"
	"lockstep/intake"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// A harvester brings the catalog of a memory up to date.
type harvester interface {
	// harvest is destination.Origin's Update.
	harvest(ctx context.Context, full bool) (more bool, err error)

	// status adds what the memory does not know.
	status(s *destination.OriginStatus)

	// open is destination.Origin's Open.
	open(ctx context.Context, uri string, h resourcesync.Hashes) (io.ReadCloser, error)

	// applied drops contents: all of them were applied.
	applied(ctx context.Context) error

	// maps is destination.PathMapper's Maps.
	maps() []filename.Map
}

// An origin is a destination.Origin that reads a catalog.
type origin struct {
	memory *memory
	harvester
}

// Update implements [destination.Origin].
func (o *origin) Update(ctx context.Context, full bool) (more bool, err error) {
	return o.harvest(ctx, full)
}

// Status implements [destination.Origin].
func (o *origin) Status(ctx context.Context) (destination.OriginStatus, error) {
	st, err := o.memory.catalog().Status(ctx, setName)
	s := destination.OriginStatus{ID: o.memory.ID, Seq: int64(st.Last), Kept: int64(st.Kept.Seq)}
	o.status(&s)
	return s, err
}

// Entries implements [destination.Origin].
func (o *origin) Entries(ctx context.Context) iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		for r, err := range o.memory.catalog().Resources(ctx, setName, catalog.Range{}) {
			if !yield(entryOf(&r), err) || err != nil {
				return
			}
		}
	}
}

// Find implements [destination.Finder].
func (o *origin) Find(ctx context.Context, uri string) (resourcesync.Entry, bool, error) {
	r, ok, err := catalog.Find(ctx, o.memory.catalog(), setName, uri)
	return entryOf(&r), ok, err
}

// Changes implements [destination.Origin].
func (o *origin) Changes(ctx context.Context, after int64) iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		for c, err := range o.memory.catalog().Changes(ctx, setName, catalog.Seq(after)) {
			e := entryOf(&c.Record)
			e.Change, e.Datetime = c.Change, resourcesync.NewDatetime(c.EventTime)
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// entryOf returns the entry of a resource as in a list.
func entryOf(r *catalog.Record) resourcesync.Entry {
	e := resourcesync.Entry{Loc: r.URI, Lastmod: resourcesync.NewDatetime(r.Lastmod)}
	e.Type, e.Encoding, e.Hashes, e.Links = r.Type, r.Encoding, r.Hashes, r.Links
	if r.Length >= 0 {
		e.Length, e.HasLength = r.Length, true
	}
	return e
}

// Open implements [destination.Origin].
func (o *origin) Open(ctx context.Context, uri string, h resourcesync.Hashes) (io.ReadCloser, error) {
	return o.open(ctx, uri, h)
}

// Applied implements [destination.Origin].
func (o *origin) Applied(ctx context.Context, changes, contents int64) error {
	cat := o.memory.catalog()
	st, err := cat.Status(ctx, setName)
	if err != nil {
		return err
	}
	if contents >= int64(st.Last) {
		if err := o.applied(ctx); err != nil {
			return err
		}
	}
	if changes <= int64(st.Kept.Seq) {
		return nil
	}
	for c, err := range cat.Changes(ctx, setName, catalog.Seq(changes-1)) {
		if err != nil {
			return err
		}
		return cat.Forget(ctx, setName, catalog.Mark{Seq: c.Seq, At: c.EventTime})
	}
	return nil // unreachable: applied contents exist until they are removed
}

// Maps implements [destination.PathMapper].
func (o *origin) Maps() []filename.Map { return o.maps() }

// Close implements [destination.Origin].
func (o *origin) Close() error { return o.memory.close() }

// broken returns an error about what could not be read, or nil if everything
// could.
func broken(ps *intake.Problems) error {
	if ps.Count == 0 {
		return nil
	}
	var all destination.Problems
	for _, p := range ps.First {
		all = append(all, problemError(p))
	}
	if n := ps.Count - int64(len(ps.First)); n > 0 {
		all = append(all, fmt.Errorf("and %d more could not be read", n))
	}
	return all
}

// problemError describes the problem and its location.
func problemError(p intake.Problem) error {
	if strings.Contains(p.Err.Error(), p.Path) {
		return p.Err
	}
	return fmt.Errorf("read %s: %w", fetch.Printable(p.Path), p.Err)
}

// warnings returns messages about skipped items.
func warnings(ps *intake.Problems) []string {
	var all []string
	for _, p := range ps.First {
		all = append(all, problemError(p).Error())
	}
	if n := ps.Count - int64(len(ps.First)); n > 0 {
		all = append(all, fmt.Sprintf("and %d more of this kind", n))
	}
	return all
}
