package lists

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source/internal/archive"
	"lockstep/source/internal/document"
)

// trimShare is by which share of the retention time a document without parts may reach
// back further than necessary: removing single changes from its beginning means writing
// it again.
const trimShare = 8

// trimDue reports whether the beginning of c is old enough to be moved forward.
func (p *publication) trimDue(ctx context.Context, c *changeState) (bool, error) {
	due := func(cutoff time.Time) bool {
		if len(c.Closed) > 0 {
			return !c.Closed[0].Until.After(cutoff)
		}
		return c.Open.Name == "" && !c.Open.First.IsZero() && c.Open.First.Before(cutoff.Add(-p.set.Keep/trimShare))
	}
	if !due(p.docs.Now().Add(-p.set.Keep)) || p.next.List == nil {
		return false, nil
	}
	cutoff, err := p.cutoff(ctx)
	return err == nil && due(cutoff), err
}

// trim moves the beginning of st forward past changes that no reader needs any more,
// those before the cutoff: whole parts, or single changes of a document without parts
// (RS-CHI-07). If there is an archive, it must name these changes before they leave the
// list: single changes get a closed document of their own (RA-GEN-10).
func (p *publication) trim(ctx context.Context, b *changeBuild, st *changeState) error {
	if due, err := p.trimDue(ctx, st); err != nil || !due {
		return err
	}
	cutoff, err := p.cutoff(ctx)
	if err != nil {
		return err
	}
	for len(st.Closed) > 0 && !st.Closed[0].Until.After(cutoff) && (p.archives.closed == nil || p.there.Known(st.Closed[0].Name)) {
		part := st.Closed[0]
		if p.archives.closed != nil {
			p.archives.closed.Add(archive.Pointer{Name: part.Name, From: st.From, Until: part.Until, Seq: st.After})
		}
		st.After, st.From = part.Last, part.Until
		st.Closed = st.Closed[1:]
	}
	if len(st.Closed) > 0 || st.Open.Name != "" {
		return nil
	}
	last := catalog.Mark{Seq: st.After}
	for c, err := range p.catalog.Changes(ctx, p.docs.CapabilityList(p.set.Name), st.After) {
		if err != nil {
			return fmt.Errorf("build change list: %w", err)
		}
		if c.EventTime.Add(document.Boundary).After(cutoff) {
			break
		}
		last = catalog.Mark{Seq: c.Seq, At: c.EventTime}
	}
	for st.After < last.Seq {
		end := last
		if p.archives.closed != nil {
			if end, err = p.leave(ctx, b, st, last); err != nil {
				return fmt.Errorf("archive changes: %w", err)
			}
		}
		st.After, st.From = end.Seq, end.At.Add(document.Boundary)
		st.Open = openPart{After: st.After, From: st.From}
	}
	return nil
}

// leave writes a closed document with the first changes of st, through last or as many
// as fit, commits it, which is safe because no document names it yet, and adds it to the
// archive. It returns the last of these changes.
func (p *publication) leave(ctx context.Context, b *changeBuild, st *changeState, last catalog.Mark) (catalog.Mark, error) {
	if end, err := p.owner.leftBefore(ctx, p.set.Name, p.archives.closed, st, last); err != nil || end.Seq > 0 {
		return end, err
	}
	part := openPart{From: st.From}
	b.name(&part)
	for {
		until := last.At.Add(document.Boundary)
		w, _, got, err := b.list(ctx, part.Name, b.header(st.From, until, false), st.After, last.Seq)
		if errors.Is(err, resourcesync.ErrTooLarge) && got.Seq > st.After {
			last = got
			continue
		}
		if err != nil {
			return last, err
		}
		err = p.docs.Commit(ctx, w)
		_ = w.Close() // has no effect after Commit
		if err != nil {
			return last, err
		}
		p.there[part.Name] = 0
		p.archives.closed.Add(archive.Pointer{Name: part.Name, From: st.From, Until: until, Seq: st.After})
		return last, nil
	}
}

// leftBefore returns the last change of a document in the archive that begins where st
// does and reaches through last at most; zero if there is none. It was made by a
// publication that was cut short.
func (s *Lists) leftBefore(ctx context.Context, set string, closed *archive.Draft, st *changeState, last catalog.Mark) (end catalog.Mark, err error) {
	for d := range closed.All() {
		if !d.From.Equal(st.From) || d.Until.After(last.At.Add(document.Boundary)) {
			continue
		}
		for c, err := range s.opts.Catalog.Changes(ctx, s.opts.Docs.CapabilityList(set), st.After) {
			if err != nil {
				return end, err
			}
			if !c.EventTime.Before(d.Until) {
				break
			}
			end = catalog.Mark{Seq: c.Seq, At: c.EventTime}
		}
		if end.At.Add(document.Boundary).Equal(d.Until) {
			return end, nil
		}
	}
	return catalog.Mark{}, nil
}

// cutoff returns the instant before which no reader needs changes any more. They are
// kept for clients that may be reading a Resource List or Resource Dump, including a
// replaced one.
func (p *publication) cutoff(ctx context.Context) (time.Time, error) {
	cutoff := p.docs.Now().Add(-p.set.Keep)
	lists := []time.Time{p.next.List.At}
	if floor, ok, err := p.owner.opts.DumpFloor(ctx, p.set.Name); err != nil {
		return cutoff, err
	} else if ok {
		lists = append(lists, floor)
	}
	if p.state.List != nil {
		lists = append(lists, p.state.List.At)
	}
	for _, r := range p.state.replaced(p.docs.Now(), p.owner.opts.Grace, false) {
		lists = append(lists, r.At)
	}
	for _, r := range p.state.Retired {
		if !r.At.IsZero() {
			lists = append(lists, r.At)
		}
	}
	for _, at := range lists {
		if at.Before(cutoff) {
			cutoff = at
		}
	}
	return cutoff, nil
}
