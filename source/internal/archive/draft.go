// Package archive keeps the archives of a Source's documents: which of the
// earlier documents of a kind they name, and how long.
package archive

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"sort"
	"time"

	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source/internal/names"
)

// A Retain says which documents an archive names: all there ever were, the
// newest Count, or those not older than Age; one of the three is set. Whatever
// it says, the newest stays, and so does what is part of the current Change List
// or Change Dump, which Count does not count.
type Retain struct {
	All   bool
	Count int
	Age   time.Duration
	Every time.Duration // how far apart Resource Lists are at least
}

// A Pointer is what an archive says of a document (RA-GEN-03).
type Pointer struct {
	Name  string      `json:"name"`
	At    time.Time   `json:"at,omitzero"`   // of a Resource List or Resource Dump
	From  time.Time   `json:"from,omitzero"` // of a Change List or Change Dump
	Until time.Time   `json:"until,omitzero"`
	Seq   catalog.Seq `json:"seq"` // last change before At, or before the first in it; -1: not known
}

// end returns the latest instant that the document covers.
func (p *Pointer) end() time.Time {
	if p.At.IsZero() {
		return p.Until
	}
	return p.At
}

// compare orders documents as they are in archives (RA-RES-03, RA-CHG-03).
func (p Pointer) compare(o Pointer) int {
	return cmp.Or(p.At.Compare(o.At), p.From.Compare(o.From), p.Until.Compare(o.Until))
}

// same reports whether both are of one document, or of documents that say the
// same (RA-GEN-11).
func (p Pointer) same(o Pointer) bool {
	return p.Name == o.Name || p.At.IsZero() && p.From.Equal(o.From) && p.Until.Equal(o.Until)
}

func (p *Pointer) entry(b names.Base) resourcesync.Entry {
	return resourcesync.Entry{Loc: b.URI(p.Name), Metadata: resourcesync.Metadata{ // RA-DOC-05, RA-DOC-08
		At:    resourcesync.NewDatetime(p.At),   // RA-RES-01
		From:  resourcesync.NewDatetime(p.From), // RA-CHG-01
		Until: resourcesync.NewDatetime(p.Until),
	}}
}

// An archived is what a set's archive of one kind says: all in one document, or
// an index over parts (RA-GEN-04). Once there is an index, it stays. It does
// not change; slices are shared with the next.
type archived struct {
	Index bool
	Parts []archivePart // at least one
}

// An archivePart is one archive, oldest pointers first.
type archivePart struct {
	Name     string
	Pointers []Pointer
}

// all yields all pointers, oldest first.
func (a *archived) all() iter.Seq[*Pointer] {
	return func(yield func(*Pointer) bool) {
		if a == nil {
			return
		}
		for i := range a.Parts {
			for j := range a.Parts[i].Pointers {
				if !yield(&a.Parts[i].Pointers[j]) {
					return
				}
			}
		}
	}
}

// newest returns the last pointer, nil if there is none.
func (a *archived) newest() *Pointer {
	if a == nil {
		return nil
	}
	for i := len(a.Parts) - 1; i >= 0; i-- {
		if ps := a.Parts[i].Pointers; len(ps) > 0 {
			return &ps[len(ps)-1]
		}
	}
	return nil
}

// A Draft is an archive on its way from one published state to the next.
type Draft struct {
	Capability resourcesync.Capability // of the documents it names
	archives   *Archives
	set        string
	retain     *Retain
	next       archived
	dirty      map[string]bool // documents to be written
	left       map[string]bool // documents it named and does not any more

	settled      archived // next and dirty as Reset finds them
	settledDirty map[string]bool
}

// begin returns a draft that begins with a, which may be nil; published says whether it is.
func (s *Archives) begin(set string, c resourcesync.Capability, r *Retain, a *archived, published bool) *Draft {
	g := &Draft{archives: s, set: set, Capability: c, retain: r, dirty: make(map[string]bool), left: make(map[string]bool)}
	if a == nil {
		a, published = &archived{Parts: []archivePart{{Name: names.Set(set).Archive(c)}}}, false // RA-DOC-11
	}
	g.next = a.clone()
	if !published {
		g.rewrite()
	}
	return g
}

// All yields what the archive names, oldest first.
func (g *Draft) All() iter.Seq[*Pointer] { return g.next.all() }

// Newest returns the newest document that the archive names; nil if there is
// none.
func (g *Draft) Newest() *Pointer { return g.next.newest() }

// Parts returns the names of the documents that hold the pointers.
func (g *Draft) Parts() []string {
	var parts []string
	for _, p := range g.next.Parts {
		parts = append(parts, p.Name)
	}
	return parts
}

// Left reports whether the archive named the document and no longer does.
func (g *Draft) Left(name string) bool { return g.left[name] }

// Every returns how far apart the documents are at least.
func (g *Draft) Every() time.Duration { return g.retain.Every }

// clone returns a copy that can be changed; the slices of pointers are shared.
func (a *archived) clone() archived { return archived{Index: a.Index, Parts: slices.Clone(a.Parts)} }

// settle has Reset come back to what is planned now.
func (g *Draft) settle() { g.settled, g.settledDirty = g.next.clone(), maps.Clone(g.dirty) }

// Reset takes back what was planned since settle.
func (g *Draft) Reset() {
	if g != nil {
		g.next, g.dirty = g.settled.clone(), maps.Clone(g.settledDirty)
	}
}

// rewrite has all documents written.
func (g *Draft) rewrite() {
	g.dirty[names.Set(g.set).Archive(g.Capability)] = true
	for _, p := range g.next.Parts {
		g.dirty[p.Name] = true
	}
}

// Changed reports whether there is anything to publish.
func (g *Draft) Changed() bool { return g != nil && len(g.dirty) > 0 }

// Add has the archive name p, unless it does already.
func (g *Draft) Add(p Pointer) {
	last := len(g.next.Parts) - 1
	if n := g.next.newest(); n != nil && n.compare(p) >= 0 {
		if !g.Names(p) { // RA-DOC-09
			g.insert(p)
		}
		return
	}
	if len(g.next.Parts[last].Pointers) >= g.archives.limit() {
		if !g.next.Index {
			g.next.Index = true
			g.next.Parts[0].Name = names.Set(g.set).ArchivePart(g.Capability, 1)
			g.dirty[g.next.Parts[0].Name] = true
		}
		g.next.Parts = append(g.next.Parts, archivePart{Name: names.Set(g.set).ArchivePart(g.Capability, g.highest()+1)})
		g.dirty[names.Set(g.set).Archive(g.Capability)] = true
		last++
	}
	part := &g.next.Parts[last]
	part.Pointers = append(slices.Clip(part.Pointers), p)
	g.dirty[part.Name] = true
}

// Names reports whether the archive names the document, or one that says the
// same.
func (g *Draft) Names(p Pointer) bool {
	for o := range g.next.all() {
		if o.same(p) {
			return true
		}
	}
	return false
}

// highest returns the highest number of a part.
func (g *Draft) highest() (n int) {
	for _, p := range g.next.Parts {
		n = max(n, names.Set(g.set).ArchivePartNumber(g.Capability, p.Name))
	}
	return n
}

// insert adds a pointer that does not belong at the end: all parts are made
// again, under names of their own.
func (g *Draft) insert(p Pointer) {
	all := []Pointer{p}
	for o := range g.next.all() {
		all = append(all, *o)
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].compare(all[j]) < 0 })
	number := g.highest()
	g.next = chunk(g.set, g.Capability, all, g.archives.limit(), number, g.next.Index)
	g.rewrite()
}

// chunk spreads pointers over as few documents as hold them, whose numbers
// follow number.
func chunk(set string, c resourcesync.Capability, all []Pointer, limit, number int, index bool) archived {
	if len(all) <= limit && !index {
		return archived{Parts: []archivePart{{Name: names.Set(set).Archive(c), Pointers: all}}}
	}
	a := archived{Index: true}
	for ps := range slices.Chunk(all, limit) {
		number++
		a.Parts = append(a.Parts, archivePart{Name: names.Set(set).ArchivePart(c, number), Pointers: slices.Clip(ps)})
	}
	return a
}

// Drop has the archive name no document any more of which out says so.
func (g *Draft) Drop(out func(*Pointer) bool) (dropped int) {
	for i := range g.next.Parts {
		part := &g.next.Parts[i]
		if !slices.ContainsFunc(part.Pointers, func(p Pointer) bool { return out(&p) }) {
			continue
		}
		rest := slices.DeleteFunc(slices.Clone(part.Pointers), func(p Pointer) bool {
			gone := out(&p)
			g.left[p.Name] = g.left[p.Name] || gone
			return gone
		})
		if n := len(part.Pointers) - len(rest); n > 0 {
			part.Pointers = rest
			g.dirty[part.Name] = true
			dropped += n
		}
	}
	if n := len(g.next.Parts); n > 1 {
		last := g.next.Parts[n-1]
		g.next.Parts = slices.DeleteFunc(g.next.Parts, func(p archivePart) bool { return len(p.Pointers) == 0 && p.Name != last.Name })
		if len(g.next.Parts) < n {
			g.dirty[names.Set(g.set).Archive(g.Capability)] = true
		}
	}
	return dropped
}

// ForgetSeqs notes that the numbers of changes are those of another catalog.
func (g *Draft) ForgetSeqs() {
	for i := range g.next.Parts {
		part := &g.next.Parts[i]
		part.Pointers = slices.Clone(part.Pointers)
		for j := range part.Pointers {
			part.Pointers[j].Seq = -1
		}
		g.dirty[part.Name] = true
	}
}

// Expire drops what is not to be kept any more (RA-GEN-13). What is part of a
// current document, as current says, stays.
func (g *Draft) Expire(current func(*Pointer) bool) {
	newest := g.next.newest()
	if g.retain.All || newest == nil {
		return
	}
	over, now := -g.retain.Count, g.archives.docs.Now()
	stays := func(p *Pointer) bool { return p.Name == newest.Name || current(p) }
	for p := range g.next.all() {
		if g.retain.Count > 0 && !current(p) {
			over++
		}
	}
	out := make(map[string]bool)
	for p := range g.next.all() {
		if stays(p) {
			continue
		}
		if over > 0 || g.retain.Age > 0 && now.Sub(p.end()) > g.retain.Age {
			out[p.Name] = true
			over--
		}
	}
	if len(out) > 0 {
		g.Drop(func(p *Pointer) bool { return out[p.Name] })
	}
}

// limit returns how many documents one archive can name.
func (s *Archives) limit() int {
	// An address, escaped at worst, and what is said of the document.
	entry := int64(6*(len(s.docs.Base.Prefix)+200) + 300)
	return int(max(1, min(int64(s.docs.MaxEntries), s.docs.MaxBytes/entry-1))) // RA-GEN-05
}

// NotCurrent is the function current of [Archives.Open] and [Draft.Expire] for
// documents that are not part of others.
func NotCurrent(*Pointer) bool { return false }
