package stage

import (
	"slices"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/patch"
	"lockstep/resourcesync"
)

// addChange keeps a change as a step of a chain, or as the end of all chains that
// lead up to it (RS-REL-36).
func (g *group) addChange(w *desired.Resource) {
	if _, ok := patchOf(w); !ok {
		if g.bare == nil || g.stage.later(g.bare, w) {
			g.bare = w
		}
		return
	}
	if g.patched = append(g.patched, w); len(g.patched) <= maxPatched {
		return
	}
	// The first step is removed, and the chain begins with its result.
	g.sortPatched()
	first := g.patched[0]
	g.patched = slices.Delete(g.patched, 0, 1)
	if g.bare == nil || g.stage.later(g.bare, first) {
		g.bare = first
	}
}

func (g *group) sortPatched() {
	slices.SortStableFunc(g.patched, func(a, b *desired.Resource) int {
		switch {
		case a == b:
			return 0
		case g.stage.later(a, b):
			return -1
		}
		return 1
	})
}

// patchOf returns the patch of a change to be used: the shortest of those of a
// known type (RS-REL-35, RS-REL-37). A patch without a stated length is not used,
// because it is unknown whether it saves anything.
func patchOf(w *desired.Resource) (best resourcesync.Link, ok bool) {
	if w.Gone {
		return best, false
	}
	for _, l := range w.Links {
		if l.Rel == resourcesync.RelPatch && l.HasLength && patch.Known(l.Type) && (!ok || l.Length < best.Length) {
			best, ok = l, true
		}
	}
	return best, ok
}

// chain returns the patches that lead to w, the first one first. Whether the
// version held is one of their starting points is decided later.
func (g *group) chain(w *desired.Resource) []desired.Patch {
	if w.Class != desired.Changed || len(g.patched) == 0 || len(w.Hashes) == 0 || w.Length < 0 {
		return nil
	}
	g.sortPatched()
	start := desired.Patch{FromHeld: g.best[desired.Listed] == nil && g.best[desired.Pending] == nil}
	switch {
	case g.bare != nil:
		start.From, start.FromHeld = g.bare.Hashes, start.FromHeld && g.stage.done(g.bare)
	case g.best[desired.Listed] != nil:
		start.From = g.best[desired.Listed].Hashes
	}
	var steps []desired.Patch
	var last *desired.Resource
	for _, c := range g.patched {
		if g.bare != nil && !g.stage.later(g.bare, c) {
			continue
		}
		if g.stage.done(c) {
			start.From = c.Hashes
			continue
		}
		if last = c; content.Compare(start.From, c.Hashes) == content.Same {
			continue // listed twice, or only its description changed
		}
		next := start
		next.Length = c.Length
		next.Link, _ = patchOf(c)
		next.Member = g.packedPatch(c, &next.Link)
		steps = append(steps, next)
		start = desired.Patch{From: c.Hashes}
	}
	if last != w {
		return nil
	}
	return steps
}

// packedPatch returns the location of the patch of change c in a package: the
// package whose manifest describes the change, or one whose manifest describes the
// same representation (RS-CDM-06).
func (g *group) packedPatch(c *desired.Resource, l *resourcesync.Link) desired.Member {
	if c.ManifestPackage > 0 && l.Path != "" {
		return desired.Member{Package: c.ManifestPackage, Path: l.Path}
	}
	for _, p := range g.packed {
		if p.ManifestPackage == 0 || !desired.SameRepresentation(p, c) {
			continue
		}
		for i := range p.Links {
			if o := &p.Links[i]; o.Rel == resourcesync.RelPatch && o.Href == l.Href && o.Path != "" {
				return desired.Member{Package: p.ManifestPackage, Path: o.Path}
			}
		}
	}
	return desired.Member{}
}
