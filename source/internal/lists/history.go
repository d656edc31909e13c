package lists

import (
	"context"
	"fmt"
	"log/slog"

	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source/internal/archive"
	"lockstep/source/internal/document"
	"lockstep/source/internal/names"
)

// keepHistory has the archive of Change Lists name what is published of a
// history that is about to begin again: closed parts, and a closed copy of what
// is open. It is durable when it returns, and may be repeated.
//
// If the catalog is another one than the history was read off, or an older copy,
// nothing may seem to join both: documents of the past that reach to where the
// new history begins, or beyond, are not named any more (RA-CHG-05).
func (p *publication) keepHistory(ctx context.Context) error {
	if p.archives.closed == nil && p.archives.lists == nil {
		return nil
	}
	docs, same, err := p.published(ctx)
	if err != nil {
		return fmt.Errorf("archive what was published: %w", err)
	}
	from := p.next.Changes.From
	switch {
	case p.back || p.state.Changes == nil && !same:
		n := 0
		if p.archives.closed != nil {
			p.archives.closed.ForgetSeqs()
			for _, d := range docs {
				p.archives.closed.Add(d)
			}
			n += p.archives.closed.Drop(func(d *archive.Pointer) bool { return d.Until.After(from.Add(document.Boundary)) })
		}
		if p.archives.lists != nil {
			p.archives.lists.ForgetSeqs()
			n += p.archives.lists.Drop(func(d *archive.Pointer) bool { return !d.At.Before(from) })
		}
		if n > 0 {
			p.docs.Log.WarnContext(ctx, "archived documents extend beyond the instant at which the history restarts, and are no longer listed",
				slog.String("set", p.set.Name), slog.Int("documents", n), slog.Time("from", from))
		}
	case p.state.Changes != nil && p.archives.closed != nil:
		for _, d := range docs {
			p.archives.closed.Add(d)
		}
	}
	stamp := p.docs.After(p.state.Stamp)
	if _, err := p.owner.opts.Archives.Publish(ctx, p.set.Name, false, stamp, p.archives.lists, p.archives.closed); err != nil {
		return err
	}
	for _, d := range docs {
		p.there[d.Name] = max(p.there[d.Name], 0) // copies are there now
	}
	return nil
}

// published returns the Change List that readers see, as documents an archive
// can name: what is open it copies. same reports whether the catalog knows of
// the last change in it.
func (p *publication) published(ctx context.Context) (docs []archive.Pointer, same bool, err error) {
	parts, err := p.reader().readIndex(ctx)
	if err != nil {
		return nil, false, err
	}
	open := names.Set(p.set.Name).ChangeList()
	if n := len(parts); n > 0 {
		for _, c := range parts[:n-1] {
			docs = append(docs, archive.Pointer{Name: c.Name, From: c.From, Until: c.Until, Seq: -1})
		}
		open = parts[n-1].Name
	}
	h, entries, err := p.reader().readChanges(ctx, open)
	if err != nil || h.From.IsZero() {
		return docs, false, err
	}
	if len(entries) == 0 {
		kept := p.status.Kept.At
		return docs, !h.From.Time().Add(document.Boundary).Before(kept) && !kept.Add(document.Boundary).Before(h.From.Time()), nil
	}
	last := &entries[len(entries)-1]
	if same, err = p.owner.knows(ctx, p.set.Name, p.status.Kept.Seq, last); err != nil {
		return nil, false, err
	}
	d := archive.Pointer{From: h.From.Time(), Until: last.Datetime.Time().Add(document.Boundary), Seq: -1}
	if p.archives.closed == nil {
		return docs, same, nil
	}
	if p.archives.closed.Names(d) {
		return docs, same, nil // an earlier run has
	}
	if d.Name, err = p.copyClosed(ctx, d, entries); err != nil {
		return nil, false, err
	}
	return append(docs, d), same, nil
}

// copyClosed writes a Change List of entries, the interval of which d gives.
func (p *publication) copyClosed(ctx context.Context, d archive.Pointer, entries []resourcesync.Entry) (string, error) {
	b := &changeBuild{owner: p.owner, docs: p.docs, catalog: p.catalog, set: p.set, archived: true, there: p.there}
	part := openPart{From: d.From}
	b.name(&part)
	w, err := p.docs.WriteDocument(ctx, part.Name, b.header(d.From, d.Until, false), p.docs.After(p.state.Stamp), entries)
	if err != nil {
		return "", err
	}
	defer w.Close() // does nothing after Commit
	return part.Name, p.docs.Commit(ctx, w)
}

// knows reports whether the catalog, which keeps the changes above kept, has the
// change of an entry.
func (s *Lists) knows(ctx context.Context, set string, kept catalog.Seq, e *resourcesync.Entry) (bool, error) {
	at := e.Datetime.Time()
	for c, err := range s.opts.Catalog.Changes(ctx, s.opts.Docs.CapabilityList(set), kept) {
		if err != nil {
			return false, err
		}
		if !c.EventTime.Before(at) {
			return c.EventTime.Equal(at) && c.URI == e.Loc, nil
		}
	}
	return false, nil
}
