package destination

import (
	"slices"
	"sync/atomic"

	"lockstep/destination/internal/desired"
)

// maxVersions is how many versions of one resource are applied in one run:
// each costs a pass over the changes.
const maxVersions = 1000

// turns are how a stage yields versions of resources other than the last.
type turns struct {
	keep bool         // changes are kept for it
	now  int          // the version to be yielded of each resource, from 1, unless it is the last; zero: the last
	more atomic.Bool  // there were some to be yielded
	many atomic.Int64 // resources with more than maxVersions
}

// keepsVersion reports whether w is to be kept in addition to a later change.
func (g *group) keepsVersion(w *desired.Resource) bool {
	return g.stage.turns.keep && w.Class == desired.Changed && len(g.versions) <= maxVersions
}

// version returns the change of the group whose turn it is.
func (g *group) version(turn int) (desired.Resource, bool) {
	list := slices.DeleteFunc(slices.Clone(g.versions), func(w *desired.Resource) bool { return g.stage.done(w) })
	list = g.once(list)
	if len(list) > maxVersions && turn == 1 {
		g.stage.turns.many.Add(1)
	}
	if turn >= len(list) || len(list) > maxVersions {
		return desired.Resource{}, false // the last is the last word
	}
	slices.SortStableFunc(list, func(a, b *desired.Resource) int {
		switch {
		case g.stage.later(a, b):
			return -1
		case g.stage.later(b, a):
			return 1
		}
		return 0
	})
	g.stage.turns.more.Store(true)
	w := *list[turn-1]
	if w.Member.Package == 0 {
		w.Member = g.place(&w)
	}
	return w, true
}

// once removes duplicates of changes that overlapping documents list: archived
// ones, and the current one.
func (g *group) once(list []*desired.Resource) []*desired.Resource {
	first := make(map[string]int, len(list)) // the document, by fingerprint
	return slices.DeleteFunc(list, func(w *desired.Resource) bool {
		at := g.stage.eventTime(w)
		if at.IsZero() {
			return false
		}
		f := desired.Fingerprint(w, at)
		doc, ok := first[f]
		if !ok {
			first[f] = w.Doc
		}
		return ok && doc != w.Doc
	})
}
