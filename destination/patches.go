package destination

import (
	"slices"

	"lockstep/patch"
	"lockstep/resourcesync"
)

// A step is one link of a chain of patches: what turns one version of a
// resource into the next.
type step struct {
	from   resourcesync.Hashes // of the version it starts from; none if that is not told
	sure   bool                // that version is the one held, if from does not say otherwise
	length int64               // of the version it makes; -1 if that is not told
	link   resourcesync.Link   // to the patch
}

// addChange keeps a change as a step of a chain, or as the end of all chains
// that lead up to it (RS-REL-36).
func (g *group) addChange(w *want) {
	if _, ok := patchOf(w); !ok {
		if g.bare == nil || g.stage.later(g.bare, w) {
			g.bare = w
		}
		return
	}
	if g.patched = append(g.patched, w); len(g.patched) <= maxPatched {
		return
	}
	// The first goes: the chain begins with what it made.
	g.sortPatched()
	first := g.patched[0]
	g.patched = slices.Delete(g.patched, 0, 1)
	if g.bare == nil || g.stage.later(g.bare, first) {
		g.bare = first
	}
}

func (g *group) sortPatched() {
	slices.SortStableFunc(g.patched, func(a, b *want) int {
		switch {
		case a == b:
			return 0
		case g.stage.later(a, b):
			return -1
		}
		return 1
	})
}

// patchOf returns the patch of a change that is to be used: of those of known
// type the shortest (RS-REL-35, RS-REL-37). Without its length nobody can tell
// whether it pays.
func patchOf(w *want) (best resourcesync.Link, ok bool) {
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

// chain returns the patches that lead to w, the first one first. Whether what
// is held is where they start is for [action.chainFrom] to say.
func (g *group) chain(w *want) []step {
	if w.class != wantChange || len(g.patched) == 0 || len(w.Hashes) == 0 || w.Length < 0 {
		return nil
	}
	g.sortPatched()
	start := step{sure: g.best[wantListed] == nil && g.best[wantOwed] == nil}
	switch {
	case g.bare != nil:
		start.from, start.sure = g.bare.Hashes, start.sure && g.stage.done(g.bare)
	case g.best[wantListed] != nil:
		start.from = g.best[wantListed].Hashes
	}
	var steps []step
	var last *want
	for _, c := range g.patched {
		if g.bare != nil && !g.stage.later(g.bare, c) {
			continue
		}
		if g.stage.done(c) {
			start.from = c.Hashes
			continue
		}
		if last = c; likeHashes(start.from, c.Hashes) == same {
			continue // said twice, or a change of nothing but its description
		}
		next := start
		next.length = c.Length
		next.link, _ = patchOf(c)
		steps = append(steps, next)
		start = step{from: c.Hashes}
	}
	if last != w {
		return nil
	}
	return steps
}

// chainFrom returns the patches that turn what is held into what is wanted, if
// it is a version some of them start from (RS-REL-34).
func (a *action) chainFrom() []step {
	if !a.isHeld() || a.gone || len(a.held.Hashes) == 0 {
		return nil
	}
	for i := range slices.Backward(a.chain) {
		if likeHashes(a.held.Hashes, a.chain[i].from) == same {
			return a.chain[i:]
		}
	}
	if len(a.chain) > 0 && a.chain[0].sure && likeHashes(a.held.Hashes, a.chain[0].from) != different {
		return a.chain
	}
	return nil
}

// likeHashes compares hashes that may be of different algorithms.
func likeHashes(a, b resourcesync.Hashes) likeness {
	l := unknown
	for _, h := range a {
		if digest := b.Get(h.Algorithm); digest != "" {
			if digest != h.Digest {
				return different
			}
			l = same
		}
	}
	return l
}
