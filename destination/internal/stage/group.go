package stage

import (
	"lockstep/destination/internal/desired"
)

// A group contains the entries for one URI, which may be added in any order.
//
// It keeps the entry of each class that prevails; of changes also earlier ones that
// are steps of a chain of patches, see addChange.
type group struct {
	stage    *Stage
	best     [desired.Changed + 1]*desired.Resource // by class
	versions []*desired.Resource                    // changes, if every version is to be yielded
	packed   []*desired.Resource                    // Packed, at most maxPacked
	patched  []*desired.Resource                    // Changed with patches, unordered, at most maxPatched
	bare     *desired.Resource                      // the last change that no chain of patches can pass
	mark     *desired.Resource                      // Marked
}

const (
	// maxPacked is the largest number of packages in which the content of one
	// resource is looked for.
	maxPacked = 8

	// maxPatched is the number of changes of one resource kept in addition to the
	// last: a longer chain of patches costs more than it saves.
	maxPatched = 64
)

// add adds an entry, which belongs to the group from then on.
func (g *group) add(w *desired.Resource) {
	if w.Class == desired.Changed && (w.Doc < g.stage.void || g.stage.beyond(w)) {
		return
	}
	switch w.Class {
	case desired.Marked:
		g.mark = w
		return
	case desired.Packed:
		g.addPacked(w)
		return
	case desired.Changed:
		g.addChange(w)
		if g.keepsVersion(w) {
			g.versions = append(g.versions, w)
		}
	}
	if have := g.best[w.Class]; have == nil || g.stage.later(have, w) {
		g.best[w.Class] = w
	}
}

// addPacked keeps a member of a package. If there are too many, the last ones are
// kept, because they are likely to have the content of the entry that prevails.
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

// last returns the entry that prevails.
func (g *group) last() (desired.Resource, bool) {
	if turn := g.stage.Versions.Turn; turn > 0 {
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
		last.Type = listed.Type // a change need not repeat the media type
	}
	if owed := g.best[desired.Pending]; owed != nil && owed.Excused && !last.Gone {
		last.Excused = true
		last.MainURI = owed.MainURI
	}
	last.Companion = last.Companion || g.mark != nil
	last.Patches = g.chain(w)
	return last, true
}

// place returns a member of a package that, according to its manifest, has the
// content of w.
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

// word returns the entry that prevails among those that were not processed yet.
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

// all yields the entries that another group for the same URI needs to get the same
// result.
func (g *group) all(yield func(*desired.Resource) bool) {
	kept := map[*desired.Resource]bool{}
	for _, list := range [][]*desired.Resource{g.best[:], {g.bare, g.mark}, g.packed, g.patched, g.versions} {
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
