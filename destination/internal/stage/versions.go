package stage

import (
	"slices"
	"sync/atomic"

	"lockstep/destination/internal/desired"
)

// MaxVersions is the largest number of versions of one resource that are yielded,
// because each costs a pass over the changes.
const MaxVersions = 1000

// Versions controls how a stage yields versions of resources other than the last.
type Versions struct {
	Keep    bool         // keep all versions, so that they can be yielded
	Turn    int          // version of each resource to yield, from 1, unless it is the last; zero: the last
	More    atomic.Bool  // at least one such version was yielded
	TooMany atomic.Int64 // resources with more than MaxVersions
}

// keepsVersion reports whether w is to be kept in addition to a later change.
func (g *group) keepsVersion(w *desired.Resource) bool {
	return g.stage.Versions.Keep && w.Class == desired.Changed && len(g.versions) <= MaxVersions
}

// version returns the change with the version number turn.
func (g *group) version(turn int) (desired.Resource, bool) {
	list := slices.DeleteFunc(slices.Clone(g.versions), func(w *desired.Resource) bool { return g.stage.done(w) })
	list = g.once(list)
	if len(list) > MaxVersions && turn == 1 {
		g.stage.Versions.TooMany.Add(1)
	}
	if turn >= len(list) || len(list) > MaxVersions {
		return desired.Resource{}, false // the last is yielded as the entry that prevails
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
	g.stage.Versions.More.Store(true)
	w := *list[turn-1]
	w.Companion = g.mark != nil
	if w.Member.Package == 0 {
		w.Member = g.place(&w)
	}
	return w, true
}

// once removes duplicates of changes that overlapping documents list, such as an
// archived and the current one.
func (g *group) once(list []*desired.Resource) []*desired.Resource {
	first := make(map[string]int, len(list)) // the document, by fingerprint
	return slices.DeleteFunc(list, func(w *desired.Resource) bool {
		at := g.stage.EventTime(w)
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
