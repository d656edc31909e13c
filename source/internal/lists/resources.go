package lists

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source/internal/document"
	"lockstep/source/internal/names"
	"lockstep/source/internal/sections"
)

// A listBuild takes a Resource List off the catalog. If it has a base, which is the
// list that is published, the new list shares with that the parts of which no
// resource has changed. Their at is that of the list they were written for, and the
// list's own at is the earliest of all its parts (RS-RLI-03). That it stays within
// the Change List, and that each list has a later one than the list before
// (RS-RL-13), is why some more parts are written again, see listBuild.due.
type listBuild struct {
	owner     *Lists
	docs      *document.Store
	catalog   catalog.Catalog
	set       Set
	mark      catalog.Mark
	low       time.Time // earliest possible at
	gen       string
	resources int64      // in the set, about
	base      *listState // list whose unchanged parts are shared; nil: all parts are written
	there     sizes
	archived  bool   // lists have an archive
	copy      string // name under which the entry document stays as it is, for an archive; empty: it does not
	stamp     time.Time
	refused   atomic.Int64
	bytes     atomic.Int64
	number    atomic.Int64 // highest part number given out
	at        []time.Time  // of the parts that are written, by their numbers

	mu       sync.Mutex // guards what follows
	open     []blob.Writer
	sections []sections.Section

	twin blob.Writer // of the copy
}

// newListBuild returns the build of a list of the present.
func newListBuild(ctx context.Context, p *publication) (*listBuild, error) {
	mark, err := p.catalog.Mark(ctx, p.docs.CapabilityList(p.set.Name))
	if err != nil {
		return nil, err
	}
	b := &listBuild{owner: p.owner, docs: p.docs, catalog: p.catalog, set: p.set, mark: mark, stamp: p.next.Stamp, resources: p.status.Resources,
		gen: names.Set(p.set.Name).Generation(mark.At, takenNames(p)), archived: p.archives.lists != nil, there: p.there}
	if p.archives.takes(mark.At, p.newHistory) {
		b.copy = names.Set(p.set.Name).ResourceListCopy(b.gen)
	}
	before, kept, from := p.state.latestList(), p.status.Kept, p.next.Changes.From
	if before != nil && !p.newHistory && !p.back && b.continues(before, kept.Seq, from) {
		b.base = before
	}
	b.low, err = b.lowest(ctx, before, kept, from)
	return b, err
}

// takenNames yields the names of the set's documents, and one of the list that is being written
// in the background: it may have no parts yet.
func takenNames(p *publication) iter.Seq[string] {
	return func(yield func(string) bool) {
		if b := p.owner.building[p.set.Name]; b != nil && !yield(names.Set(p.set.Name).ResourceListCopy(b.list.gen)) {
			return
		}
		maps.Keys(p.there)(yield)
	}
}

// continues reports whether parts of the list before can be parts of this one: the
// catalog, which has the changes above kept, knows what has changed since, its at is
// covered by the Change List, which begins at from, and its parts would be written alike.
// A copy for an archive has parts of its own, which stay as long as it does.
func (b *listBuild) continues(before *listState, kept catalog.Seq, from time.Time) bool {
	taken := before.taken().Seq
	return len(before.Sections) > 0 && b.copy == "" && before.Archived == b.archived && before.Rules == b.set.Rules.Mark &&
		taken >= kept && taken <= b.mark.Seq && !before.At.Before(from)
}

// lowest returns the earliest at that the parts can have: it is covered by the Change List,
// which begins at from, no change happens between it and the mark, and it is later than
// that of the list before (RS-RL-13).
func (b *listBuild) lowest(ctx context.Context, before *listState, kept catalog.Mark, from time.Time) (low time.Time, err error) {
	low = from
	if before != nil && !before.At.Before(low) {
		low = before.At.Add(time.Nanosecond)
	}
	last := kept.At
	if b.mark.Seq > kept.Seq {
		last, err = eventTime(ctx, b.catalog, b.docs.CapabilityList(b.set.Name), b.mark.Seq)
	}
	if last.After(low) {
		low = last
	}
	return low, err
}

// run writes the list of all resources as of the mark (RS-RL-08): parts, which
// it commits, and the entry document, which it leaves to be committed last. The
// copy of that it commits as well: no document names it yet.
// Entries are ordered by URI, so the order is the same every time (RS-RL-09).
//
// Changes made while it runs may be in it or not; they are in the Change List
// (RS-MD-02). Lists whose header is written first give no completed; an index does,
// because its parts may be of different times.
func (b *listBuild) run(ctx context.Context) (*listState, blob.Writer, error) {
	defer b.discardTwin()
	list, entry, err := b.write(ctx)
	if err == nil && b.twin != nil {
		if err = b.docs.Commit(ctx, b.twin); err != nil {
			_ = entry.Close() // nothing of it is wanted
		}
	}
	if err != nil {
		b.drop(ctx)
		return nil, nil, fmt.Errorf("build resource list: %w", err)
	}
	if list.Copy = b.copy; list.Seq != b.mark.Seq || !list.At.Equal(b.mark.At) {
		list.Taken = document.Mark(b.mark)
	}
	return list, entry, nil
}

// dropTime limits how long removing the parts of a list that is not published may take.
const dropTime = 5 * time.Second

// drop removes what was committed of a list that is not going to be published, so that it takes
// no room until a later publication removes it. No document names it, and no state.
func (b *listBuild) drop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTime)
	defer cancel()
	var parts []string
	for i := range b.sections {
		if name := b.sections[i].Name; b.owns(name) {
			parts = append(parts, name)
		}
	}
	if b.copy != "" {
		parts = append(parts, b.copy)
	}
	if len(parts) == 0 {
		return
	}
	if err := b.docs.Remove(ctx, parts...); err != nil {
		b.docs.Log.InfoContext(ctx, "parts of a resource list that is not published are removed later", slog.String("set", b.set.Name), slog.Any("err", err))
	}
}

// owns reports whether a document is a part of this list that it does not share with the base.
func (b *listBuild) owns(name string) bool {
	return names.CopyOfPart(name) == names.Set(b.set.Name).ResourceListCopy(b.gen)
}

// write writes the list as one document, if the resources fit it, otherwise as parts
// and an index.
func (b *listBuild) write(ctx context.Context) (*listState, blob.Writer, error) {
	if runs, err := b.shared(ctx); err != nil || runs != nil {
		if err != nil {
			return nil, nil, err
		}
		return b.split(ctx, runs)
	}
	var bounds []string
	for bound, err := range b.catalog.Split(ctx, b.docs.CapabilityList(b.set.Name), b.docs.MaxEntries) {
		if err != nil {
			return nil, nil, err
		}
		bounds = append(bounds, bound)
	}
	if len(bounds) == 0 {
		list, entry, err := b.single(ctx)
		if !errors.Is(err, resourcesync.ErrTooLarge) {
			return list, entry, err
		}
	}
	return b.split(ctx, sections.Whole(bounds, b.limits()))
}

func (b *listBuild) limits() sections.Limits {
	return sections.Limits{Entries: b.docs.MaxEntries, Bytes: b.docs.MaxBytes}
}

// shared returns the runs of a list that shares parts with its base; nil if there is
// no base, the resources may fit one document, or an index may not have room for so
// many parts.
func (b *listBuild) shared(ctx context.Context) ([]sections.Run, error) {
	if b.base == nil {
		return nil, nil
	}
	var size int64
	for i := range b.base.Sections {
		size += b.base.Sections[i].Bytes
	}
	if b.resources <= int64(b.docs.MaxEntries) && size <= b.docs.MaxBytes {
		return nil, nil
	}
	tally := sections.NewTally(b.base.Sections)
	for c, err := range b.catalog.Changes(ctx, b.docs.CapabilityList(b.set.Name), b.base.taken().Seq) {
		if err != nil {
			return nil, err
		}
		if c.Seq > b.mark.Seq {
			break
		}
		tally.Change(c.URI, c.Change)
	}
	for uri, err := range b.catalog.Refreshed(ctx, b.docs.CapabilityList(b.set.Name), b.base.taken()) {
		if err != nil {
			return nil, err
		}
		tally.Change(uri, resourcesync.Updated)
	}
	tally.Again(b.due)
	runs := tally.Runs(b.limits())
	if all, _ := sections.Pieces(runs); all > mostParts {
		return nil, nil
	}
	return runs, nil
}

// mostParts is up to how many parts a list shares some with the one before. A list that
// is written as a whole has fewer parts: all but the last are full.
const mostParts = resourcesync.MaxEntries * 3 / 4

// behindShare is by which share of its resources a set has changed, at most, since a part
// of its Resource List was taken: a reader of the list reads these changes as well. For a
// set of up to tinySet resources times that it is tinySet changes.
const behindShare = 5

// due reports whether the i-th part of the base is written again although none of its
// resources is known to have changed: its document is not as it was written; no part is
// earlier, so that the at of the list moves on (RS-RL-13); or it is so far behind that
// readers of the list would have to read more of the Change List than is good, or than
// there is (RS-RLI-04). That far is different for each part, so that not all are due
// together: between half of the limits and all.
func (b *listBuild) due(i int, s *sections.Section) bool {
	if size, ok := b.there[s.Name]; !ok || size != s.Bytes || !s.At.After(b.base.At) {
		return true
	}
	age := float64(b.docs.Now().Sub(s.At)) / float64(b.set.Keep)
	behind := float64(b.mark.Seq-s.Seq) / float64(max(tinySet, b.resources/behindShare))
	return 2*max(age, behind) >= 1+float64(i)/float64(len(b.base.Sections))
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
func (b *listBuild) single(ctx context.Context) (*listState, blob.Writer, error) {
	at := b.instant()
	d, err := b.beginEntry(ctx, b.header(at, false))
	if err != nil {
		return nil, nil, err
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
			return nil, nil, err
		}
	}
	if err := b.finish(d); err != nil {
		return nil, nil, err
	}
	return &listState{At: at, Seq: b.mark.Seq, Resources: int64(d.Entries())}, d.Blob, nil
}

// instant returns the at of a list that is of one instant: that of the mark, or later
// where the list before is of that instant, too (RS-RL-13).
func (b *listBuild) instant() time.Time { return sections.Instants(b.low, b.mark.At, 1)[0] }

// split writes the list as parts, in parallel, and an index over them
// (RS-IDX-02).
func (b *listBuild) split(ctx context.Context, runs []sections.Run) (*listState, blob.Writer, error) {
	defer func() {
		for _, w := range b.open {
			_ = w.Close() // does nothing where it was committed
		}
	}()
	_, written := sections.Pieces(runs)
	if b.at = sections.Instants(b.low, b.mark.At, written); b.copy != "" {
		b.at = slices.Repeat([]time.Time{b.instant()}, written)
	}
	b.number.Store(int64(written))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(b.owner.opts.Workers)
	next := 1
	for i := range runs {
		r, number := &runs[i], next
		if r.Keep != nil {
			b.mu.Lock()
			b.sections = append(b.sections, *r.Keep)
			b.mu.Unlock()
			b.refused.Add(r.Keep.Refused)
			continue
		}
		next += r.Pieces
		g.Go(func() error { return b.writeRun(gctx, r, number) })
	}
	if err := g.Wait(); err != nil {
		return nil, nil, err
	}
	if err := b.docs.Commit(ctx, b.open...); err != nil {
		return nil, nil, err
	}
	if len(b.sections) == 0 {
		return b.single(ctx) // all resources are gone
	}
	sort.SliceStable(b.sections, func(i, j int) bool { return b.sections[i].First < b.sections[j].First })
	b.sections[0].First = "" // what was before it is gone
	return b.index(ctx)
}

// writeRun writes the resources of r as parts, numbered from number. Should they not
// fit, for their bytes or because there are more by now, there are more parts.
func (b *listBuild) writeRun(ctx context.Context, r *sections.Run, number int) error {
	var d *document.Writer
	var s sections.Section
	var e resourcesync.Entry
	describe := b.set.Rules.Describer()
	pieces := 0
	for rec, err := range b.catalog.Resources(ctx, b.docs.CapabilityList(b.set.Name), r.Range) {
		if err == nil && d != nil && d.Entries() >= r.Each && pieces < r.Pieces {
			err = b.part(ctx, d, &s)
			d = nil
		}
		if err == nil && d == nil {
			if s.First = sections.Bound(rec.URI); pieces == 0 {
				s.First = sections.Bound(r.Range.From)
			}
			d, err = b.beginPart(ctx, &s, number, r.Pieces, &pieces)
		}
		if err == nil {
			describe.Resource(&e, &rec)
			err = d.Add(&e)
		}
		if errors.Is(err, resourcesync.ErrTooLarge) && d.Entries() > 0 {
			if err = b.part(ctx, d, &s); err == nil {
				s.First = sections.Bound(rec.URI)
				d, err = b.beginPart(ctx, &s, number, r.Pieces, &pieces)
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
	return b.part(ctx, d, &s)
}

// beginPart begins the next part of a run, the numbers of which begin with number: one of
// the planned ones, or a further one. It completes s, except for what the end of the part
// shows.
func (b *listBuild) beginPart(ctx context.Context, s *sections.Section, number, planned int, pieces *int) (*document.Writer, error) {
	number += *pieces
	if *pieces >= planned {
		number = int(b.number.Add(1))
	}
	*pieces++
	s.At = b.at[min(number, len(b.at))-1]
	s.Name, s.Seq, s.Written = names.Set(b.set.Name).ResourceListPart(b.gen, number), b.mark.Seq, b.stamp
	return b.docs.Begin(ctx, s.Name, b.header(s.At, true), b.stamp)
}

// part finishes a part, the section s; commits those gathered when there are enough. A
// part without entries, because no document can state its resources, is dropped.
func (b *listBuild) part(ctx context.Context, d *document.Writer, s *sections.Section) error {
	if err := b.finish(d); err != nil {
		return err
	}
	if s.Entries, s.Bytes, s.Refused = d.Entries(), d.Bytes(), d.Refused; s.Entries == 0 {
		d.Discard()
		return nil
	}
	b.mu.Lock()
	b.sections = append(b.sections, *s)
	b.open = append(b.open, d.Blob)
	err := document.SealParts(b.open)
	var full []blob.Writer
	if err == nil && len(b.open) >= document.CommitParts {
		full, b.open = b.open, nil
	}
	b.mu.Unlock()
	if full == nil {
		return err
	}
	defer func() {
		for _, w := range full {
			_ = w.Close() // does nothing where it was committed
		}
	}()
	return b.docs.Commit(ctx, full...)
}

func (b *listBuild) finish(d *document.Writer) error {
	if err := d.Close(); err != nil {
		d.Discard()
		return err
	}
	b.refused.Add(d.Refused)
	b.bytes.Add(d.Bytes())
	return nil
}

// index writes the index of the parts.
func (b *listBuild) index(ctx context.Context) (*listState, blob.Writer, error) {
	completed, err := b.catalog.Mark(ctx, b.docs.CapabilityList(b.set.Name))
	if err != nil {
		return nil, nil, err
	}
	first, last := sections.Earliest(b.sections), completed.At
	for i := range b.sections {
		if at := b.sections[i].At; at.After(last) {
			last = at
		}
	}
	list := &listState{At: first.At, Seq: first.Seq, Sections: b.sections}
	h := b.header(first.At, false)
	h.Index, h.Completed = true, resourcesync.NewDatetime(last)
	d, err := b.beginEntry(ctx, h)
	if err != nil {
		return nil, nil, err
	}
	for i := range b.sections {
		s := &b.sections[i]
		list.Parts = append(list.Parts, s.Name)
		list.Resources += int64(s.Entries)
		e := resourcesync.Entry{Loc: b.docs.Base.URI(s.Name), Lastmod: resourcesync.NewDatetime(s.Written), Metadata: resourcesync.Metadata{At: resourcesync.NewDatetime(s.At)}} // RS-RLI-02, RS-RLI-03
		if err := d.Write(&e); err != nil {
			d.Discard()
			return nil, nil, fmt.Errorf("%d parts: %w", len(b.sections), err) // RS-IDX-04: one level is all there is
		}
	}
	if err := d.Close(); err != nil {
		d.Discard()
		return nil, nil, err
	}
	b.bytes.Add(d.Bytes())
	return list, d.Blob, nil
}

func (b *listBuild) header(at time.Time, part bool) resourcesync.Header {
	h := resourcesync.Header{
		Capability: resourcesync.ResourceList,
		At:         resourcesync.NewDatetime(at),
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
