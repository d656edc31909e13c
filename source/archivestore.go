package source

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"lockstep/resourcesync"
	"lockstep/source/internal/names"
)

// archivesVersion numbers the layout of remembered. Older ones are read, newer
// refused.
const archivesVersion = 1

// A remembered is what a Source remembers of a set's archives, those of its
// lists or those of its dumps, in one JSON blob. What archives name is what they
// say themselves; this is written before them, adds what they have no words for,
// and is what they are made of anew should they get lost.
type remembered struct {
	Version        int                                   `json:"version"`
	CapabilityList string                                `json:"capability_list"` // the set; documents of another base URL are not ours to continue
	Archives       map[resourcesync.Capability][]pointer `json:"archives"`        // by capability of the documents
}

// isDump reports whether c is the capability of dumps.
func isDump(c resourcesync.Capability) bool {
	return c == resourcesync.ResourceDump || c == resourcesync.ChangeDump
}

// openArchive returns the archive of the set's documents of one kind, nil if
// there is to be none. Documents that are not there are not named any more, nor
// those whose time has come; current says of which that is too early.
func (s *Source) openArchive(ctx context.Context, set Set, c resourcesync.Capability, there func(name string) bool, current func(*pointer) bool) (*archiving, error) {
	retain := set.Archive.of(c)
	if retain == nil {
		return nil, nil
	}
	entry := names.Archive(set.Name, c)
	a, published := s.archives.get(entry), true
	var planned []pointer
	if a == nil {
		var err error
		if a, planned, err = s.loadArchive(ctx, set.Name, c); err != nil {
			return nil, fmt.Errorf("read archive: %w", err)
		}
		if published = a != nil; published && len(planned) == 0 {
			s.archives.put(entry, a)
		}
	}
	g := s.archiving(set.Name, c, retain, a, published)
	for _, p := range planned {
		if there(p.Name) {
			g.add(p)
		}
	}
	if !there(entry) {
		g.rewrite()
	}
	for _, p := range g.next.Parts {
		if !there(p.Name) {
			g.dirty[p.Name] = true
		}
	}
	if lost := g.drop(func(p *pointer) bool { return !there(p.Name) }); lost > 0 { // RA-GEN-09
		s.docs.Log.WarnContext(ctx, "archived documents are gone and are not named any more", slog.String("set", set.Name),
			slog.String("doc", entry), slog.Int("documents", lost))
	}
	g.expire(current)
	g.settle()
	return g, nil
}

// loadArchive reads what is published, nil if that is nothing of ours, and what
// was planned beyond that, by a publication that was cut short, or before the
// archive got lost.
func (s *Source) loadArchive(ctx context.Context, set string, c resourcesync.Capability) (a *archived, planned []pointer, err error) {
	known, err := s.loadRemembered(ctx, set, isDump(c))
	if err != nil {
		return nil, nil, err
	}
	if a, err = s.readArchive(ctx, set, c); err != nil {
		return nil, nil, err
	}
	published := make(map[string]*pointer)
	for p := range a.all() {
		published[p.Name] = p
	}
	for _, p := range known.Archives[c] {
		if o := published[p.Name]; o != nil {
			o.Seq = p.Seq
		} else {
			planned = append(planned, p)
		}
	}
	if a == nil && len(planned) > 0 {
		s.docs.Log.WarnContext(ctx, "archive was changed by another program, and is rebuilt", slog.String("set", set), slog.String("doc", names.Archive(set, c)))
	}
	return a, planned, nil
}

// readArchive reads a published archive; nil if there is none, or none as we
// write them.
func (s *Source) readArchive(ctx context.Context, set string, c resourcesync.Capability) (*archived, error) {
	name := names.Archive(set, c)
	h, entries, err := s.readArchivePart(ctx, set, c, name)
	if err != nil || h.Capability == "" {
		return nil, err
	}
	a := &archived{Index: h.Index}
	if !h.Index {
		pointers := s.pointers(set, c, entries)
		if pointers == nil {
			return nil, nil
		}
		a.Parts = []archivePart{{Name: name, Pointers: pointers}}
		return a, nil
	}
	for _, e := range entries {
		part := strings.TrimPrefix(e.Loc, s.docs.Base.Prefix)
		if names.ArchivePartNumber(set, c, part) == 0 {
			return nil, nil
		}
		ph, pe, err := s.readArchivePart(ctx, set, c, part)
		if err != nil {
			return nil, err
		}
		pointers := s.pointers(set, c, pe)
		if ph.Capability == "" || ph.Index || pointers == nil {
			return nil, nil
		}
		a.Parts = append(a.Parts, archivePart{Name: part, Pointers: pointers})
	}
	if len(a.Parts) == 0 {
		return nil, nil
	}
	return a, nil
}

// readArchivePart reads one document of an archive; the zero Header says that it
// is none.
func (s *Source) readArchivePart(ctx context.Context, set string, c resourcesync.Capability, name string) (h resourcesync.Header, entries []resourcesync.Entry, err error) {
	h, entries, _, err = s.docs.ReadDocument(ctx, name, func(h *resourcesync.Header) bool {
		return h.Capability == names.ArchiveOf(c) && h.Link(resourcesync.RelUp) == s.docs.CapabilityList(set)
	})
	return h, entries, err
}

// pointers returns what entries of an archive point to; nil if that is nothing
// of ours.
func (s *Source) pointers(set string, c resourcesync.Capability, entries []resourcesync.Entry) []pointer {
	pointers := make([]pointer, 0, len(entries))
	for _, e := range entries {
		p := pointer{Name: strings.TrimPrefix(e.Loc, s.docs.Base.Prefix), At: e.At.Time(), From: e.From.Time(), Until: e.Until.Time(), Seq: -1}
		if !p.sound(set, c) || len(pointers) > 0 && pointers[len(pointers)-1].compare(p) > 0 {
			return nil
		}
		pointers = append(pointers, p)
	}
	return pointers
}

// sound reports whether p can point to a document of that kind.
func (p *pointer) sound(set string, c resourcesync.Capability) bool {
	snapshot := c == resourcesync.ResourceList || c == resourcesync.ResourceDump
	return names.IsArchived(set, c, p.Name) && snapshot == !p.At.IsZero() && snapshot == p.From.IsZero() && snapshot == p.Until.IsZero() &&
		!p.Until.Before(p.From) && p.Seq >= -1
}

// loadRemembered returns what is remembered of the archives of a set's lists,
// or of its dumps.
func (s *Source) loadRemembered(ctx context.Context, set string, dumps bool) (*remembered, error) {
	name := names.ArchiveState(set, dumps)
	fresh := &remembered{Version: archivesVersion, CapabilityList: s.docs.CapabilityList(set), Archives: make(map[resourcesync.Capability][]pointer)}
	data, _, err := s.docs.ReadBlob(ctx, name)
	if err != nil || data == nil {
		return fresh, err
	}
	m := new(remembered)
	if err := json.Unmarshal(data, m); err != nil {
		s.docs.Log.WarnContext(ctx, "state of archives is unreadable and will be rebuilt", slog.String("set", set), slog.Any("err", err))
		return fresh, nil
	}
	if m.Version > archivesVersion {
		return nil, fmt.Errorf("read %s: written by a newer version (layout %d, this one knows %d)", name, m.Version, archivesVersion)
	}
	if m.CapabilityList != fresh.CapabilityList {
		return fresh, nil
	}
	for c, pointers := range m.Archives {
		if isDump(c) != dumps || slices.ContainsFunc(pointers, func(p pointer) bool { return !p.sound(set, c) }) || !slices.IsSortedFunc(pointers, pointer.compare) {
			s.docs.Log.WarnContext(ctx, "state of archives contradicts itself and will be rebuilt", slog.String("set", set))
			return fresh, nil
		}
	}
	m.Version = archivesVersion
	return m, nil
}

// publishArchives commits those archives that have changed: what is remembered
// first. gs are all archives of a set's lists, or of its dumps; nil where there
// is none.
func (s *Source) publishArchives(ctx context.Context, set string, dumps bool, stamp time.Time, gs ...*archiving) (written bool, err error) {
	if written, err = s.remember(ctx, set, dumps, gs...); err != nil || !written {
		return false, err
	}
	for _, g := range gs {
		if err := g.publish(ctx, stamp); err != nil {
			return true, err
		}
	}
	return true, nil
}

// remember commits what archives are going to name, if any of them has changed.
func (s *Source) remember(ctx context.Context, set string, dumps bool, gs ...*archiving) (changed bool, err error) {
	if !slices.ContainsFunc(gs, (*archiving).changed) {
		return false, nil
	}
	m := remembered{Version: archivesVersion, CapabilityList: s.docs.CapabilityList(set), Archives: make(map[resourcesync.Capability][]pointer)}
	for _, g := range gs {
		if g == nil {
			continue
		}
		if g.changed() {
			s.archives.put(names.Archive(set, g.capability), nil) // should anything fail, what holds is in the blobs
		}
		m.Archives[g.capability] = []pointer{}
		for p := range g.next.all() {
			m.Archives[g.capability] = append(m.Archives[g.capability], *p)
		}
	}
	data, err := json.Marshal(m)
	if err != nil {
		return false, fmt.Errorf("write %s: %w", names.ArchiveState(set, dumps), err)
	}
	return true, s.docs.CommitBlob(ctx, names.ArchiveState(set, dumps), append(data, '\n'), time.Time{})
}

// publish commits what has changed of the archive, if there is one: parts, the
// newest first, then the entry document.
func (g *archiving) publish(ctx context.Context, stamp time.Time) error {
	if !g.changed() {
		return nil
	}
	if err := g.commitAll(ctx, stamp); err != nil {
		return fmt.Errorf("publish archive: %w", err)
	}
	return nil
}

func (g *archiving) commitAll(ctx context.Context, stamp time.Time) error {
	entry := names.Archive(g.set, g.capability)
	for _, p := range slices.Backward(g.next.Parts) {
		if !g.dirty[p.Name] {
			continue
		}
		h := g.header()
		if g.next.Index {
			h.Links = append(h.Links, resourcesync.Link{Rel: resourcesync.RelIndex, Href: g.docs.Base.URI(entry)}) // RA-DOC-04
		}
		entries := make([]resourcesync.Entry, len(p.Pointers))
		for i := range p.Pointers {
			entries[i] = p.Pointers[i].entry(g.docs.Base)
		}
		if err := g.put(ctx, p.Name, h, stamp, entries); err != nil {
			return err
		}
	}
	if g.next.Index && g.dirty[entry] {
		h := g.header()
		h.Index = true
		entries := make([]resourcesync.Entry, len(g.next.Parts))
		for i, p := range g.next.Parts {
			entries[i].Loc = g.docs.Base.URI(p.Name) // RA-IDX-01, RA-IDX-02, RA-IDX-03: the address and nothing else
		}
		if err := g.put(ctx, entry, h, stamp, entries); err != nil {
			return err
		}
	}
	g.dirty = make(map[string]bool)
	g.settle()
	g.archives.put(entry, new(g.next.clone()))
	return nil
}

// header returns what all documents of an archive begin with: no times
// (RA-DOC-02), no link to archives (RA-ADV-06).
func (g *archiving) header() resourcesync.Header {
	return resourcesync.Header{Capability: names.ArchiveOf(g.capability), Links: []resourcesync.Link{ // RA-DOC-01, RA-DOC-03
		{Rel: resourcesync.RelUp, Href: g.docs.CapabilityList(g.set)}}}
}

func (g *archiving) put(ctx context.Context, name string, h resourcesync.Header, stamp time.Time, entries []resourcesync.Entry) error {
	w, err := g.docs.WriteDocument(ctx, name, h, stamp, entries)
	if err != nil {
		return err
	}
	defer w.Close() // does nothing after Commit
	return g.docs.Commit(ctx, w)
}

// withdrawArchives removes the entry documents of archives there are to be no
// more, which no Capability List names any more, and forgets them. Parts and
// what they named go as everything does that is not named.
func (s *Source) withdrawArchives(ctx context.Context, set Set, there func(name string) bool, kinds ...resourcesync.Capability) error {
	var gone []string
	kept := make(map[resourcesync.Capability]bool)
	for _, c := range kinds {
		name := names.Archive(set.Name, c)
		if kept[c] = set.Archive.of(c) != nil; !kept[c] && there(name) {
			gone = append(gone, name)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	m, err := s.loadRemembered(ctx, set.Name, isDump(kinds[0]))
	if err != nil {
		return err
	}
	for c := range m.Archives {
		if !kept[c] {
			delete(m.Archives, c)
		}
	}
	data, err := json.Marshal(m)
	if err == nil {
		err = s.docs.CommitBlob(ctx, names.ArchiveState(set.Name, isDump(kinds[0])), append(data, '\n'), time.Time{})
	}
	if err == nil {
		err = s.docs.Remove(ctx, gone...)
	}
	if err != nil {
		return fmt.Errorf("withdraw archives: %w", err)
	}
	for _, name := range gone {
		s.archives.put(name, nil)
	}
	return nil
}
