package source

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source/internal/names"
)

// An Archive says which documents of a set's past stay, by kind (RA-GEN-02). A
// kind that is nil has no archive; one that was there is withdrawn.
type Archive struct {
	ResourceLists *Retain
	ResourceDumps *Retain
	ChangeLists   *Retain
	ChangeDumps   *Retain
}

// A Retain says which documents an archive names: all there ever were, the
// newest Count, or those not older than Age; one of the three is set. Whatever
// it says, the newest stays, and so does what is part of the current Change List
// or Change Dump, which Count does not count. What leaves stays retrievable for
// Options.Grace (RA-GEN-13).
type Retain struct {
	All   bool
	Count int
	Age   time.Duration

	// Every is how far apart Resource Lists in the archive are at least: one
	// that is taken earlier replaces the last without ever being archived. 0: all
	// that are taken are archived. It means nothing for other kinds.
	Every time.Duration
}

// check refuses what cannot be meant.
func (a *Archive) check() error {
	if a == nil {
		return nil
	}
	for _, r := range []struct {
		kind string
		*Retain
	}{{"Resource Lists", a.ResourceLists}, {"Resource Dumps", a.ResourceDumps}, {"Change Lists", a.ChangeLists}, {"Change Dumps", a.ChangeDumps}} {
		if r.Retain == nil {
			continue
		}
		ways := 0
		for _, given := range []bool{r.All, r.Count != 0, r.Age != 0} {
			if given {
				ways++
			}
		}
		if ways != 1 || r.Count < 0 || r.Age < 0 || r.Every < 0 {
			return fmt.Errorf("archive of %s: want all, a number of documents above 0, or an age", r.kind)
		}
	}
	return nil
}

// of returns what is kept of the documents that have capability c; nil: no
// archive is.
func (a *Archive) of(c resourcesync.Capability) *Retain {
	if a == nil {
		return nil
	}
	switch c {
	case resourcesync.ResourceList:
		return a.ResourceLists
	case resourcesync.ResourceDump:
		return a.ResourceDumps
	case resourcesync.ChangeList:
		return a.ChangeLists
	case resourcesync.ChangeDump:
		return a.ChangeDumps
	}
	return nil
}

// A pointer is what an archive says of a document (RA-GEN-03).
type pointer struct {
	Name  string      `json:"name"`
	At    time.Time   `json:"at,omitzero"`   // of a Resource List or Resource Dump
	From  time.Time   `json:"from,omitzero"` // of a Change List or Change Dump
	Until time.Time   `json:"until,omitzero"`
	Seq   catalog.Seq `json:"seq"` // last change before At, or before the first it tells of; -1: not known
}

// end returns the latest instant the document tells of.
func (p *pointer) end() time.Time {
	if p.At.IsZero() {
		return p.Until
	}
	return p.At
}

// compare orders documents as they stand in archives (RA-RES-03, RA-CHG-03).
func (p pointer) compare(o pointer) int {
	return cmp.Or(p.At.Compare(o.At), p.From.Compare(o.From), p.Until.Compare(o.Until))
}

// same reports whether both are of one document, or of documents that tell the
// same (RA-GEN-11).
func (p pointer) same(o pointer) bool {
	return p.Name == o.Name || p.At.IsZero() && p.From.Equal(o.From) && p.Until.Equal(o.Until)
}

func (p *pointer) entry(b names.Base) resourcesync.Entry {
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
	Pointers []pointer
}

// all yields all pointers, oldest first.
func (a *archived) all() iter.Seq[*pointer] {
	return func(yield func(*pointer) bool) {
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
func (a *archived) newest() *pointer {
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

// An archiving is an archive on its way from one published state to the next.
type archiving struct {
	*Source
	set        string
	capability resourcesync.Capability // of the documents it names
	retain     *Retain
	next       archived
	dirty      map[string]bool // documents to be written
	left       map[string]bool // documents it named and does not any more

	settled      archived // next and dirty as reset finds them
	settledDirty map[string]bool
}

// archiving begins with a, which may be nil; published says whether it is.
func (s *Source) archiving(set string, c resourcesync.Capability, r *Retain, a *archived, published bool) *archiving {
	g := &archiving{Source: s, set: set, capability: c, retain: r, dirty: make(map[string]bool), left: make(map[string]bool)}
	if a == nil {
		a, published = &archived{Parts: []archivePart{{Name: names.Archive(set, c)}}}, false // RA-DOC-11
	}
	g.next = a.clone()
	if !published {
		g.rewrite()
	}
	return g
}

// clone returns a copy that can be changed; the slices of pointers are shared.
func (a *archived) clone() archived { return archived{Index: a.Index, Parts: slices.Clone(a.Parts)} }

// settle has reset come back to what is planned now.
func (g *archiving) settle() { g.settled, g.settledDirty = g.next.clone(), maps.Clone(g.dirty) }

// reset takes back what was planned since settle.
func (g *archiving) reset() {
	if g != nil {
		g.next, g.dirty = g.settled.clone(), maps.Clone(g.settledDirty)
	}
}

// rewrite has all documents written.
func (g *archiving) rewrite() {
	g.dirty[names.Archive(g.set, g.capability)] = true
	for _, p := range g.next.Parts {
		g.dirty[p.Name] = true
	}
}

// changed reports whether there is anything to publish.
func (g *archiving) changed() bool { return g != nil && len(g.dirty) > 0 }

// add has the archive name p, unless it does already.
func (g *archiving) add(p pointer) {
	last := len(g.next.Parts) - 1
	if n := g.next.newest(); n != nil && n.compare(p) >= 0 {
		if !g.names(p) { // RA-DOC-09
			g.insert(p)
		}
		return
	}
	if len(g.next.Parts[last].Pointers) >= g.archiveLimit() {
		if !g.next.Index {
			g.next.Index = true
			g.next.Parts[0].Name = names.ArchivePart(g.set, g.capability, 1)
			g.dirty[g.next.Parts[0].Name] = true
		}
		g.next.Parts = append(g.next.Parts, archivePart{Name: names.ArchivePart(g.set, g.capability, g.highest()+1)})
		g.dirty[names.Archive(g.set, g.capability)] = true
		last++
	}
	part := &g.next.Parts[last]
	part.Pointers = append(slices.Clip(part.Pointers), p)
	g.dirty[part.Name] = true
}

// names reports whether the archive names the document, or one that tells the
// same.
func (g *archiving) names(p pointer) bool {
	for o := range g.next.all() {
		if o.same(p) {
			return true
		}
	}
	return false
}

// highest returns the highest number of a part.
func (g *archiving) highest() (n int) {
	for _, p := range g.next.Parts {
		n = max(n, names.ArchivePartNumber(g.set, g.capability, p.Name))
	}
	return n
}

// insert adds a pointer that does not belong at the end: all parts are made
// anew, under names of their own.
func (g *archiving) insert(p pointer) {
	all := []pointer{p}
	for o := range g.next.all() {
		all = append(all, *o)
	}
	slices.SortStableFunc(all, pointer.compare)
	number := g.highest()
	g.next = chunk(g.set, g.capability, all, g.archiveLimit(), number, g.next.Index)
	g.rewrite()
}

// chunk spreads pointers over as few documents as hold them, whose numbers
// follow number.
func chunk(set string, c resourcesync.Capability, all []pointer, limit, number int, index bool) archived {
	if len(all) <= limit && !index {
		return archived{Parts: []archivePart{{Name: names.Archive(set, c), Pointers: all}}}
	}
	a := archived{Index: true}
	for ps := range slices.Chunk(all, limit) {
		number++
		a.Parts = append(a.Parts, archivePart{Name: names.ArchivePart(set, c, number), Pointers: slices.Clip(ps)})
	}
	return a
}

// drop has the archive name no document any more of which out says so.
func (g *archiving) drop(out func(*pointer) bool) (dropped int) {
	for i := range g.next.Parts {
		part := &g.next.Parts[i]
		if !slices.ContainsFunc(part.Pointers, func(p pointer) bool { return out(&p) }) {
			continue
		}
		rest := slices.DeleteFunc(slices.Clone(part.Pointers), func(p pointer) bool {
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
			g.dirty[names.Archive(g.set, g.capability)] = true
		}
	}
	return dropped
}

// forgetSeqs notes that the numbers of changes are those of another catalog.
func (g *archiving) forgetSeqs() {
	for i := range g.next.Parts {
		part := &g.next.Parts[i]
		part.Pointers = slices.Clone(part.Pointers)
		for j := range part.Pointers {
			part.Pointers[j].Seq = -1
		}
		g.dirty[part.Name] = true
	}
}

// expire drops what is not to be kept any more (RA-GEN-13). What is part of a
// current document, as current says, stays.
func (g *archiving) expire(current func(*pointer) bool) {
	newest := g.next.newest()
	if g.retain.All || newest == nil {
		return
	}
	over, now := -g.retain.Count, g.docs.Now()
	stays := func(p *pointer) bool { return p.Name == newest.Name || current(p) }
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
		g.drop(func(p *pointer) bool { return out[p.Name] })
	}
}

// archiveLimit returns how many documents one archive can name.
func (s *Source) archiveLimit() int {
	// An address, escaped at worst, and what is said of the document.
	entry := int64(6*(len(s.docs.Base.Prefix)+200) + 300)
	return int(max(1, min(int64(s.docs.MaxEntries), s.docs.MaxBytes/entry-1))) // RA-GEN-05
}
