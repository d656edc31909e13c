package lists

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source/internal/document"
	"lockstep/source/internal/names"
)

// A listBuild takes a Resource List off the catalog.
type listBuild struct {
	owner    *Lists
	docs     *document.Store
	catalog  catalog.Catalog
	set      Set
	mark     catalog.Mark
	gen      string
	archived bool   // lists have an archive
	copy     string // name under which the entry document stays as it is, for an archive; empty: it does not
	stamp    time.Time
	entries  atomic.Int64
	refused  atomic.Int64
	bytes    atomic.Int64
	number   atomic.Int64 // highest part number given out

	mu    sync.Mutex // guards what follows
	open  []blob.Writer
	names []string

	twin blob.Writer // of the copy
}

// run writes the list of all resources as of the mark (RS-RL-08): parts, which
// it commits, and the entry document, which it leaves to be committed last. The
// copy of that it commits as well: no document names it yet.
// Entries are ordered by URI, so the order is the same every time (RS-RL-09).
//
// Changes made while it runs may be in it or not; they are in the Change List
// (RS-MD-02). No completed is given in lists, whose header is written first.
func (b *listBuild) run(ctx context.Context) (*listState, blob.Writer, error) {
	defer b.discardTwin()
	var bounds []string
	for bound, err := range b.catalog.Split(ctx, b.docs.CapabilityList(b.set.Name), b.docs.MaxEntries) {
		if err != nil {
			return nil, nil, fmt.Errorf("build resource list: %w", err)
		}
		bounds = append(bounds, bound)
	}
	entry, err := b.single(ctx, bounds)
	if errors.Is(err, resourcesync.ErrTooLarge) {
		entry, err = b.split(ctx, bounds)
	}
	if err == nil && b.twin != nil {
		if err = b.docs.Commit(ctx, b.twin); err != nil {
			_ = entry.Close() // nothing of it is wanted
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("build resource list: %w", err)
	}
	return &listState{At: b.mark.At, Seq: b.mark.Seq, Resources: b.entries.Load(), Parts: b.names, Copy: b.copy}, entry, nil
}

// beginEntry begins the entry document and the copy of it.
func (b *listBuild) beginEntry(ctx context.Context, h resourcesync.Header) (*document.Writer, error) {
	b.discardTwin() // of an attempt before
	if b.copy == "" {
		return b.docs.Begin(ctx, names.Set(b.set.Name).ResourceList(), h, b.stamp)
	}
	w, err := b.docs.Create(ctx, b.copy)
	if err != nil {
		return nil, err
	}
	w.SetModTime(b.stamp)
	b.twin = w
	return b.docs.BeginTo(ctx, names.Set(b.set.Name).ResourceList(), h, b.stamp, func(entry io.Writer) io.Writer { return io.MultiWriter(entry, w) })
}

func (b *listBuild) discardTwin() {
	if b.twin != nil {
		_ = b.twin.Close() // does nothing where it was committed
	}
}

// single writes the list as one document, if the resources fit it.
func (b *listBuild) single(ctx context.Context, bounds []string) (blob.Writer, error) {
	if len(bounds) > 0 {
		return nil, resourcesync.ErrTooLarge
	}
	d, err := b.beginEntry(ctx, b.header(false))
	if err != nil {
		return nil, err
	}
	describe := b.set.Rules.Describer()
	var e resourcesync.Entry
	for r, err := range b.catalog.Resources(ctx, b.docs.CapabilityList(b.set.Name), catalog.Range{}) {
		if err == nil {
			describe.Resource(&e, &r)
			err = d.Add(&e)
		}
		if err != nil {
			d.Discard()
			return nil, err
		}
	}
	return b.finish(d)
}

// split writes the list as parts, in parallel, and an index over them
// (RS-IDX-02).
func (b *listBuild) split(ctx context.Context, bounds []string) (blob.Writer, error) {
	defer func() {
		for _, w := range b.open {
			_ = w.Close() // does nothing where it was committed
		}
	}()
	b.number.Store(int64(len(bounds)) + 1)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(b.owner.opts.Workers)
	from := ""
	for i, to := range append(bounds, "") {
		r := catalog.Range{From: from, To: to}
		g.Go(func() error { return b.writeRange(gctx, r, int64(i)+1) })
		from = to
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if err := b.docs.Commit(ctx, b.open...); err != nil {
		return nil, err
	}
	slices.Sort(b.names)
	return b.index(ctx)
}

// writeRange writes the resources in r as part number. Should they not fit,
// for their bytes or because there are more by now, more parts are begun.
func (b *listBuild) writeRange(ctx context.Context, r catalog.Range, number int64) error {
	var d *document.Writer
	var e resourcesync.Entry
	describe := b.set.Rules.Describer()
	for rec, err := range b.catalog.Resources(ctx, b.docs.CapabilityList(b.set.Name), r) {
		if err == nil && d == nil {
			d, err = b.docs.Begin(ctx, names.Set(b.set.Name).ResourceListPart(b.gen, int(number)), b.header(true), b.stamp)
		}
		if err == nil {
			describe.Resource(&e, &rec)
			err = d.Add(&e)
		}
		if errors.Is(err, resourcesync.ErrTooLarge) && d.Entries() > 0 {
			if err = b.part(ctx, d); err == nil {
				number = b.number.Add(1)
				d, err = b.docs.Begin(ctx, names.Set(b.set.Name).ResourceListPart(b.gen, int(number)), b.header(true), b.stamp)
			}
			if err == nil {
				err = d.Add(&e)
			}
		}
		if err != nil {
			if d != nil {
				d.Discard()
			}
			return err
		}
	}
	if d == nil {
		return nil // all that was here is gone
	}
	return b.part(ctx, d)
}

// part finishes a part; commits those gathered when there are enough.
func (b *listBuild) part(ctx context.Context, d *document.Writer) error {
	w, err := b.finish(d)
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.names = append(b.names, w.Name())
	b.open = append(b.open, w)
	var full []blob.Writer
	if len(b.open) >= document.CommitParts {
		full, b.open = b.open, nil
	}
	b.mu.Unlock()
	if full == nil {
		return nil
	}
	defer func() {
		for _, w := range full {
			_ = w.Close() // does nothing where it was committed
		}
	}()
	return b.docs.Commit(ctx, full...)
}

func (b *listBuild) finish(d *document.Writer) (blob.Writer, error) {
	if err := d.Close(); err != nil {
		d.Discard()
		return nil, err
	}
	b.entries.Add(int64(d.Entries()))
	b.refused.Add(d.Refused)
	b.bytes.Add(d.Bytes())
	return d.Blob, nil
}

func (b *listBuild) index(ctx context.Context) (blob.Writer, error) {
	h := b.header(false)
	h.Index = true
	d, err := b.beginEntry(ctx, h)
	if err != nil {
		return nil, err
	}
	for _, name := range b.names {
		e := resourcesync.Entry{Loc: b.docs.Base.URI(name), Metadata: resourcesync.Metadata{At: h.At}} // RS-RLI-03
		if err := d.Write(&e); err != nil {
			d.Discard()
			return nil, fmt.Errorf("%d parts: %w", len(b.names), err) // RS-IDX-04: one level is all there is
		}
	}
	if err := d.Close(); err != nil {
		d.Discard()
		return nil, err
	}
	b.bytes.Add(d.Bytes())
	return d.Blob, nil
}

func (b *listBuild) header(part bool) resourcesync.Header {
	h := resourcesync.Header{
		Capability: resourcesync.ResourceList,
		At:         resourcesync.NewDatetime(b.mark.At),
		Links:      []resourcesync.Link{{Rel: "up", Href: b.docs.CapabilityList(b.set.Name)}}, // RS-RL-02
	}
	if b.archived {
		h.Links = append(h.Links, b.docs.ArchivesLink(b.set.Name, resourcesync.ResourceList))
	}
	if part {
		index := names.Set(b.set.Name).ResourceList()
		if b.copy != "" {
			index = b.copy // RA-AMB-08
		}
		h.Links = append(h.Links, resourcesync.Link{Rel: "index", Href: b.docs.Base.URI(index)}) // RS-IDX-05
	}
	return h
}
