package dump

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unique"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source/internal/archive"
	"lockstep/source/internal/document"
	"lockstep/source/internal/names"
)

// kinds are the kinds of archives that PublishDumps sees to.
var kinds = []resourcesync.Capability{resourcesync.ResourceDump, resourcesync.ChangeDump}

// openArchives finds out what the archives of the set's dumps name.
func (d *update) openArchives(ctx context.Context) (err error) {
	if d.snapshots, err = d.archives.Open(ctx, d.set.Name, resourcesync.ResourceDump, d.set.Archive(resourcesync.ResourceDump), d.there, archive.NotCurrent); err != nil {
		return err
	}
	if d.packed, err = d.archives.Open(ctx, d.set.Name, resourcesync.ChangeDump, d.set.Archive(resourcesync.ChangeDump), d.there, d.current); err != nil {
		return err
	}
	return d.hold(ctx)
}

// hold finds out what the archived dumps consist of: their parts, packages and
// manifests' copies stay as long as they are named (RA-GEN-09, RA-AMB-09).
func (d *update) hold(ctx context.Context) error {
	d.held, d.blind = make(map[string]bool), false
	known := d.dumps.consists[d.set.Name]
	next := make(map[string][]string)
	for _, g := range []*archive.Draft{d.snapshots, d.packed} {
		if g == nil {
			continue
		}
		for _, part := range g.Parts() {
			d.held[part] = true
		}
		for p := range g.All() {
			docNames, ok := known[p.Name]
			if !ok {
				var err error
				if docNames, ok, err = consistsOf(ctx, d.docs, p.Name, true); err != nil {
					return fmt.Errorf("read archived dump: %w", err)
				}
			}
			if ok {
				next[p.Name] = docNames
			} else {
				d.blind = true
			}
			d.held[p.Name] = true
			for _, name := range docNames {
				d.held[name] = true
			}
		}
	}
	d.dumps.consists[d.set.Name] = next
	return nil
}

// consistsOf returns the blobs that a dump names, and those that its parts do if
// it is an index. ok is false if the dump cannot be read for what is in it.
func consistsOf(ctx context.Context, docs *document.Store, name string, entry bool) (docNames []string, ok bool, err error) {
	r, err := docs.Open(ctx, name)
	if errors.Is(err, blob.ErrNotExist) {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer r.Close() // opened for reading only
	read := &document.ErrorReader{R: r}
	doc := resourcesync.NewReader(read, resourcesync.ReaderOptions{Base: docs.Base.URI(name), Strict: true})
	h, err := doc.Header()
	if err == nil && h.Index && !entry {
		err = errors.New("an index names an index") // RS-IDX-04
	}
	ok = err == nil
	for e, eerr := range doc.Entries() {
		if err = cmp.Or(err, eerr); err != nil {
			ok = false
			break
		}
		part := unique.Make(strings.TrimPrefix(e.Loc, docs.Base.Prefix)).Value() // most are in many dumps
		docNames = append(docNames, part)
		if !h.Index {
			docNames = append(docNames, unique.Make(names.Manifest(part)).Value())
			continue
		}
		inner, whole, err := consistsOf(ctx, docs, part, false)
		if err != nil {
			return nil, false, err
		}
		docNames, ok = append(docNames, inner...), ok && whole
	}
	if read.Err != nil {
		return nil, false, fmt.Errorf("%s: %w", name, read.Err)
	}
	if err != nil {
		docs.Log.WarnContext(ctx, "archived dump is unreadable; nothing of older dumps is removed", slog.String("doc", name), slog.Any("err", err))
	}
	return docNames, ok, nil
}

// current reports whether the document p is part of the current Change Dump.
func (d *update) current(p *archive.Pointer) bool {
	st := d.state.Changes
	return st != nil && !p.From.Before(st.From)
}

// saveArchives publishes what has changed of the archives of the set's dumps.
func (d *update) saveArchives(ctx context.Context) error {
	if d.snapshots != nil {
		d.snapshots.Expire(archive.NotCurrent)
	}
	if d.packed != nil {
		d.packed.Expire(d.current)
	}
	written, err := d.archives.Publish(ctx, d.set.Name, true, d.docs.After(d.state.Stamp), d.snapshots, d.packed)
	if err != nil || !written {
		return err
	}
	d.written = true
	for _, g := range []*archive.Draft{d.snapshots, d.packed} {
		if g != nil {
			d.there[names.Set(d.set.Name).Archive(g.Capability)] = true
			for _, part := range g.Parts() {
				d.there[part] = true
			}
		}
	}
	return d.hold(ctx)
}

// nameArchives has the Capability List name the archives there are, and
// withdraws those there are to be no more.
func (d *update) nameArchives(ctx context.Context) error {
	due := d.written
	for _, c := range kinds {
		due = due || d.set.Archive(c) == nil && d.there[names.Set(d.set.Name).Archive(c)]
	}
	if !due {
		return nil
	}
	if _, err := d.dumps.opts.NameDocuments(ctx, d.set.Name); err != nil {
		return err
	}
	return d.archives.Withdraw(ctx, d.set.Name, d.archived, d.there, kinds...)
}

// archiveDump has the archive name a Resource Dump that is about to be
// published. Those that claim to be as new are of another catalog, or of a clock
// that has gone back.
func (d *update) archiveDump(ctx context.Context, st *resourceState) error {
	if d.snapshots == nil || st.Copy == "" {
		return nil
	}
	if d.back {
		d.snapshots.ForgetSeqs()
	}
	d.snapshots.Drop(func(p *archive.Pointer) bool { return p.Name != st.Copy && !p.At.Before(st.At) })
	d.snapshots.Add(archive.Pointer{Name: st.Copy, At: st.At, Seq: st.Seq})
	return d.saveArchives(ctx)
}

// archiveChanges has the archive name all packages of a Change Dump that is
// given up. If its catalog is not the one there is now, whose history begins at
// from, nothing may seem to join both (RA-CHG-05).
func (b *changeBuild) archiveChanges(ctx context.Context, st *changeState, back bool, from time.Time) error {
	if b.packed == nil || st == nil {
		return nil
	}
	packages, after := st.Packages, st.After
	if b.have(st.names()) {
		for _, l := range st.Lists[:max(0, len(st.Lists)-1)] {
			last := packages[l.Packages-1]
			b.packed.Add(archive.Pointer{Name: l.Name, From: packages[0].From, Until: last.Until, Seq: after})
			packages, after = packages[l.Packages:], last.Last
		}
	}
	for len(packages) > 0 {
		n := 0
		for n < len(packages) && b.have([]string{packages[n].Name, names.Manifest(packages[n].Name)}) {
			n++
		}
		if err := b.leave(ctx, after, packages[:n]); err != nil {
			return err
		}
		n = min(n+1, len(packages))
		packages, after = packages[n:], packages[n-1].Last
	}
	if back {
		b.packed.ForgetSeqs()
		b.packed.Drop(func(p *archive.Pointer) bool { return p.Until.After(from.Add(document.Boundary)) })
	}
	return b.saveArchives(ctx)
}

// archivePart has the archive name what is in st and not in a document of the
// archive yet, if the set's documents of changes are to be closed at that age: in
// both, from then on (RA-GEN-11). Parts of an index that are closed it names at
// once.
func (b *changeBuild) archivePart(ctx context.Context, st *changeState) error {
	if b.packed == nil {
		return nil
	}
	packages, after := st.Packages, st.After
	for _, l := range st.Lists[:max(0, len(st.Lists)-1)] {
		last := packages[l.Packages-1]
		b.packed.Add(archive.Pointer{Name: l.Name, From: packages[0].From, Until: last.Until, Seq: after})
		packages, after = packages[l.Packages:], last.Last
	}
	if len(st.Lists) == 0 && b.set.Rotate > 0 {
		if newest := b.packed.Newest(); newest != nil {
			for len(packages) > 0 && !packages[0].Until.After(newest.Until) {
				packages, after = packages[1:], packages[0].Last
			}
		}
		if len(packages) > 0 && b.docs.Now().Sub(packages[0].From) >= b.set.Rotate {
			if err := b.leave(ctx, after, packages); err != nil {
				return err
			}
		}
	}
	return b.saveArchives(ctx)
}

// already returns how many packages at the front of st the archive names in a
// document of their own.
func (b *changeBuild) already(st *changeState) int {
	if b.packed == nil || len(st.Packages) == 0 || len(st.Lists) > 0 {
		return 0
	}
	for p := range b.packed.All() {
		if !p.From.Equal(st.Packages[0].From) {
			continue
		}
		for i := range st.Packages {
			if st.Packages[i].Until.Equal(p.Until) {
				return i + 1
			}
		}
	}
	return 0
}

// leave makes closed Change Dumps of packages that follow each other, the first
// of which has the changes after after, and has the archive name them. They are durable when it returns.
func (b *changeBuild) leave(ctx context.Context, after catalog.Seq, packages []changePackage) error {
	for stretch := range slices.Chunk(packages, entryLimit(b.docs)) {
		p := archive.Pointer{From: stretch[0].From, Until: stretch[len(stretch)-1].Until, Seq: after}
		after = stretch[len(stretch)-1].Last
		if b.packed.Names(p) {
			continue // an earlier run has
		}
		h := b.changeHeader()
		h.From, h.Until = resourcesync.NewDatetime(p.From), resourcesync.NewDatetime(p.Until)
		plain := names.Dumps(b.set.Name).ChangePart(p.From)
		p.Name = plain
		for n := 2; b.there[p.Name]; n++ {
			p.Name = names.Numbered(plain, n)
		}
		w, err := b.docs.WriteDocument(ctx, p.Name, h, b.docs.After(b.state.Stamp), b.dumps.changeEntries(stretch))
		if err != nil {
			return err
		}
		err = b.docs.Commit(ctx, w)
		_ = w.Close() // does nothing after Commit
		if err != nil {
			return err
		}
		b.there[p.Name] = true
		b.packed.Add(p)
	}
	return nil
}
