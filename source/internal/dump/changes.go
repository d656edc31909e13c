package dump

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source/internal/archive"
	"lockstep/source/internal/names"
)

// changes adds packages to the Change Dump if they are due.
func (d *update) changes(ctx context.Context) error {
	entry := names.Set(d.set.Name).ChangeDump()
	b := &changeBuild{update: d, key: d.docs.CapabilityList(d.set.Name)}
	if d.set.Change == nil {
		if d.state.Changes == nil && !d.there[entry] {
			return nil
		}
		if err := b.archiveChanges(ctx, d.state.Changes, false, time.Time{}); err != nil {
			return err
		}
		return d.withdraw(ctx, entry, func() {
			old := d.state.Changes
			d.state.Changes = nil
			d.retire(old.names(), nil)
		})
	}
	if err := b.run(ctx); err != nil {
		return fmt.Errorf("build change dump: %w", err)
	}
	return nil
}

// switchChanges takes steps 2 to 6 of Publish for what is not packages:
// parts of the index, the one that is now open before those now closed
// (RS-CHI-06), then the entry document.
func (d *update) switchChanges(ctx context.Context, next *changeState) error {
	parts, entry, err := d.changeDocuments(ctx, next)
	if err != nil {
		return err
	}
	defer discard(parts) // does nothing after Commit
	defer entry.Close()  // the same
	for _, w := range parts {
		if err := d.docs.Commit(ctx, w); err != nil {
			return err
		}
		d.there[w.Name()] = true
	}
	if err := d.put(ctx, entry); err != nil {
		return err
	}
	old := d.state.Changes
	d.state.Changes, d.state.NextChanges = next, nil
	d.retire(old.names(), nil)
	return d.save(ctx)
}

// changeDocuments writes the documents of a Change Dump: one, or an index
// (RS-CDI-01) and those parts that are not there as they should be. The parts
// are to be committed in their order, the newest first.
func (d *update) changeDocuments(ctx context.Context, st *changeState) (parts []blob.Writer, entry blob.Writer, err error) {
	h := d.changeHeader()
	h.From = resourcesync.NewDatetime(st.From)
	entries := d.dumps.changeEntries(st.Packages)
	name := names.Set(d.set.Name).ChangeDump()
	if len(st.Lists) == 0 {
		entry, err = d.docs.WriteDocument(ctx, name, h, d.state.Stamp, entries)
		return nil, entry, err
	}
	defer func() {
		if err != nil {
			discard(parts)
		}
	}()
	closed := d.closedParts()
	var index []resourcesync.Entry
	for i, list := range st.Lists {
		mine := entries[:list.Packages]
		entries = entries[list.Packages:]
		m := resourcesync.Metadata{From: mine[0].From}
		if i < len(st.Lists)-1 {
			m.Until = mine[len(mine)-1].Until
		}
		index = append(index, resourcesync.Entry{Loc: d.docs.Base.URI(list.Name), Metadata: m})
		if closed[list.Name] && !m.Until.IsZero() {
			continue
		}
		ph := h
		ph.From, ph.Until = m.From, m.Until
		ph.Links = append(slices.Clone(h.Links), resourcesync.Link{Rel: resourcesync.RelIndex, Href: d.docs.Base.URI(name)})
		w, err := d.docs.WriteDocument(ctx, list.Name, ph, d.state.Stamp, mine)
		if err != nil {
			return parts, nil, err
		}
		parts = append(parts, w)
	}
	slices.Reverse(parts)
	h.Index = true
	entry, err = d.docs.WriteDocument(ctx, name, h, d.state.Stamp, index)
	return parts, entry, err
}

// changeHeader returns what documents of a Change Dump begin with; times are
// the caller's to set.
func (d *update) changeHeader() resourcesync.Header {
	h := d.docs.Header(d.set.Name, resourcesync.ChangeDump)
	if d.packed != nil {
		h.Links = append(h.Links, d.docs.ArchivesLink(d.set.Name, resourcesync.ChangeDump))
	}
	return h
}

// changeEntries returns the entries of packages.
func (s *Dumps) changeEntries(packages []changePackage) []resourcesync.Entry {
	entries := make([]resourcesync.Entry, len(packages))
	for i, p := range packages {
		m := p.Metadata()
		m.From, m.Until = resourcesync.NewDatetime(p.From), resourcesync.NewDatetime(p.Until) // RS-CD-02, RS-CD-06
		entries[i] = s.packageEntry(p.Name, m)
	}
	return entries
}

// closedParts returns the parts that are published and closed.
func (d *update) closedParts() map[string]bool {
	closed := make(map[string]bool)
	if st := d.state.Changes; st != nil {
		for i, l := range st.Lists {
			closed[l.Name] = i < len(st.Lists)-1 && d.there[l.Name]
		}
	}
	return closed
}

// A changeBuild takes a Change Dump off the catalog.
type changeBuild struct {
	*update
	key    string // of the set in the catalog
	status catalog.Status
}

// run publishes a package after the other until all changes there are are
// packed, if that is due.
func (b *changeBuild) run(ctx context.Context) error {
	st, fresh, err := b.begin(ctx)
	if err != nil {
		return err
	}
	trimmed, err := b.trim(ctx, st)
	if err != nil {
		return err
	}
	due := fresh || isDue(st.Built, b.docs.Now(), b.set.Change.Every)
	if !due || st.Through >= b.status.Last {
		if fresh || trimmed || !b.there[names.Set(b.set.Name).ChangeDump()] {
			if err := b.publish(ctx, st); err != nil {
				return err
			}
		}
		return b.archivePart(ctx, b.state.Changes)
	}
	for st.Through < b.status.Last {
		if err := b.extend(ctx, st); err != nil {
			return err
		}
		if err := b.publish(ctx, st); err != nil {
			return err
		}
		st = st.copy()
	}
	return b.archivePart(ctx, b.state.Changes)
}

// begin returns the Change Dump as it is published, to be changed, or a new one
// that begins where the catalog's history does.
func (b *changeBuild) begin(ctx context.Context) (st *changeState, fresh bool, err error) {
	if b.status, err = b.catalog.Status(ctx, b.key); err != nil {
		return nil, false, err
	}
	var back bool
	if st := b.state.Changes; st != nil {
		if back, err = wentBack(ctx, b.catalog, b.docs.CapabilityList(b.set.Name), st.Through, st.Until); err != nil {
			return nil, false, err
		}
		if !back && b.have(st.names()) {
			return st.copy(), false, nil
		}
	}
	if back {
		b.docs.Log.WarnContext(ctx, "catalog is not the one the change dump was made from; its history restarts", slog.String("set", b.set.Name))
	}
	kept := b.status.Kept
	if kept.At.IsZero() {
		if kept, err = b.catalog.Mark(ctx, b.key); err != nil {
			return nil, false, err
		}
	}
	if err := b.archiveChanges(ctx, b.state.Changes, back, kept.At); err != nil {
		return nil, false, err
	}
	return &changeState{After: kept.Seq, From: kept.At, Through: kept.Seq, Until: kept.At}, true, nil
}

func (st *changeState) copy() *changeState {
	c := *st
	c.Packages, c.Lists = slices.Clone(st.Packages), slices.Clone(st.Lists)
	return &c
}

// publish makes st, whose packages are there, what is published.
func (b *changeBuild) publish(ctx context.Context, st *changeState) error {
	b.cutLists(st)
	b.state.Stamp = b.docs.After(b.state.Stamp)
	b.state.NextChanges, b.state.Building = st, nil
	if err := b.save(ctx); err != nil {
		return err
	}
	return b.switchChanges(ctx, st)
}

// cutLists assigns packages to parts of an index, if they do not fit one
// document; once there is an index, it stays.
func (b *changeBuild) cutLists(st *changeState) {
	per, listed := entryLimit(b.docs), 0
	for _, l := range st.Lists {
		listed += l.Packages
	}
	if len(st.Lists) == 0 && len(st.Packages) <= per {
		return
	}
	for _, p := range st.Packages[listed:] {
		last := len(st.Lists) - 1
		if last < 0 || st.Lists[last].Packages >= per {
			st.Lists = append(st.Lists, changePart{Name: names.Dumps(b.set.Name).ChangePart(p.From)})
			last++
		}
		st.Lists[last].Packages++
	}
}

// trim drops packages from the front that no reader needs any more: whole parts of
// an index (RS-CHI-07). If there is an archive, it names them from before they
// leave (RA-CHG-08), in documents of many packages each.
func (b *changeBuild) trim(ctx context.Context, st *changeState) (trimmed bool, err error) {
	cutoff := b.cutoff()
	drop := func(n int) {
		last := st.Packages[n-1]
		st.After, st.From = last.Last, last.Until
		st.Packages = st.Packages[n:]
		trimmed = true
	}
	for len(st.Lists) > 1 && !st.Packages[st.Lists[0].Packages-1].Until.After(cutoff) {
		n := st.Lists[0].Packages
		if b.packed != nil {
			b.packed.Add(archive.Pointer{Name: st.Lists[0].Name, From: st.Packages[0].From, Until: st.Packages[n-1].Until, Seq: st.After})
		}
		drop(n)
		st.Lists = st.Lists[1:]
	}
	n := b.already(st)
	for ; n > 0 && !st.Packages[n-1].Until.After(cutoff); n = b.already(st) {
		drop(n)
	}
	if n > 0 { // they leave together
		return trimmed, nil
	}
	for len(st.Lists) == 0 && n < len(st.Packages) && !st.Packages[n].Until.After(cutoff) {
		n++
	}
	if n > 0 && b.packed != nil {
		if st.Packages[0].Until.After(b.docs.Now().Add(-b.set.Keep - b.set.Keep/trimShare)) {
			n = 0
		} else if err := b.leave(ctx, st.After, st.Packages[:n]); err != nil {
			return trimmed, err
		}
	}
	if n > 0 {
		drop(n)
	}
	if !trimmed || b.packed == nil {
		return trimmed, nil
	}
	return trimmed, b.saveArchives(ctx)
}

// cutoff returns the instant before which no reader needs changes any more: one that
// has a Resource Dump that is there goes on from its at.
func (b *changeBuild) cutoff() time.Time {
	cutoff := b.docs.Now().Add(-b.set.Keep)
	if r := b.state.Resources; r != nil && r.At.Before(cutoff) {
		cutoff = r.At
	}
	for _, r := range b.state.Retired {
		if !r.At.IsZero() && r.At.Before(cutoff) {
			cutoff = r.At
		}
	}
	return cutoff
}
