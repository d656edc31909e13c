package destination

// A group is what was said of one URI, in whatever order it comes.
//
// Of each class one want is kept, the last word of that class; of changes also
// the earlier ones, where they are steps of a chain of patches: see addChange.
type group struct {
	stage    *stage
	best     [wantChange + 1]*want // by class
	versions []*want               // wantChange, where every version is wanted
	packed   []*want               // wantPacked, at most maxPacked
	patched  []*want               // wantChange with patches, unordered, at most maxPatched
	bare     *want                 // the last wantChange that no chain of patches leads over
}

const (
	// maxPacked is in how many packages the content of one resource is looked
	// for.
	maxPacked = 8

	// maxPatched is how many changes of one resource are kept in addition to
	// the last: a longer chain of patches costs more than it saves.
	maxPatched = 64
)

func (g *group) add(w *want) {
	if w.class == wantChange && (w.doc < g.stage.void || g.stage.beyond(w)) {
		return
	}
	own := *w // what is handed in belongs to the caller
	switch w.class {
	case wantPacked:
		g.addPacked(&own)
		return
	case wantChange:
		g.addChange(&own)
		if g.keepsVersion(w) {
			g.versions = append(g.versions, &own)
		}
	}
	if have := g.best[w.class]; have == nil || g.stage.later(have, w) {
		g.best[w.class] = &own
	}
}

// addPacked keeps a hint: where they are many, those that came last, for the
// last word is looked for.
func (g *group) addPacked(w *want) {
	if len(g.packed) < maxPacked {
		g.packed = append(g.packed, w)
		return
	}
	first := 0
	for i, p := range g.packed {
		if q := g.packed[first]; p.doc < q.doc || p.doc == q.doc && p.pos < q.pos {
			first = i
		}
	}
	if f := g.packed[first]; w.doc > f.doc || w.doc == f.doc && w.pos > f.pos {
		g.packed[first] = w
	}
}

// last returns the change that prevails.
func (g *group) last() (want, bool) {
	if turn := g.stage.turns.now; turn > 0 {
		return g.version(turn)
	}
	w := g.word()
	if w == nil {
		return want{}, false
	}
	if w.Member.Package == 0 {
		w.Member = g.place(w)
	}
	last := *w
	if listed := g.best[wantListed]; last.Type == "" && !last.Gone && listed != nil {
		last.Type = listed.Type // a change need not repeat it
	}
	if owed := g.best[wantOwed]; owed != nil && owed.excused && !last.Gone {
		last.excused = true
		last.main = owed.main
	}
	last.chain = g.chain(w)
	return last, true
}

// place returns the place in a package that is said to hold what w asks for.
func (g *group) place(w *want) member {
	if l := g.best[wantListed]; l != nil && l.Member.Package > 0 && l != w && sameRepresentation(l, w) {
		return l.Member
	}
	for _, p := range g.packed {
		if sameRepresentation(p, w) {
			return p.Member
		}
	}
	return member{}
}

func (g *group) word() *want {
	if w := g.best[wantChange]; w != nil && !g.stage.done(w) {
		return w
	}
	for _, class := range []wantClass{wantListed, wantOwed} {
		if w := g.best[class]; w != nil {
			return w
		}
	}
	return nil
}

// sameRepresentation reports whether what a package holds, as its manifest says, is what w
// asks for: by a common hash, else by lastmod and length.
// The content is verified against w all the same.
func sameRepresentation(p, w *want) bool {
	if p.Gone || w.Gone {
		return false
	}
	common := false
	for _, h := range p.Hashes {
		if digest := w.Hashes.Get(h.Algorithm); digest != "" {
			if digest != h.Digest {
				return false
			}
			common = true
		}
	}
	if common {
		return true
	}
	if p.Length < 0 || p.Length != w.Length || p.Lastmod.IsZero() || p.Lastmod.Compare(w.Lastmod) != 0 {
		return false
	}
	// Several changes may have been made in one second: see compare.
	return w.Change == 0 || w.Lastmod.Time().Nanosecond() != 0
}

// all yields what has to be kept of the group: what another group of the same
// URI needs to come to the same last word.
func (g *group) all(yield func(*want) bool) {
	kept := map[*want]bool{}
	for _, list := range [][]*want{g.best[:], {g.bare}, g.packed, g.patched, g.versions} {
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
