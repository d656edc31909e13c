// Package atom publishes the Atom-PMH feeds of a Source: for each set a
// subscription document and archives, read off the catalog.
package atom

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"lockstep/atompmh"
	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/source/internal/describe"
	"lockstep/source/internal/document"
	"lockstep/source/internal/names"
)

// sliceChanges is how many changes are added to the feed at a time: they are in memory.
const sliceChanges = 10_000

// compactAfter is to how many times its first size a chain of archives grows, and by how
// many documents more, before it is written again without superseded entries.
const compactAfter = 4

// tinySet is how many resources a set may have so that a complete feed is
// written with every change, and pace how old it becomes for each resource of a
// larger set.
const (
	tinySet = 1000
	pace    = time.Millisecond
)

// Feeds publishes the feeds of a Source. Only one goroutine may use it at a time.
type Feeds struct {
	docs    *document.Store
	catalog catalog.Catalog
	temp    string        // directory for temporary files
	grace   time.Duration // how long replaced archives are kept
	states  map[string]*state
}

// New returns the feeds of what c holds.
func New(docs *document.Store, c catalog.Catalog, temp string, grace time.Duration) *Feeds {
	return &Feeds{docs: docs, catalog: c, temp: temp, grace: grace, states: make(map[string]*state)}
}

// A Set is a set of resources that has a feed.
type Set struct {
	Name     string
	Rules    describe.Rules
	ID       string // of the feed; default made of its address
	Title    string // default the set's name
	Author   string // default the host of the base URL
	Entries  int    // of an archive
	Complete bool   // the feed is one document
}

// A Request specifies a publication of a feed.
type Request struct {
	Set    Set
	Status catalog.Status // changes after its Last are left to the next publication
	Look   bool           // look at all documents of the feed
	Back   bool           // the catalog is older than what was published from it

	// WentBack reports whether the catalog is not, or no longer, the one in
	// which the change seq happened at that instant.
	WentBack func(ctx context.Context, seq catalog.Seq, at time.Time) (bool, error)
}

// A Result is the result of a publication.
type Result struct {
	Written bool  // readers can see a change
	Refused int64 // resources that a feed cannot contain
	Bytes   int64 // of subscription documents written
	Later   bool  // the publication was postponed
}

// An update brings the Atom-PMH feed of a set in step with the catalog.
type update struct {
	feeds    *Feeds
	docs     *document.Store
	catalog  catalog.Catalog
	set      Set
	status   catalog.Status
	back     bool // the catalog is older than what was published from it
	wentBack func(ctx context.Context, seq catalog.Seq, at time.Time) (bool, error)
	result   Result

	want  feed // what is configured
	limit int  // entries of an archive
	st    *state
	fresh bool  // this process had not read the state before
	lost  *feed // the published feed, if its documents are missing or were changed
	short bool  // archives are missing
}

// Publish brings the feed of a set in step with the catalog. The order of writes
// (AP-TS-12), each step durable before the next begins:
//
//  1. if a chain is rebuilt, its archives, under names that no document mentions
//     yet;
//  2. the state, which describes the planned subscription document;
//  3. archives split off it, under new names;
//  4. the subscription document;
//  5. changes in which resources belong together.
//
// If it is interrupted before 4, the feed is as it was before; afterwards it is as
// planned. The next run recognizes which by the bytes of the subscription document.
func (s *Feeds) Publish(ctx context.Context, r Request) (result Result, err error) {
	a := &update{feeds: s, docs: s.docs, catalog: s.catalog, set: r.Set, status: r.Status, back: r.Back, wentBack: r.WentBack}
	a.want, a.limit = defaults(s.docs.Base, &r.Set)
	defer func() {
		result = a.result
		if err != nil {
			delete(s.states, r.Set.Name) // the next run reads the blobs again
			err = fmt.Errorf("publish atom feed: %w", err)
		}
	}()
	if err := a.open(ctx, r.Look); err != nil {
		return result, err
	}
	begins := a.st.Current == nil
	for tried := false; ; {
		more, err := a.step(ctx)
		if errors.Is(err, errLost) && !tried {
			s.docs.Log.WarnContext(ctx, "atom feed was changed by another program, and is rebuilt", slog.String("set", r.Set.Name), slog.Any("err", err))
			tried, a.lost, a.st.Current = true, a.st.Current, nil
			continue
		}
		if err != nil {
			return result, err
		}
		s.states[r.Set.Name] = a.st
		if !more {
			break
		}
	}
	if r.Look || a.fresh || begins {
		return result, a.tidy(ctx)
	}
	return result, nil
}

// Check reports why the set cannot have the feed that is configured.
func Check(base names.Base, set *Set) error {
	f, _ := defaults(base, set)
	_, err := atompmh.NewWriter(io.Discard, atompmh.Feed{ID: f.ID, Title: f.Title, Author: f.Author, Self: base.URI(names.Feed(set.Name).Document()), Updated: time.Unix(0, 0)})
	return err
}

// defaultEntries is how many entries an archive document holds: some hundred
// kilobytes, which is also what a harvester reads to find one change.
const defaultEntries = 1000

// defaults returns the identity of a feed, and how many entries an archive has.
func defaults(base names.Base, set *Set) (feed, int) {
	f := feed{ID: set.ID, Title: set.Title, Author: set.Author, Complete: set.Complete}
	if f.ID == "" {
		f.ID = atompmh.RecordID(base.URI(names.Feed(set.Name).Document())) // AP-DOC-09: for good, as the address is
	}
	if f.Title == "" {
		f.Title = set.Name
	}
	if f.Author == "" {
		_, f.Author, _ = strings.Cut(base.Origin(), "://")
	}
	limit := set.Entries
	if limit == 0 {
		limit = defaultEntries
	}
	return f, limit
}

// open determines what is published.
func (a *update) open(ctx context.Context, look bool) (err error) {
	set := a.set.Name
	if a.st, a.lost, a.fresh, err = a.feeds.load(ctx, set); err != nil {
		return err
	}
	if !look || a.st.Current == nil {
		return nil
	}
	info, err := a.docs.Stat(ctx, names.Feed(set).Document())
	if err != nil && !errors.Is(err, blob.ErrNotExist) {
		return err
	}
	if err != nil || info.Size != a.st.Current.Size {
		delete(a.feeds.states, set)
		if a.st, a.lost, a.fresh, err = a.feeds.load(ctx, set); err != nil || a.st.Current == nil {
			return err
		}
	}
	a.short, err = a.lacksArchives(ctx)
	return err
}

// lacksArchives reports whether archives of the feed are missing. A store may list documents
// later than it opens them, so those that are not listed are looked at. Of the numbers given,
// some may never have become archives.
func (a *update) lacksArchives(ctx context.Context) (bool, error) {
	set, cur := names.Feed(a.set.Name), a.st.Current
	listed := make(map[string]bool)
	for info, err := range a.docs.List(ctx, set.Prefix()+cur.Chain+"-") {
		if err != nil {
			return false, err
		}
		listed[info.Name] = true
	}
	missing := 0
	for n := 1; n <= cur.Number && missing <= cur.Number-cur.Archives; n++ {
		name := set.Archive(cur.Chain, n)
		if slices.Contains(a.st.Dropped, name) {
			missing++
			continue
		}
		if listed[name] {
			continue
		}
		switch _, err := a.docs.Stat(ctx, name); {
		case errors.Is(err, blob.ErrNotExist):
			missing++
		case err != nil:
			return false, err
		}
	}
	return missing > cur.Number-cur.Archives, nil
}

// step performs the next step and reports whether there may be more.
func (a *update) step(ctx context.Context) (more bool, err error) {
	cur := a.st.Current
	if cur == nil {
		b := &build{update: a, keep: -1, last: noTime}
		if a.lost != nil { // readers may have its documents: the new feed must state what was deleted since
			b.last, b.from, b.spare = a.lost.Last, names.Feed(a.set.Name).Document(), a.lost.Newest
		}
		return true, b.run(ctx)
	}
	if cur.ID != a.want.ID { // another feed: no reader of that one continues with it
		return true, (&build{update: a, keep: -1, last: noTime}).run(ctx)
	}
	back, err := a.wentBack(ctx, cur.Through, cur.ThroughTime)
	if err != nil {
		return false, err
	}
	changed := a.status.Last > cur.Through
	named := cur.Title != a.want.Title || cur.Author != a.want.Author
	again := &build{update: a, keep: cur.Through, last: cur.Last, from: names.Feed(a.set.Name).Document()}
	switch {
	case back || a.back && !a.caughtUp():
		a.docs.Log.WarnContext(ctx, "catalog is older than the feed published from it, which is published again", slog.String("set", a.set.Name))
		again.keep = -1
	case a.status.Kept.Seq > cur.Through, a.short, cur.Complete != a.want.Complete: // the changes are no longer known
	case a.want.Complete && (changed || named):
		if age := a.docs.Now().Sub(cur.Stamp); !a.fresh && a.status.Resources > tinySet && age >= 0 && age < time.Duration(a.status.Resources)*pace {
			a.result.Later = true
			return false, nil
		}
	case changed || named:
		return true, a.grow(ctx)
	case !cur.Complete && cur.Entries > compactAfter*(cur.Begun+int64(a.limit)):
		again.compact, again.keep = true, math.MaxInt64
	default:
		return false, nil
	}
	a.short = false
	return true, again.run(ctx)
}

// caughtUp reports whether the feed was rebuilt by this publication.
func (a *update) caughtUp() bool { return a.result.Written }

// switchTo publishes next, whose subscription document is d, with the names and writers
// of the archives split off it.
func (a *update) switchTo(ctx context.Context, next *feed, d *openDocument, cut []blob.Writer, grouped groupMap) error {
	set := a.set.Name
	next.Size, next.Sum = d.size, d.digest()
	if err := a.feeds.plan(ctx, set, a.st, next, grouped); err != nil {
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
	a.result.Written, a.st.replaced = true, true
	a.result.Bytes += next.Size
	if err := a.feeds.group(ctx, set, next.Groups, grouped); err != nil {
		return err
	}
	a.st.Current, a.st.known = next, true
	return nil
}

// tidy removes archives that no reader needs: those of chains that were replaced more
// than the grace period ago, or never published, and those that were never named.
func (a *update) tidy(ctx context.Context) error {
	set, cur, now := a.set.Name, a.st.Current, a.docs.Now()
	gone := make(map[string]time.Time)
	for _, r := range a.st.Retired {
		gone[r.Chain] = r.Gone
	}
	there := make(map[string]bool)
	var old []string
	if a.st.replaced {
		old, a.st.Dropped = a.st.Dropped, nil
	}
	for info, err := range a.docs.List(ctx, names.Feed(set).Prefix()) {
		if err != nil {
			return err
		}
		chain := names.Feed(set).ArchiveChain(info.Name)
		if chain == "" || cur != nil && chain == cur.Chain {
			continue
		}
		since, retired := gone[chain]
		if !retired && !a.st.known {
			since, retired = now, true
			gone[chain] = now
			a.st.Retired = append(a.st.Retired, retiredChain{chain, now})
		}
		if !retired || now.Sub(since) >= a.feeds.grace {
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
	a.st.Retired = slices.DeleteFunc(a.st.Retired, func(r retiredChain) bool {
		return !there[r.Chain] && now.Sub(r.Gone) >= a.feeds.grace // until then, archives that are not listed yet may be
	})
	if a.fresh || len(old) > 0 {
		return a.feeds.dropGroups(ctx, set, cur.Groups)
	}
	return nil
}

// Withdraw removes the feed of a set that is no longer to have one. The caller ensures
// that no Capability List names it.
func (s *Feeds) Withdraw(ctx context.Context, set string) error {
	sum, err := s.docs.Stat(ctx, names.Feed(set).State())
	if errors.Is(err, blob.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	delete(s.states, set)
	if err := s.docs.Remove(ctx, names.Feed(set).Document()+names.GzipSuffix, names.Feed(set).Document()); err != nil { // the Compressed option may have been turned off since
		return err
	}
	var old []string
	for info, err := range s.docs.List(ctx, names.Feed(set).Prefix()) {
		if err != nil {
			return err
		}
		if names.Feed(set).ArchiveChain(info.Name) != "" {
			old = append(old, info.Name)
		}
	}
	if err := s.docs.Remove(ctx, old...); err != nil {
		return err
	}
	if err := s.dropGroups(ctx, set, ""); err != nil {
		return err
	}
	return s.docs.Remove(ctx, sum.Name)
}
