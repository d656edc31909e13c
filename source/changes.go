package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/resourcesync"
)

// boundary is how long after its last event an interval ends. Events have
// whole microseconds, so none lies on a boundary: whether a reader takes the
// ends of intervals as open or closed makes no difference (RS-AMB-05).
const boundary = 500 * time.Nanosecond

// A changeBuild takes a Change List off the catalog.
type changeBuild struct {
	*Source
	set     string
	stamp   time.Time
	ended   []blob.Writer // parts to be committed after the entry document
	refused int64
	bytes   int64
}

// run brings st, the Change List as it is published, up to the catalog's
// present: one open document while the changes fit, else an index over closed
// parts and an open one. Closed parts that are published are left as they are
// (RS-CHL-06).
//
// The parts returned are to be committed in their order, that of RS-CHI-06:
// first the one that is now open, then those that are now closed; after them
// the entry document. A reader sees at worst an overlap, never a gap.
func (b *changeBuild) run(ctx context.Context, st *changeState) (parts []blob.Writer, entry blob.Writer, err error) {
	entry, err = b.single(ctx, st)
	if errors.Is(err, resourcesync.ErrTooLarge) {
		parts, entry, err = b.split(ctx, st)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("build change list: %w", err)
	}
	return parts, entry, nil
}

// single writes all changes into one open document, if they fit it. Older
// readers know no other form.
func (b *changeBuild) single(ctx context.Context, st *changeState) (blob.Writer, error) {
	if len(st.Closed) > 0 {
		return nil, resourcesync.ErrTooLarge
	}
	entry, last, err := b.list(ctx, changeListName(b.set), b.header(st.Open.From, time.Time{}, false), st.Open.After, 0)
	if err != nil {
		return nil, err
	}
	if st.Open.Name != "" { // There was an index. Who follows its open part must learn that it ends, as it is.
		w, _, err := b.close(ctx, st.Open, catalog.Mark{Seq: st.Through, At: st.ThroughTime})
		if err != nil {
			_ = entry.Close() // nothing of it is wanted
			return nil, err
		}
		b.ended = append(b.ended, w)
		st.Open.Name = ""
	}
	st.Through, st.ThroughTime = last.Seq, last.At
	return entry, nil
}

// split goes on writing the open part, closes it when it is full and begins
// the next one, and writes the index (RS-CHI-01).
func (b *changeBuild) split(ctx context.Context, st *changeState) (_ []blob.Writer, _ blob.Writer, err error) {
	var parts []blob.Writer // oldest first
	defer func() {
		if err != nil {
			discard(parts)
		}
	}()
	if st.Open.Name == "" {
		st.Open.Name = changeListPartName(b.set, st.Open.From)
	}
	for {
		w, last, err := b.list(ctx, st.Open.Name, b.header(st.Open.From, time.Time{}, true), st.Open.After, 0)
		if err == nil {
			parts = append(parts, w)
			st.Through, st.ThroughTime = last.Seq, last.At
			break
		}
		if !errors.Is(err, resourcesync.ErrTooLarge) || last.Seq == st.Open.After {
			return nil, nil, err
		}
		w, part, err := b.close(ctx, st.Open, last)
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, w)
		st.Closed = append(st.Closed, part)
		st.Open = openPart{Name: changeListPartName(b.set, part.Until), From: part.Until, After: part.Last} // RS-CHI-05
	}
	slices.Reverse(parts)
	index, err := b.index(ctx, st)
	return parts, index, err
}

// close writes the final form of a part that ends with last. Should that not
// fit, for until takes some bytes, the part ends earlier.
func (b *changeBuild) close(ctx context.Context, p openPart, last catalog.Mark) (blob.Writer, closedPart, error) {
	for {
		until := p.From
		if last.Seq > p.After {
			until = last.At.Add(boundary)
		}
		w, got, err := b.list(ctx, p.Name, b.header(p.From, until, true), p.After, last.Seq)
		if errors.Is(err, resourcesync.ErrTooLarge) && got.Seq > p.After {
			last = got
			continue
		}
		return w, closedPart{Name: p.Name, From: p.From, Until: until, Last: last.Seq}, err
	}
}

// list writes the changes above after, up to upto or, if that is 0, all. It
// returns the last one written, also with ErrTooLarge: what comes next belongs
// in another document. Event times rise, so the order is right (RS-CHL-03) and
// no two entries are of the same instant (RS-CHL-07).
func (b *changeBuild) list(ctx context.Context, name string, h resourcesync.Header, after, upto catalog.Seq) (blob.Writer, catalog.Mark, error) {
	last := catalog.Mark{Seq: after}
	d, err := b.begin(ctx, name, h, b.stamp)
	if err != nil {
		return nil, last, err
	}
	describe := b.describer(b.set)
	var e resourcesync.Entry
	for c, err := range b.catalog.Changes(ctx, b.capabilityList(b.set), after) {
		if err == nil && upto > 0 && c.Seq > upto {
			break
		}
		if err == nil {
			describe.event(&e, &c)
			err = d.add(&e)
		}
		if err != nil {
			d.discard()
			return nil, last, err
		}
		last = catalog.Mark{Seq: c.Seq, At: c.EventTime}
	}
	if err := d.Close(); err != nil {
		d.discard()
		return nil, last, err
	}
	b.refused += d.refused
	b.bytes += d.Bytes()
	return d.blob, last, nil
}

func (b *changeBuild) index(ctx context.Context, st *changeState) (blob.Writer, error) {
	h := b.header(st.From, time.Time{}, false)
	h.Index = true
	d, err := b.begin(ctx, changeListName(b.set), h, b.stamp)
	if err != nil {
		return nil, err
	}
	add := func(name string, from, until time.Time) {
		if err == nil {
			err = d.Write(&resourcesync.Entry{Loc: b.base.uri(name), Metadata: resourcesync.Metadata{
				From: resourcesync.NewDatetime(from), Until: resourcesync.NewDatetime(until), // RS-CHI-04
			}})
		}
	}
	for _, p := range st.Closed {
		add(p.Name, p.From, p.Until)
	}
	add(st.Open.Name, st.Open.From, time.Time{})
	if err == nil {
		err = d.Close()
	}
	if err != nil {
		d.discard()
		return nil, fmt.Errorf("index of %d parts: %w", len(st.Closed)+1, err)
	}
	b.bytes += d.Bytes()
	return d.blob, nil
}

func (b *changeBuild) header(from, until time.Time, part bool) resourcesync.Header {
	h := resourcesync.Header{
		Capability: resourcesync.ChangeList,
		From:       resourcesync.NewDatetime(from),
		Until:      resourcesync.NewDatetime(until),
		Links:      []resourcesync.Link{{Rel: "up", Href: b.capabilityList(b.set)}}, // RS-CHL-01
	}
	if part {
		h.Links = append(h.Links, resourcesync.Link{Rel: "index", Href: b.base.uri(changeListName(b.set))})
	}
	return h
}

// trim moves the beginning of st forward over changes that nobody needs any
// more, those before cutoff: whole parts, or single changes of a document that
// has no parts (RS-CHI-07).
func (b *changeBuild) trim(ctx context.Context, st *changeState, cutoff time.Time) error {
	for len(st.Closed) > 0 && !st.Closed[0].Until.After(cutoff) {
		st.After, st.From = st.Closed[0].Last, st.Closed[0].Until
		st.Closed = st.Closed[1:]
	}
	if st.Open.Name != "" {
		return nil
	}
	for c, err := range b.catalog.Changes(ctx, b.capabilityList(b.set), st.After) {
		if err != nil {
			return fmt.Errorf("build change list: %w", err)
		}
		until := c.EventTime.Add(boundary)
		if until.After(cutoff) {
			break
		}
		st.After, st.From = c.Seq, until
	}
	st.Open.After, st.Open.From = st.After, st.From
	return nil
}

// names returns the parts of the list.
func (st *changeState) names() []string {
	if st == nil || st.Open.Name == "" {
		return nil
	}
	var names []string
	for _, p := range st.Closed {
		names = append(names, p.Name)
	}
	return append(names, st.Open.Name)
}

// uncut returns a list of the same changes that is to be cut into parts anew.
// They come out as they were, for where a part ends depends on its beginning
// and the catalog alone.
func (st *changeState) uncut() *changeState {
	c := *st
	c.Closed = nil
	c.Open = openPart{From: st.From, After: st.After}
	return &c
}

func discard(ws []blob.Writer) {
	for _, w := range ws {
		_ = w.Close() // nothing of it is wanted
	}
}
