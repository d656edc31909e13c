package archive

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"lockstep/internal/newerstate"
	"lockstep/resourcesync"
	"lockstep/source/internal/document"
	"lockstep/source/internal/names"
)

// Archives are the archives of a Source.
type Archives struct {
	docs *document.Store
	mu   sync.Mutex           // guards by
	by   map[string]*archived // what was published, by the name of the entry document
}

// New returns the archives of the documents.
func New(docs *document.Store) *Archives { return &Archives{docs: docs} }

func (m *Archives) get(name string) *archived {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.by[name]
}

func (m *Archives) put(name string, a *archived) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.by == nil {
		m.by = make(map[string]*archived)
	}
	if a == nil {
		delete(m.by, name)
		return
	}
	m.by[name] = a
}

// version numbers the layout of memory. Older ones are read, newer
// refused.
const version = 1

// A memory is what a Source remembers of a set's archives, those of its
// lists or those of its dumps, in one JSON blob. What archives name is what they
// say themselves; this is written before them, adds what they have no words for,
// and is what they are rebuilt from should they get lost.
type memory struct {
	Version        int                                   `json:"version"`
	CapabilityList string                                `json:"capability_list"` // the set; documents of another base URL are not ours to continue
	Archives       map[resourcesync.Capability][]Pointer `json:"archives"`        // by capability of the documents
}

// isDump reports whether c is the capability of dumps.
func isDump(c resourcesync.Capability) bool {
	return c == resourcesync.ResourceDump || c == resourcesync.ChangeDump
}

// Open returns the archive of the set's documents of one kind, nil if
// there is to be none. Documents that do not exist are not named any more, nor
// those whose time has come; current says of which that is too early. Those that exist
// although there does not have them are added to it.
func (s *Archives) Open(ctx context.Context, set string, c resourcesync.Capability, retain *Retain, there document.Listing, current func(*Pointer) bool) (*Draft, error) {
	if retain == nil {
		return nil, nil
	}
	entry := names.Set(set).Archive(c)
	a, published := s.get(entry), true
	var planned []Pointer
	if a == nil {
		var err error
		if a, planned, err = s.load(ctx, set, c); err != nil {
			return nil, fmt.Errorf("read archive: %w", err)
		}
		if published = a != nil; published && len(planned) == 0 {
			s.put(entry, a)
		}
	}
	g := s.begin(set, c, retain, a, published)
	var docNames []string
	for _, p := range planned {
		docNames = append(docNames, p.Name)
	}
	for p := range g.All() {
		docNames = append(docNames, p.Name)
	}
	if err := s.docs.Confirm(ctx, there, docNames...); err != nil {
		return nil, fmt.Errorf("look for archived documents: %w", err)
	}
	for _, p := range planned {
		if there.Known(p.Name) {
			g.Add(p)
		}
	}
	if !there.Known(entry) {
		g.rewrite()
	}
	for _, p := range g.next.Parts {
		if !there.Known(p.Name) {
			g.dirty[p.Name] = true
		}
	}
	if lost := g.Drop(func(p *Pointer) bool { return !there.Known(p.Name) }); lost > 0 { // RA-GEN-09
		s.docs.Log.WarnContext(ctx, "archived documents are gone and are not named any more", slog.String("set", set),
			slog.String("doc", entry), slog.Int("documents", lost))
	}
	g.Expire(current)
	g.settle()
	return g, nil
}

// load reads what is published, nil if that is nothing of ours, and what
// was planned beyond that, by a publication that was cut short, or before the
// archive got lost.
func (s *Archives) load(ctx context.Context, set string, c resourcesync.Capability) (a *archived, planned []Pointer, err error) {
	known, err := s.remembered(ctx, set, isDump(c))
	if err != nil {
		return nil, nil, err
	}
	if a, err = s.read(ctx, set, c); err != nil {
		return nil, nil, err
	}
	published := make(map[string]*Pointer)
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
		s.docs.Log.WarnContext(ctx, "archive was changed by another program, and is rebuilt", slog.String("set", set), slog.String("doc", names.Set(set).Archive(c)))
	}
	return a, planned, nil
}

// read reads a published archive; nil if there is none, or none as we
// write them.
func (s *Archives) read(ctx context.Context, set string, c resourcesync.Capability) (*archived, error) {
	name := names.Set(set).Archive(c)
	h, entries, err := s.readPart(ctx, set, c, name)
	if err != nil || h.Capability == "" {
		return nil, err
	}
	a := &archived{Index: h.Index}
	if !h.Index {
		pointers := s.parse(set, c, entries)
		if pointers == nil {
			return nil, nil
		}
		a.Parts = []archivePart{{Name: name, Pointers: pointers}}
		return a, nil
	}
	for _, e := range entries {
		part := strings.TrimPrefix(e.Loc, s.docs.Base.Prefix)
		if names.Set(set).ArchivePartNumber(c, part) == 0 {
			return nil, nil
		}
		ph, pe, err := s.readPart(ctx, set, c, part)
		if err != nil {
			return nil, err
		}
		pointers := s.parse(set, c, pe)
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

// readPart reads one document of an archive; the zero Header says that it
// is none.
func (s *Archives) readPart(ctx context.Context, set string, c resourcesync.Capability, name string) (h resourcesync.Header, entries []resourcesync.Entry, err error) {
	h, entries, _, err = s.docs.ReadDocument(ctx, name, func(h *resourcesync.Header) bool {
		return h.Capability == names.ArchiveOf(c) && h.Link(resourcesync.RelUp) == s.docs.CapabilityList(set)
	})
	return h, entries, err
}

// parse returns what entries of an archive point to; nil if that is nothing
// of ours.
func (s *Archives) parse(set string, c resourcesync.Capability, entries []resourcesync.Entry) []Pointer {
	pointers := make([]Pointer, 0, len(entries))
	for _, e := range entries {
		p := Pointer{Name: strings.TrimPrefix(e.Loc, s.docs.Base.Prefix), At: e.At.Time(), From: e.From.Time(), Until: e.Until.Time(), Seq: -1}
		if !p.sound(set, c) || len(pointers) > 0 && pointers[len(pointers)-1].compare(p) > 0 {
			return nil
		}
		pointers = append(pointers, p)
	}
	return pointers
}

// sound reports whether p can point to a document of that kind.
func (p *Pointer) sound(set string, c resourcesync.Capability) bool {
	snapshot := c == resourcesync.ResourceList || c == resourcesync.ResourceDump
	return names.Set(set).IsArchived(c, p.Name) && snapshot == !p.At.IsZero() && snapshot == p.From.IsZero() && snapshot == p.Until.IsZero() &&
		!p.Until.Before(p.From) && p.Seq >= -1
}

// remembered returns what is remembered of the archives of a set's lists,
// or of its dumps.
func (s *Archives) remembered(ctx context.Context, set string, dumps bool) (*memory, error) {
	name := names.Set(set).ArchiveState(dumps)
	fresh := &memory{Version: version, CapabilityList: s.docs.CapabilityList(set), Archives: make(map[resourcesync.Capability][]Pointer)}
	data, _, err := s.docs.ReadBlob(ctx, name)
	if err != nil || data == nil {
		return fresh, err
	}
	m := new(memory)
	if err := json.Unmarshal(data, m); err != nil {
		s.docs.Log.WarnContext(ctx, "state of archives is unreadable and will be rebuilt", slog.String("set", set), slog.Any("err", err))
		return fresh, nil
	}
	if m.Version > version {
		return nil, newerstate.Document(name, m.Version, version)
	}
	if m.CapabilityList != fresh.CapabilityList {
		return fresh, nil
	}
	for c, pointers := range m.Archives {
		if isDump(c) != dumps || slices.ContainsFunc(pointers, func(p Pointer) bool { return !p.sound(set, c) }) || !slices.IsSortedFunc(pointers, Pointer.compare) {
			s.docs.Log.WarnContext(ctx, "state of archives contradicts itself and will be rebuilt", slog.String("set", set))
			return fresh, nil
		}
	}
	m.Version = version
	return m, nil
}

// Publish commits those archives that have changed: what is remembered
// first. gs are all archives of a set's lists, or of its dumps; nil where there
// is none.
func (s *Archives) Publish(ctx context.Context, set string, dumps bool, stamp time.Time, gs ...*Draft) (written bool, err error) {
	if written, err = s.Remember(ctx, set, dumps, gs...); err != nil || !written {
		return false, err
	}
	for _, g := range gs {
		if err := g.Publish(ctx, stamp); err != nil {
			return true, err
		}
	}
	return true, nil
}

// Remember commits what archives are going to name, if any of them has changed.
func (s *Archives) Remember(ctx context.Context, set string, dumps bool, gs ...*Draft) (changed bool, err error) {
	if !slices.ContainsFunc(gs, (*Draft).Changed) {
		return false, nil
	}
	m := memory{Version: version, CapabilityList: s.docs.CapabilityList(set), Archives: make(map[resourcesync.Capability][]Pointer)}
	for _, g := range gs {
		if g == nil {
			continue
		}
		if g.Changed() {
			s.put(names.Set(set).Archive(g.Capability), nil) // should anything fail, what holds is in the blobs
		}
		m.Archives[g.Capability] = []Pointer{}
		for p := range g.next.all() {
			m.Archives[g.Capability] = append(m.Archives[g.Capability], *p)
		}
	}
	data, err := json.Marshal(m)
	if err != nil {
		return false, fmt.Errorf("write %s: %w", names.Set(set).ArchiveState(dumps), err)
	}
	return true, s.docs.CommitBlob(ctx, names.Set(set).ArchiveState(dumps), append(data, '\n'), time.Time{})
}

// Publish commits what has changed of the archive, if there is one: parts, the
// newest first, then the entry document.
func (g *Draft) Publish(ctx context.Context, stamp time.Time) error {
	if !g.Changed() {
		return nil
	}
	if err := g.commitAll(ctx, stamp); err != nil {
		return fmt.Errorf("publish archive: %w", err)
	}
	return nil
}

func (g *Draft) commitAll(ctx context.Context, stamp time.Time) error {
	entry := names.Set(g.set).Archive(g.Capability)
	for _, p := range slices.Backward(g.next.Parts) {
		if !g.dirty[p.Name] {
			continue
		}
		h := g.header()
		if g.next.Index {
			h.Links = append(h.Links, resourcesync.Link{Rel: resourcesync.RelIndex, Href: g.archives.docs.Base.URI(entry)}) // RA-DOC-04
		}
		entries := make([]resourcesync.Entry, len(p.Pointers))
		for i := range p.Pointers {
			entries[i] = p.Pointers[i].entry(g.archives.docs.Base)
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
			entries[i].Loc = g.archives.docs.Base.URI(p.Name) // RA-IDX-01, RA-IDX-02, RA-IDX-03: the address and nothing else
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
func (g *Draft) header() resourcesync.Header {
	return resourcesync.Header{Capability: names.ArchiveOf(g.Capability), Links: []resourcesync.Link{ // RA-DOC-01, RA-DOC-03
		{Rel: resourcesync.RelUp, Href: g.archives.docs.CapabilityList(g.set)}}}
}

func (g *Draft) put(ctx context.Context, name string, h resourcesync.Header, stamp time.Time, entries []resourcesync.Entry) error {
	w, err := g.archives.docs.WriteDocument(ctx, name, h, stamp, entries)
	if err != nil {
		return err
	}
	defer w.Close() // does nothing after Commit
	return g.archives.docs.Commit(ctx, w)
}

// Withdraw removes the entry documents of archives there are to be no
// more, which no Capability List names any more, and forgets them. Parts and
// what they named go as everything does that is not named.
func (s *Archives) Withdraw(ctx context.Context, set string, kept func(resourcesync.Capability) bool, there document.Listing, kinds ...resourcesync.Capability) error {
	var gone []string
	for _, c := range kinds {
		name := names.Set(set).Archive(c)
		if !kept(c) && there.Known(name) {
			gone = append(gone, name)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	m, err := s.remembered(ctx, set, isDump(kinds[0]))
	if err != nil {
		return err
	}
	for c := range m.Archives {
		if !kept(c) {
			delete(m.Archives, c)
		}
	}
	data, err := json.Marshal(m)
	if err == nil {
		err = s.docs.CommitBlob(ctx, names.Set(set).ArchiveState(isDump(kinds[0])), append(data, '\n'), time.Time{})
	}
	if err == nil {
		err = s.docs.Remove(ctx, gone...)
	}
	if err != nil {
		return fmt.Errorf("withdraw archives: %w", err)
	}
	for _, name := range gone {
		s.put(name, nil)
	}
	return nil
}

// Pointers returns what the archive of the set's documents of one kind names, or
// is about to.
func (s *Archives) Pointers(ctx context.Context, set string, c resourcesync.Capability) (all []Pointer, err error) {
	a := s.get(names.Set(set).Archive(c))
	if a == nil {
		if a, all, err = s.load(ctx, set, c); err != nil {
			return nil, err
		}
	}
	for p := range a.all() {
		all = append(all, *p)
	}
	return all, nil
}
