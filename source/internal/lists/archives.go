package lists

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lockstep/resourcesync"
	"lockstep/source/internal/archive"
	"lockstep/source/internal/names"
)

// archives are the archives of a set's lists on their way to their next state.
type archives struct {
	lists  *archive.Draft // of Resource Lists; nil: there is none, or the documents were not listed
	closed *archive.Draft // of Change Lists; the same
}

// listArchives are the kinds of archives that Publish sees to.
var listArchives = []resourcesync.Capability{resourcesync.ResourceList, resourcesync.ChangeList}

// openArchives finds out what the archives of the set's lists name, if this publication
// has looked at all documents.
func (p *publication) openArchives(ctx context.Context) (err error) {
	if p.there == nil {
		return nil
	}
	if p.archives.lists, err = p.owner.opts.Archives.Open(ctx, p.set.Name, resourcesync.ResourceList, p.set.Archive(resourcesync.ResourceList), p.there, archive.NotCurrent); err != nil {
		return err
	}
	p.archives.closed, err = p.owner.opts.Archives.Open(ctx, p.set.Name, resourcesync.ChangeList, p.set.Archive(resourcesync.ChangeList), p.there, currentParts(p.next.Changes, p.state.Changes))
	return err
}

// currentParts returns which documents are parts of Change Lists.
func currentParts(lists ...*changeState) func(*archive.Pointer) bool {
	docNames := make(map[string]bool)
	for _, c := range lists {
		for _, name := range c.names() {
			docNames[name] = true
		}
	}
	return func(d *archive.Pointer) bool { return docNames[d.Name] }
}

// addClosed has the archive name the closed parts of st (RA-GEN-10): they
// are in both from the first (RA-GEN-11), and so when they leave (RA-CHG-08).
func (a *archives) addClosed(st *changeState) {
	if a.closed == nil || len(st.Closed) == 0 {
		return
	}
	known := make(map[string]bool)
	for d := range a.closed.All() {
		known[d.Name] = true
	}
	after := st.After
	for _, c := range st.Closed {
		if !known[c.Name] {
			a.closed.Add(archive.Pointer{Name: c.Name, From: c.From, Until: c.Until, Seq: after})
		}
		after = c.Last
	}
}

// linkClosed gives the closed parts of st, which are to be archived, the link to
// their archive, where they were closed before there was one (RA-GEN-12). A part
// that has no room for it stays as it is.
func (p *publication) linkClosed(ctx context.Context, b *changeBuild, st *changeState) error {
	link := p.docs.ArchivesLink(p.set.Name, resourcesync.ChangeList)
	for _, c := range st.Closed {
		h, entries, err := p.reader().readChanges(ctx, c.Name)
		if err != nil {
			return fmt.Errorf("archive what was published: %w", err)
		}
		if h.From.IsZero() || h.Until.IsZero() || h.Link(resourcesync.RelArchives) == link.Href {
			continue // not as we left it, closed only now, or linked already
		}
		h.Links = append(slices.DeleteFunc(h.Links, func(l resourcesync.Link) bool { return l.Rel == resourcesync.RelArchives }), link)
		w, err := p.docs.WriteDocument(ctx, c.Name, h, b.stamp, entries)
		if errors.Is(err, resourcesync.ErrTooLarge) {
			continue
		}
		if err != nil {
			return err
		}
		err = p.docs.Commit(ctx, w)
		_ = w.Close() // does nothing after Commit
		if err != nil {
			return err
		}
	}
	return nil
}

// archiveDue says whether a new Resource List is due for the sake of its
// archive, and whether documents are to be written for that of any.
func (p *publication) archiveDue() (list, any bool) {
	st := p.state
	list = st.List != nil && st.List.Archived != (p.set.archived(resourcesync.ResourceList)) || p.archives.lists != nil && p.archives.lists.Newest() == nil
	any = list || p.next.Changes.Archived != (p.set.archived(resourcesync.ChangeList)) || p.archives.lists.Changed() || p.archives.closed.Changed()
	for _, c := range listArchives {
		any = any || !p.set.archived(c) && p.there.Known(names.Set(p.set.Name).Archive(c))
	}
	return list, any
}

// takes reports whether the Resource List taken at goes into the archive:
// the first does, one that begins a history, and one that is far enough from the
// one before.
func (a *archives) takes(at time.Time, begins bool) bool {
	if a.lists == nil {
		return false
	}
	newest := a.lists.Newest()
	return newest == nil || begins || at.Sub(newest.At) >= a.lists.Every()
}

// named returns which documents stay for the sake of an archive that names
// them, or the list they are part of.
func (a *archives) named() func(name string) bool {
	held := make(map[string]bool)
	for _, g := range []*archive.Draft{a.lists, a.closed} {
		if g == nil {
			continue
		}
		for ptr := range g.All() {
			held[ptr.Name] = true
		}
	}
	return func(name string) bool { return held[name] || held[names.CopyOfPart(name)] }
}

// left returns which documents stayed for the sake of an archive that does
// not name them any more.
func (a *archives) left() func(name string) bool {
	return func(name string) bool {
		for _, g := range []*archive.Draft{a.lists, a.closed} {
			if g != nil && (g.Left(name) || g.Left(names.CopyOfPart(name))) {
				return true
			}
		}
		return false
	}
}

// parts returns the names of the parts of the archives.
func (a *archives) parts() (docNames []string) {
	for _, g := range []*archive.Draft{a.lists, a.closed} {
		if g != nil {
			docNames = append(docNames, g.Parts()...)
		}
	}
	return docNames
}

// expire drops from the archives what is not to be kept any more.
func (a *archives) expire(current func(*archive.Pointer) bool) {
	if a.lists != nil {
		a.lists.Expire(archive.NotCurrent)
	}
	if a.closed != nil {
		a.closed.Expire(current)
	}
}
