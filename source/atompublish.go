package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"lockstep/atompmh"
	"lockstep/blob"
	"lockstep/source/internal/document"
	"lockstep/source/internal/names"
)

// atomSlice is how many changes are taken into the feed at a time: they are held.
const atomSlice = 10_000

// compactAfter is how many times its first size a chain of archives grows, and
// how many documents more, before it is written anew without what is history.
const compactAfter = 4

// An atomPublication brings the Atom-PMH feed of a set in step with the catalog.
type atomPublication struct {
	*publication
	want  atomFeed // what is configured
	limit int      // entries of an archive
	st    *atomState
	fresh bool      // the state was not known to this process
	lost  *atomFeed // what was published, but is not there as it was left
	short bool      // archives are missing

	written bool
}

// publishAtom brings the feed of the set in step with the catalog, and reports
// whether it wrote anything a reader can see. The order of writes (AP-TS-12),
// each step durable before the next begins:
//
//  1. of a chain that begins anew, the archives, under names nobody knows;
//  2. the state, which says what the subscription document is about to be;
//  3. archives cut from it, under new names;
//  4. the subscription document;
//  5. what has changed of which resources belong together.
//
// Cut short before 4, what is published is what was; after it, what was planned.
// A run that follows tells by the bytes of the subscription document.
func (p *publication) publishAtom(ctx context.Context, look bool) (written bool, err error) {
	if p.set.Atom == nil {
		return false, nil
	}
	a := &atomPublication{publication: p}
	a.want, a.limit = p.atomDefaults(&p.set)
	defer func() {
		written = a.written
		if err != nil {
			delete(p.atoms, p.set.Name) // what holds is in the blobs
			err = fmt.Errorf("publish atom feed: %w", err)
		}
	}()
	if err := a.open(ctx, look); err != nil {
		return false, err
	}
	anew := a.st.Current == nil
	for tried := false; ; {
		more, err := a.step(ctx)
		if errors.Is(err, errAtomLost) && !tried {
			p.docs.Log.WarnContext(ctx, "atom feed was changed by another program, and is rebuilt", slog.String("set", p.set.Name), slog.Any("err", err))
			tried, a.lost, a.st.Current = true, a.st.Current, nil
			continue
		}
		if err != nil {
			return false, err
		}
		p.atoms[p.set.Name] = a.st
		if !more {
			break
		}
	}
	if look || a.fresh || anew {
		return false, a.tidy(ctx)
	}
	return false, nil
}

// atomDefaults returns what a feed says of itself, and how many entries an
// archive has.
func (s *Source) atomDefaults(set *Set) (atomFeed, int) {
	f := atomFeed{ID: set.Atom.ID, Title: set.Atom.Title, Author: set.Atom.Author, Complete: set.Atom.Complete}
	if f.ID == "" {
		f.ID = atompmh.RecordID(s.docs.Base.URI(names.Feed(set.Name))) // AP-DOC-09: for good, as the address is
	}
	if f.Title == "" {
		f.Title = set.Name
	}
	if f.Author == "" {
		_, f.Author, _ = strings.Cut(s.docs.Base.Origin(), "://")
	}
	limit := set.Atom.Entries
	if limit == 0 {
		limit = defaultAtomEntries
	}
	return f, limit
}

// open finds out what is published.
func (a *atomPublication) open(ctx context.Context, look bool) (err error) {
	set := a.set.Name
	if a.st, a.lost, a.fresh, err = a.loadAtom(ctx, set); err != nil {
		return err
	}
	if !look || a.st.Current == nil {
		return nil
	}
	info, err := a.docs.Stat(ctx, names.Feed(set))
	if err != nil && !errors.Is(err, blob.ErrNotExist) {
		return err
	}
	if err != nil || info.Size != a.st.Current.Size {
		delete(a.atoms, set)
		if a.st, a.lost, a.fresh, err = a.loadAtom(ctx, set); err != nil || a.st.Current == nil {
			return err
		}
	}
	there := 0
	for info, err := range a.docs.List(ctx, names.FeedPrefix(set)+a.st.Current.Chain+"-") {
		if err != nil {
			return err
		}
		if names.FeedArchiveChain(set, info.Name) == a.st.Current.Chain {
			there++
		}
	}
	a.short = there < a.st.Current.Archives
	return nil
}

// step does what is to be done next, and reports whether there may be more.
func (a *atomPublication) step(ctx context.Context) (more bool, err error) {
	cur := a.st.Current
	if cur == nil {
		b := &atomBuild{atomPublication: a, keep: -1, last: noTime}
		if a.lost != nil { // documents of ours may be there: what they tell of and is gone must be said
			b.last, b.from, b.spare = a.lost.Last, names.Feed(a.set.Name), a.lost.Newest
		}
		return true, b.run(ctx)
	}
	if cur.ID != a.want.ID { // another feed: nobody who followed that one goes on with it
		return true, (&atomBuild{atomPublication: a, keep: -1, last: noTime}).run(ctx)
	}
	back, err := a.wentBack(ctx, a.docs.CapabilityList(a.set.Name), &changeState{Through: cur.Through, ThroughTime: cur.ThroughTime})
	if err != nil {
		return false, err
	}
	news := a.status.Last > cur.Through
	named := cur.Title != a.want.Title || cur.Author != a.want.Author
	again := &atomBuild{atomPublication: a, keep: cur.Through, last: cur.Last, from: names.Feed(a.set.Name)}
	switch {
	case back || a.back && !a.caughtUp():
		a.docs.Log.WarnContext(ctx, "catalog is older than the feed published from it, which is published again", slog.String("set", a.set.Name))
		again.keep = -1
	case a.status.Kept.Seq > cur.Through, a.short, cur.Complete != a.want.Complete: // what has changed is not known any more
	case a.want.Complete && (news || named):
		if age := a.docs.Now().Sub(cur.Stamp); !a.fresh && a.status.Resources > tinySet && age >= 0 && age < time.Duration(a.status.Resources)*listPace {
			a.report.later = true
			return false, nil
		}
	case news || named:
		return true, a.grow(ctx)
	case !cur.Complete && cur.Entries > compactAfter*(cur.Begun+int64(a.limit)):
		again.compact, again.keep = true, math.MaxInt64
	default:
		return false, nil
	}
	a.short = false
	return true, again.run(ctx)
}

// caughtUp reports whether the feed was made anew by this publication.
func (a *atomPublication) caughtUp() bool { return a.written }

// switchTo makes the feed that of next, whose subscription document is d; of
// others that were cut from it, names and writers.
func (a *atomPublication) switchTo(ctx context.Context, next *atomFeed, d *atomDocument, cut []blob.Writer, grouped atomGroups) error {
	set := a.set.Name
	next.Size, next.Sum = d.size, d.digest()
	if err := a.planAtom(ctx, set, a.st, next, grouped); err != nil {
		return err
	}
	for len(cut) > 0 {
		n := min(len(cut), document.CommitParts)
		if err := a.docs.Commit(ctx, cut[:n]...); err != nil {
			return err
		}
		cut = cut[n:]
	}
	if err := a.docs.Commit(ctx, d.blob); err != nil {
		return err
	}
	a.written = true
	a.report.Bytes += next.Size
	if err := a.group(ctx, set, next.Groups, grouped); err != nil {
		return err
	}
	a.st.Current, a.st.known = next, true
	return nil
}

// tidy removes archives that nobody needs: those of chains replaced more than the
// grace period ago, and of such as were never published.
func (a *atomPublication) tidy(ctx context.Context) error {
	set, cur, now := a.set.Name, a.st.Current, a.docs.Now()
	gone := make(map[string]time.Time)
	for _, r := range a.st.Retired {
		gone[r.Chain] = r.Gone
	}
	there := make(map[string]bool)
	var old []string
	for info, err := range a.docs.List(ctx, names.FeedPrefix(set)) {
		if err != nil {
			return err
		}
		chain := names.FeedArchiveChain(set, info.Name)
		if chain == "" || cur != nil && chain == cur.Chain {
			continue
		}
		since, retired := gone[chain]
		if !retired && !a.st.known {
			since, retired = now, true
			gone[chain] = now
			a.st.Retired = append(a.st.Retired, atomRetired{chain, now})
		}
		if !retired || now.Sub(since) >= a.opts.Grace {
			old = append(old, info.Name)
		} else {
			there[chain] = true
		}
	}
	if len(old) > 0 {
		if err := a.docs.Remove(ctx, old...); err != nil {
			return err
		}
	}
	a.st.Retired = slices.DeleteFunc(a.st.Retired, func(r atomRetired) bool { return !there[r.Chain] })
	if a.fresh || len(old) > 0 {
		return a.dropGroups(ctx, set, cur.Groups)
	}
	return nil
}

// withdrawAtom removes the feed of a set that is to have none. The caller has seen
// to it that no Capability List names it.
func (p *publication) withdrawAtom(ctx context.Context) error {
	if p.set.Atom != nil {
		return nil
	}
	set := p.set.Name
	sum, err := p.docs.Stat(ctx, names.FeedState(set))
	if errors.Is(err, blob.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	delete(p.atoms, set)
	if err := p.docs.Remove(ctx, names.Feed(set)+names.GzipSuffix, names.Feed(set)); err != nil { // Compressed may not be asked for any more
		return err
	}
	var old []string
	for info, err := range p.docs.List(ctx, names.FeedPrefix(set)) {
		if err != nil {
			return err
		}
		if names.FeedArchiveChain(set, info.Name) != "" {
			old = append(old, info.Name)
		}
	}
	if err := p.docs.Remove(ctx, old...); err != nil {
		return err
	}
	if err := p.dropGroups(ctx, set, ""); err != nil {
		return err
	}
	return p.docs.Remove(ctx, sum.Name)
}
