package destination

import (
	"lockstep/destination/internal/desired"
)

// A group is what was said of one URI, in whatever order it comes.
//
// Of each class one want is kept, the last word of that class; of changes also
// the earlier ones, where they are steps of a chain of patches: see addChange.
type group struct {
	stage    *stage
	best     [desired.Changed + 1]*desired.Resource // by class
	versions []*desired.Resource                    // Changed, where every version is wanted
	packed   []*desired.Resource                    // Packed, at most maxPacked
	patched  []*desired.Resource                    // Changed with patches, unordered, at most maxPatched
	bare     *desired.Resource                      // the last Changed that no chain of patches leads over
}

const (
	// maxPacked is in how many packages the content of one resource is looked
	// for.
	maxPacked = 8

	// maxPatched is how many changes of one resource are kept in addition to
	// the last: a longer chain of patches costs more than it saves.
	maxPatched = 64
)

func (g *group) add(w *desired.Resource) {
	if w.Class == desired.Changed && (w.Doc < g.stage.void || g.stage.beyond(w)) {
		return
	}
	own := *w // what is handed in belongs to the caller
	switch w.Class {
	case desired.Packed:
		g.addPacked(&own)
		return
	case desired.Changed:
		g.addChange(&own)
		if g.keepsVersion(w) {
			g.versions = append(g.versions, &own)
		}
	}
	if have := g.best[w.Class]; have == nil || g.stage.later(have, w) {
		g.best[w.Class] = &own
	}
}

// addPacked keeps a hint: where they are many, those that came last, for the
// last word is looked for.
func (g *group) addPacked(w *desired.Resource) {
	if len(g.packed) < maxPacked {
		g.packed = append(g.packed, w)
		return
	}
	first := 0
	for i, p := range g.packed {
		if q := g.packed[first]; p.Doc < q.Doc || p.Doc == q.Doc && p.Pos < q.Pos {
			first = i
		}
	}
	if f := g.packed[first]; w.Doc > f.Doc || w.Doc == f.Doc && w.Pos > f.Pos {
		g.packed[first] = w
	}
}

// last returns the change that prevails.
func (g *group) last() (desired.Resource, bool) {
	if turn := g.stage.turns.now; turn > 0 {
		return g.version(turn)
	}
	w := g.word()
	if w == nil {
		return desired.Resource{}, false
	}
	if w.Member.Package == 0 {
		w.Member = g.place(w)
	}
	last := *w
	if listed := g.best[desired.Listed]; last.Type == "" && !last.Gone && listed != nil {
		last.Type = listed.Type // a change need not repeat it
	}
	if owed := g.best[desired.Pending]; owed != nil && owed.Excused && !last.Gone {
		last.Excused = true
		last.MainURI = owed.MainURI
	}
	last.Patches = g.chain(w)
	return last, true
}

// place returns the place in a package that is said to hold what w asks for.
func (g *group) place(w *desired.Resource) desired.Member {
	if l := g.best[desired.Listed]; l != nil && l.Member.Package > 0 && l != w && desired.SameRepresentation(l, w) {
		return l.Member
	}
	for _, p := range g.packed {
		if desired.SameRepresentation(p, w) {
			return p.Member
		}
	}
	return desired.Member{}
}

func (g *group) word() *desired.Resource {
	if w := g.best[desired.Changed]; w != nil && !g.stage.done(w) {
		return w
	}
	for _, class := range []desired.Class{desired.Listed, desired.Pending} {
		if w := g.best[class]; w != nil {
			return w
		}
	}
	return nil
}

// all yields what has to be kept of the group: what another group of the same
// URI needs to come to the same last word.
func (g *group) all(yield func(*desired.Resource) bool) {
	kept := map[*desired.Resource]bool{}
	for _, list := range [][]*desired.Resource{g.best[:], {g.bare}, g.packed, g.patched, g.versions} {
		for _, w := range list {
			if w == nil || kept[w] {
				continue
			}
			kept[w] = true
			if !yield(w) {
				return
			}
		}
	}
}
