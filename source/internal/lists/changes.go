package lists

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source/internal/document"
	"lockstep/source/internal/names"
)

// A changeBuild builds the Change List of a set from the catalog: one open document
// while the changes fit, otherwise an index of closed parts and an open one
// (RS-CHI-01). It writes new documents and leaves the others unchanged; what it writes
// is visible only after it is committed.
type changeBuild struct {
	owner    *Lists
	docs     *document.Store
	catalog  catalog.Catalog
	set      Set
	stamp    time.Time
	archived bool         // Change Lists have an archive
	prev     *changeState // the list that readers may be reading; nil: none
	unsure   bool         // the documents may be those of prev or of an interrupted publication
	there    sizes

	closed  []blob.Writer // parts that are now closed, oldest first
	open    blob.Writer   // the open part, or the only document; nil: it is unchanged
	index   blob.Writer   // nil: it is unchanged
	ended   blob.Writer   // the formerly open part of an index that is being removed
	shown   catalog.Seq   // readers may have seen the changes up to it, in the parts where they are
	refused int64
	bytes   int64
}

// run extends st, the published Change List, up to the change numbered last. Published
// closed parts stay unchanged (RS-CHL-06).
func (b *changeBuild) run(ctx context.Context, st *changeState, last catalog.Seq) error {
	b.shown = st.Through
	err := b.restore(ctx, st)
	for err == nil {
		upto := b.cut(st, last)
		if upto == 0 {
			upto, err = b.writeOpen(ctx, st, last)
			if err == nil {
				break
			}
			if !errors.Is(err, resourcesync.ErrTooLarge) || upto == st.Open.After {
				break
			}
		}
		if err = errLook; b.there != nil {
			err = b.close(ctx, st, upto)
		}
	}
	if err == nil {
		err = b.finish(ctx, st)
	}
	if err != nil {
		b.discard()
		return fmt.Errorf("build change list: %w", err)
	}
	return nil
}

// discard closes the documents that were not committed.
func (b *changeBuild) discard() {
	for _, w := range slices.Concat(b.closed, []blob.Writer{b.open, b.index, b.ended}) {
		if w != nil {
			_ = w.Close() // its content is not needed
		}
	}
}

// restore writes closed parts again that do not exist, or may not exist. Where each of
// them ends is in st.
func (b *changeBuild) restore(ctx context.Context, st *changeState) error {
	after := st.After
	for _, p := range st.Closed {
		known := b.prev != nil && slices.ContainsFunc(b.prev.Closed, func(o closedPart) bool { return o.Name == p.Name })
		if !b.there.has(p.Name) || b.unsure && !known {
			w, _, _, err := b.list(ctx, p.Name, b.header(p.From, p.Until, true), after, p.Last)
			if err != nil {
				return fmt.Errorf("part %s: %w", p.Name, err)
			}
			b.closed = append(b.closed, w)
			if err := document.SealParts(b.closed); err != nil {
				return err
			}
		}
		after = p.Last
	}
	return nil
}

// cut returns the change with which the open part must end because it has reached its
// size or age or costs too much; 0 if it can grow.
func (b *changeBuild) cut(st *changeState, last catalog.Seq) catalog.Seq {
	if limit := catalog.Seq(b.owner.partEntries(b.set, st)); last-st.Open.After > limit {
		return max(st.Open.After+limit, min(b.shown, st.Open.After+catalog.Seq(b.docs.MaxEntries)))
	}
	if last > st.Open.After && (b.owner.old(b.set, st) || b.owner.costly(b.set, st)) {
		return last
	}
	return 0
}

// indexedPart is how many changes a part has by default once there is an index: the open
// part is written, and read, from its beginning each time. Without an index a document
// has as many as allowed, because older clients do not read an index.
const indexedPart = 10_000

// manyParts is from how many parts on each has as many changes as allowed: an index has
// room for resourcesync.MaxEntries.
const manyParts = 40_000

// partEntries returns how many changes the open part may have.
func (s *Lists) partEntries(set Set, st *changeState) int {
	switch n := set.Entries; {
	case n > 0:
		return min(n, s.opts.Docs.MaxEntries)
	case len(st.Closed) >= manyParts:
		return s.opts.Docs.MaxEntries
	case len(st.Closed) > 0:
		return min(indexedPart, s.opts.Docs.MaxEntries)
	}
	return s.opts.Docs.MaxEntries
}

// old reports whether the open part must be closed because of its age, which is that of
// the first change in it.
func (s *Lists) old(set Set, st *changeState) bool {
	rotate, first := set.Rotate, st.Open.First
	return rotate > 0 && !first.IsZero() && s.opts.Docs.Now().Sub(first) >= rotate
}

// When writing an open list from its beginning, time and again, costs more than
// beginning another part: it is so large and took so many bytes a second for so long,
// larger and longer the more parts there are, since each is written to the index.
const (
	costlyBytes  = 256 << 10
	costlyParts  = 10_000 // this many more parts, this much larger
	costlyRate   = 1e6
	costlyAfter  = 2 * time.Second
	costlyLonger = 4 * time.Millisecond // a part more, this much longer, ...
	costlyMost   = 10 * time.Second     // ... up to this
)

// A spent counts the cost of an open list. It is not stored: after a restart counting
// begins again.
type spent struct {
	from  time.Time // where the list begins
	since time.Time // of counting
	bytes int64     // written since
}

// spend counts the cost of writing the open list of st.
func (s *Lists) spend(set Set, st *changeState) {
	c := s.spent[set.Name]
	if !c.from.Equal(st.Open.From) {
		c = spent{from: st.Open.From, since: s.opts.Docs.Now()}
	}
	c.bytes += st.Open.Size
	s.spent[set.Name] = c
}

// costly reports whether the open list of st should be closed because of its cost.
func (s *Lists) costly(set Set, st *changeState) bool {
	c := s.spent[set.Name]
	took := s.opts.Docs.Now().Sub(c.since)
	after := min(costlyAfter+time.Duration(len(st.Closed))*costlyLonger, costlyMost)
	return c.from.Equal(st.Open.From) && took >= after && set.Entries == 0 &&
		len(st.Closed) < manyParts && st.Open.Size >= costlyBytes+costlyBytes*int64(len(st.Closed))/costlyParts && float64(c.bytes) >= costlyRate*took.Seconds()
}

// close ends the open part with the change numbered upto and begins the next one
// (RS-CHI-05). If the changes do not fit in the document, the part ends earlier.
func (b *changeBuild) close(ctx context.Context, st *changeState, upto catalog.Seq) error {
	at, err := eventTime(ctx, b.catalog, b.docs.CapabilityList(b.set.Name), upto)
	if err != nil {
		return err
	}
	if st.Open.Name == "" {
		b.name(&st.Open)
	}
	last := catalog.Mark{Seq: upto, At: at}
	for {
		until := last.At.Add(document.Boundary)
		w, _, got, err := b.list(ctx, st.Open.Name, b.header(st.Open.From, until, true), st.Open.After, last.Seq)
		if errors.Is(err, resourcesync.ErrTooLarge) && got.Seq > st.Open.After {
			last = got
			continue
		}
		if err != nil {
			return err
		}
		b.closed = append(b.closed, w)
		if err := document.SealParts(b.closed); err != nil {
			return err
		}
		st.Closed = append(st.Closed, closedPart{Name: st.Open.Name, From: st.Open.From, Until: until, Last: last.Seq})
		st.Open = openPart{From: until, After: last.Seq}
		b.name(&st.Open)
		st.Through, st.ThroughTime = last.Seq, last.At
		return nil
	}
}

// eventTime returns the time of the change of a set that is numbered seq.
func eventTime(ctx context.Context, cat catalog.Catalog, set string, seq catalog.Seq) (time.Time, error) {
	for c, err := range cat.Changes(ctx, set, seq-1) {
		if err == nil && c.Seq != seq {
			break
		}
		return c.EventTime, err
	}
	return time.Time{}, fmt.Errorf("change %d is not in the catalog", seq)
}

// name returns a name for a part that no part with other bytes has had before.
func (b *changeBuild) name(p *openPart) {
	for {
		p.Used++
		p.Name = names.Set(b.set.Name).ChangeListPart(p.From, p.Used)
		if !b.there.Known(p.Name) {
			return
		}
	}
}

// writeOpen writes the open part, or the only document, if it has changed. With
// ErrTooLarge it returns the last change that fits.
func (b *changeBuild) writeOpen(ctx context.Context, st *changeState, last catalog.Seq) (catalog.Seq, error) {
	part := len(st.Closed) > 0
	name := names.Set(b.set.Name).ChangeList()
	if part {
		name = st.Open.Name
	}
	h := b.header(st.Open.From, time.Time{}, part)
	if b.continues(st, name) {
		if last == st.Through && b.there.is(name, st.Open.Size+int64(len(closingTag))) {
			return st.Through, nil
		}
		got, err := b.extend(ctx, st, name, h, last)
		if !errors.Is(err, errForeign) {
			return got, err
		}
		b.docs.Log.WarnContext(ctx, "open change list was changed by another program, and is rewritten", "doc", name)
	}
	return b.write(ctx, st, name, h, last)
}

// continues reports whether the document at name is the open list of st, so
// that its bytes can stay.
func (b *changeBuild) continues(st *changeState, name string) bool {
	return st.Open.Size > 0 && !b.unsure && b.prev != nil && b.prev.Archived == b.archived && b.prev.Open.From.Equal(st.Open.From) && b.prev.Open.document(b.set.Name) == name
}

// finish writes the index, if there are parts, or the end of the formerly open part, if
// the index is removed.
func (b *changeBuild) finish(ctx context.Context, st *changeState) (err error) {
	st.Archived = b.archived
	if len(st.Closed) == 0 {
		st.Open.Name = ""
	} else if same := b.prev != nil && !b.unsure && b.prev.Archived == b.archived && b.prev.From.Equal(st.From) && slices.Equal(b.prev.names(), st.names()); !same ||
		!b.there.has(names.Set(b.set.Name).ChangeList()) {
		if b.index, err = b.writeIndex(ctx, st); err != nil {
			return err
		}
	}
	if b.prev == nil || b.prev.Open.Name == "" || slices.Contains(st.names(), b.prev.Open.Name) {
		return nil
	}
	// Clients that follow that part must learn that it has ended. It gets all
	// published changes: readers have not seen more.
	p := b.prev.Open
	if !b.unsure || st.Ended == nil {
		st.Ended = &closedPart{Name: p.Name, From: p.From, Until: p.From, Last: st.Through}
		if st.Through > p.After {
			st.Ended.Until = st.ThroughTime.Add(document.Boundary)
		}
	}
	b.ended, _, _, err = b.list(ctx, p.Name, b.header(p.From, st.Ended.Until, true), p.After, st.Ended.Last)
	return err
}

// errLook reports that a publication needs to know which documents exist.
var errLook = errors.New("look first")

// list writes the changes above after, through upto, as a document. It returns the first
// and the last of them, the last also with ErrTooLarge: later changes belong in another
// document. Event times increase, so the order is right (RS-CHL-03) and no two entries
// have the same time (RS-CHL-07).
func (b *changeBuild) list(ctx context.Context, name string, h resourcesync.Header, after, upto catalog.Seq) (w blob.Writer, first, last catalog.Mark, err error) {
	d, err := b.docs.Begin(ctx, name, h, b.stamp)
	if err != nil {
		return nil, first, last, err
	}
	if first, last, err = b.fill(ctx, d, after, upto); err == nil {
		err = d.Close()
	}
	if err != nil {
		d.Discard()
		return nil, first, last, err
	}
	b.refused += d.Refused
	b.bytes += d.Bytes()
	return d.Blob, first, last, nil
}

// fill writes the changes above after, through upto, to d.
func (b *changeBuild) fill(ctx context.Context, d *document.Writer, after, upto catalog.Seq) (first, last catalog.Mark, err error) {
	last.Seq = after
	if after == upto {
		return first, last, nil
	}
	describe := b.set.Rules.Describer()
	var e resourcesync.Entry
	for c, err := range b.catalog.Changes(ctx, b.docs.CapabilityList(b.set.Name), after) {
		if err == nil && c.Seq > upto {
			break
		}
		if err == nil {
			add := d.Add
			if c.Seq <= b.shown {
				add = d.AddAgain
			}
			describe.Event(&e, &c)
			err = add(&e)
		}
		if err != nil {
			return first, last, err
		}
		last = catalog.Mark{Seq: c.Seq, At: c.EventTime}
		if first.Seq == 0 {
			first = last
		}
	}
	return first, last, nil
}

func (b *changeBuild) writeIndex(ctx context.Context, st *changeState) (blob.Writer, error) {
	h := b.header(st.From, time.Time{}, false)
	h.Index = true
	d, err := b.docs.Begin(ctx, names.Set(b.set.Name).ChangeList(), h, b.stamp)
	if err != nil {
		return nil, err
	}
	add := func(name string, from, until time.Time) {
		if err == nil {
			err = d.Write(&resourcesync.Entry{Loc: b.docs.Base.URI(name), Metadata: resourcesync.Metadata{
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
		d.Discard()
		return nil, fmt.Errorf("index of %d parts: %w", len(st.Closed)+1, err)
	}
	b.bytes += d.Bytes()
	return d.Blob, nil
}

func (b *changeBuild) header(from, until time.Time, part bool) resourcesync.Header {
	h := resourcesync.Header{
		Capability: resourcesync.ChangeList,
		From:       resourcesync.NewDatetime(from),
		Until:      resourcesync.NewDatetime(until),
		Links:      []resourcesync.Link{{Rel: "up", Href: b.docs.CapabilityList(b.set.Name)}}, // RS-CHL-01
	}
	if b.archived {
		h.Links = append(h.Links, b.docs.ArchivesLink(b.set.Name, resourcesync.ChangeList))
	}
	if part {
		h.Links = append(h.Links, resourcesync.Link{Rel: "index", Href: b.docs.Base.URI(names.Set(b.set.Name).ChangeList())})
	}
	return h
}

// names returns the parts of the list.
func (st *changeState) names() []string {
	if st == nil || st.Open.Name == "" {
		return nil
	}
	var docNames []string
	for _, p := range st.Closed {
		docNames = append(docNames, p.Name)
	}
	return append(docNames, st.Open.Name)
}

// document returns the name of the open document.
func (p *openPart) document(set string) string {
	if p.Name == "" {
		return names.Set(set).ChangeList()
	}
	return p.Name
}

// sizes are the sizes of the documents in a set's directory, by name; nil if they were
// not listed, because there was no reason to.
type sizes map[string]int64

// has reports whether a document with that name exists, as far as known.
func (s sizes) has(name string) bool {
	_, ok := s[name]
	return ok || s == nil
}

// is reports whether the document exists with that size, as far as known.
func (s sizes) is(name string, size int64) bool { return s == nil || s[name] == size }

// hasAll reports whether documents with those names exist, as far as known.
func (s sizes) hasAll(docNames []string) bool {
	return !slices.ContainsFunc(docNames, func(name string) bool { return !s.has(name) })
}

// Known reports whether a document with that name is known to exist.
func (s sizes) Known(name string) bool {
	_, ok := s[name]
	return ok
}

// Add notes a document that exists.
func (s sizes) Add(info blob.Info) { s[info.Name] = info.Size }
