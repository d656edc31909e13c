package destination

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/wording"
	"lockstep/internal/fetch"
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

// errNoVersion reports a version whose content is unavailable.
var errNoVersion = errors.New("no package has it, and no memento is named")

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

// becomeVersion makes a the action for a version that is not the last: out of a
// package, or from its memento (RS-REL-51, RS-REL-54), never from the URI of
// the resource, where the last one is.
func (p *planner) becomeVersion(a *action) {
	switch a.verb {
	case verbRemove, verbRelease:
		return
	case verbFetch:
	default:
		*a = action{verb: verbSkip}
		return
	}
	if a.isHeld() && !a.Lastmod.IsZero() && a.held.Lastmod.After(a.Lastmod.Time()) {
		*a = action{verb: verbSkip} // a run before came as far
		return
	}
	memento := ""
	for _, l := range a.Links {
		if l.Rel == relMemento && p.may(l.Href) && memento == "" {
			memento = l.Href
		}
	}
	a.Links, a.Patches, a.conditional, a.rehash = nil, nil, false, false // they lead to the last one, too
	if a.Member.Package > 0 {
		return
	}
	if memento == "" {
		a.verb, a.Refused = verbRefuse, errNoVersion.Error()
		return
	}
	stated := a.Resource
	a.stated, a.from = &stated, memento
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
		f := fingerprint(w, at)
		doc, ok := first[f]
		if !ok {
			first[f] = w.Doc
		}
		return ok && doc != w.Doc
	})
}

const relMemento = "memento"

// lost is what a pass over versions could not get.
type lost struct {
	count int
	first string
}

func (l *lost) add(a *action, err error) {
	if l.count++; l.count == 1 {
		l.first = fmt.Sprintf("%s as of %s: %v", fetch.Printable(a.URI), wording.Time(a.Event.Time()), err)
	}
}

// applyVersions applies, one after the other, the versions that come before the
// last, of resources that changed more than once (RS-CHL-15 lets others pass
// over them). It reports versions that are unavailable, which do no harm.
func (r *setRun) applyVersions(ctx context.Context, c *chain, via string) error {
	if !r.d.opts.AllVersions || r.d.opts.DryRun || c.unchanged || !c.whole() {
		return nil
	}
	turns := &r.stage.turns
	turns.many.Store(0)
	defer func() { turns.now = 0 }()
	paths, err := r.paths()
	if err != nil {
		return err
	}
	var gone lost
	if err := r.findOrigin(ctx); err != nil {
		return err
	}
	for turns.now = 1; ; turns.now++ {
		turns.more.Store(false)
		p := &planner{d: r.d, set: r.set.Number, refuse: r.reader.refuse, settled: r.set.Complete && !r.reselects(), version: true}
		total, err := p.count(ctx, r.stage, nil)
		if err != nil {
			return err
		}
		if !turns.more.Load() {
			break
		}
		if turns.now == 1 && !c.dump {
			w := work{mode: ModeIncremental, via: via}
			if _, err := r.stageHints(ctx, &w, &needs{}, true); err != nil {
				return err
			}
		}
		w := work{mode: ModeIncremental, via: via, complete: true}
		deletes := r.d.opts.Delete != DeleteKeep
		if !deletes {
			total.deleted = 0
		} else if err := r.consent(&total, false); err != nil {
			return err
		}
		a := r.applier(ctx, paths)
		a.versions, a.ways = &gone, &ways{packages: &r.reader.packages, only: true}
		if err := r.execute(ctx, a, p, &w, &total, deletes); err != nil {
			return err
		}
	}
	if n := turns.many.Load(); n > 0 {
		r.warn(r.set.Changes, fmt.Sprintf("set %s: of %s only the last version is applied: there are more than %d", r.set.Name, wording.Plural(n, "resource"), maxVersions))
	}
	if gone.count > 0 {
		r.warn(r.set.Changes, fmt.Sprintf("set %s: %s not available, the first %s", r.set.Name, wording.Plural(int64(gone.count), "earlier version"), gone.first))
	}
	return nil
}

// keepsVersion reports whether w is to be kept in addition to a later change.
func (g *group) keepsVersion(w *desired.Resource) bool {
	return g.stage.turns.keep && w.Class == desired.Changed && len(g.versions) <= maxVersions
}
