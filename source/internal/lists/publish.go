// Package lists publishes the Resource Lists and Change Lists of a Source, read
// from the catalog, with the state that says what is published.
//
// It has more than 2,000 lines, because both kinds of lists share one state and
// one order of writes, see [Lists.Publish].
package lists

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source/internal/archive"
	"lockstep/source/internal/describe"
	"lockstep/source/internal/document"
	"lockstep/source/internal/names"
	"lockstep/source/internal/variant"
)

// Options are what lists depend on.
type Options struct {
	Docs     *document.Store
	Catalog  catalog.Catalog
	Archives *archive.Archives
	SmallSet int           // sets up to this size get a new Resource List with every change, larger ones when it pays
	Grace    time.Duration // how long replaced parts are kept
	Workers  int           // parts written at once
	Restart  bool          // what is published is not of this catalog: the first publication restarts the history of changes

	// DumpFloor returns the instant since which changes must be kept for the
	// dumps of a set; ok is false if there is none.
	DumpFloor func(ctx context.Context, set string) (floor time.Time, ok bool, err error)

	// NameDocuments makes the Capability List of a set name the documents that
	// are there, except those in without.
	NameDocuments func(ctx context.Context, set string, without ...string) (written bool, err error)
}

// A Set is a set of resources that has lists.
type Set struct {
	Name    string
	Rules   describe.Rules
	Keep    time.Duration // how long changes are kept
	Rotate  time.Duration // close the open part when its first change is this old; 0 never by age
	Entries int           // and when it has so many; 0: when it pays

	// Archive returns which documents that have the capability are archived; nil:
	// none are.
	Archive func(resourcesync.Capability) *archive.Retain
}

// archived reports whether documents that have the capability are archived.
func (set *Set) archived(c resourcesync.Capability) bool { return set.Archive(c) != nil }

// Lists are the Resource Lists and Change Lists of all sets of a Source. One
// goroutine uses them at a time, but for [Build.Run].
type Lists struct {
	opts          Options
	states        map[string]*state    // what is known of each set's documents
	spent         map[string]spent     // on each set's open Change List
	building      map[string]*Build    // Resource Lists that are being written in the background
	published     map[string]bool      // sets published since New
	marked        map[string]bool      // sets whose changes happen after what was published, see lacksMark
	patchesTidied map[string]time.Time // when each set's patches were looked through
}

// New returns lists. None is read or written yet.
func New(o Options) *Lists {
	return &Lists{opts: o, states: make(map[string]*state), spent: make(map[string]spent), building: make(map[string]*Build), published: make(map[string]bool), marked: make(map[string]bool), patchesTidied: make(map[string]time.Time)}
}

// A Report says what a publication of lists did.
type Report struct {
	Resources int64       // in the set
	Seq       catalog.Seq // newest change published
	Changes   int64       // published now for the first time
	List      bool        // a new Resource List was written
	Parts     int         // of the Resource List, 0 if it is one document
	Refused   int64       // resources and changes no document can state; each is logged
	Bytes     int64       // of lists written
	Removed   int         // parts of older generations removed
	Later     bool        // the Resource List is put off, and due again without further changes
}

// A Result is a publication of the lists of one set.
type Result struct {
	Report
	Written bool           // readers can see a change
	Looked  bool           // all documents of the set were looked at
	Back    bool           // the catalog is older than what was published from it
	Status  catalog.Status // of the set; changes after its Last are not published
	After   catalog.Mark   // what precedes the changes in the Change List
	Through catalog.Mark   // the last of these; without an instant if that is not known

	p         *publication
	published *state
}

// WentBack reports whether the catalog is not, or no longer, the one in which
// the change seq happened at that instant.
func (r *Result) WentBack(ctx context.Context, seq catalog.Seq, at time.Time) (bool, error) {
	return r.p.wentBack(ctx, seq, at)
}

// Tidy takes step 7 of [Lists.Publish], if all documents were looked at. It calls
// withdrawFeed, which removes what the set no longer has of a feed.
func (r *Result) Tidy(ctx context.Context, withdrawFeed func(context.Context) error) error {
	err := r.p.tidy(ctx, r.published, withdrawFeed)
	r.Report = r.p.report
	return err
}

// A Mode says how lists are published.
type Mode struct {
	Look  bool   // at all documents
	Quick bool   // Resource Lists that readers of the changes can do without are put off
	Built *Build // of the set; nil: a Resource List that is due is written by the publication itself
}

// Publish brings the lists of one set in step with the catalog.
//
// Most often there are a few changes, for which the open Change List has room.
// Then it, longer, is all that is written, together with the tail of the state.
//
// Else the order of writes is this, each step durable before the next begins:
//
//  1. parts of a new Resource List, under new names: those that have changed, and
//     a few others, see [listBuild];
//  2. what archives are going to name, then the state, saying that entry
//     documents are about to be switched, and where the parts of the Change List
//     are to end;
//  3. parts of the Change List: the open one, then those now closed (RS-CHI-06);
//     then their archive: what is about to leave the Change List is there before
//     it leaves (RA-CHG-08);
//  4. the entry documents, the Change List's before the Resource List's; then
//     the archive of Resource Lists, which has nothing that the Change List
//     does not; then, if there is no index any more, the part that was open, now
//     closed;
//  5. the Capability List, if what it names has changed;
//  6. the state, describing what is now published;
//  7. what the state no longer needs: the catalog's oldest changes, and parts
//     replaced more than the grace period ago.
//
// Cut short anywhere, every entry document names only parts that are there
// (RS-IDX-06), and the Change List covers from the Resource List's at: it never
// begins after the at of a list someone may still be reading. A run that finds
// step 2 without step 6 writes all entry documents again, and closes parts where
// step 2 says: what was closed once stays as it is.
//
// Step 5, where nothing else is to be done, and step 7 are the caller's.
func (s *Lists) Publish(ctx context.Context, set Set, m Mode) (r *Result, err error) {
	p := &publication{owner: s, docs: s.opts.Docs, catalog: s.opts.Catalog, set: set, quick: m.Quick, built: m.Built}
	r = &Result{p: p}
	defer func() {
		r.Report, r.Looked, r.Back, r.Status = p.report, p.there != nil, p.back, p.status
	}()
	if err := p.prepare(ctx, m.Look || m.Built != nil); err != nil {
		return r, err
	}
	r.published = p.state
	if p.list || p.changes {
		if r.Written, err = p.write(ctx); outsideHistory(err) && !p.restart {
			r.Written, err = p.writeRestarted(ctx, err)
		}
		if err != nil {
			return r, err
		}
		s.published[set.Name] = true
		r.published = p.next
		s.spend(set, r.published.Changes)
	}
	c := r.published.Changes
	r.After, r.Through = catalog.Mark{Seq: c.After, At: c.From}, catalog.Mark{Seq: c.Through, At: c.ThroughTime}
	return r, nil
}

// A publication is one set on its way from one published state to the next.
type publication struct {
	owner      *Lists
	docs       *document.Store
	catalog    catalog.Catalog
	quick      bool   // postpone documents that readers can do without
	built      *Build // a Resource List that is written already; nil: none, or it cannot be used
	set        Set
	report     Report
	state      *state // what is published, as far as known
	next       *state // what will be published
	status     catalog.Status
	there      sizes        // nil: they were not listed
	unsure     bool         // a publication was cut short
	newHistory bool         // the history begins again: the published Change List is not continued
	list       bool         // a Resource List is due
	listAtOnce bool         // readers, or an archive, need it at once
	changes    bool         // a Change List is due
	entry      blob.Writer  // the Resource List's entry document
	unnamed    *listBuild   // the Resource List, until the first document or state that may name its parts is written
	build      *changeBuild // of the Change List
	back       bool         // the catalog is older than what was published from it
	restart    bool         // start a new history, whatever was published
	begun      bool         // this publication starts a new history
	archiving  bool         // documents must be written for the archives
	archives   archives
}

// prepare determines what is published, what the catalog contains, and what to do. If
// that is more than appending a few changes, or look is set, it lists all documents of
// the set.
func (p *publication) prepare(ctx context.Context, look bool) (err error) {
	name := p.docs.CapabilityList(p.set.Name)
	if p.state, err = p.owner.load(ctx, p.set.Name, name); err != nil {
		return err
	}
	for {
		if look || p.state.Changes == nil {
			if err := p.look(ctx); err != nil {
				return err
			}
		}
		p.next = new(*p.state)
		_, p.next.Compressed = p.docs.Store.(*variant.Store)
		if err := p.reconcile(ctx, name); err != nil {
			return fmt.Errorf("read catalog: %w", err)
		}
		if err := p.openArchives(ctx); err != nil {
			return err
		}
		if more, err := p.decide(ctx); err != nil || !more || p.there != nil {
			return err
		}
		look = true
	}
}

// look lists the documents of the set.
func (p *publication) look(ctx context.Context) error {
	p.there = make(sizes)
	initials := []string{"c", "r"} // of all documents; there may be many patches
	if _, compressing := p.docs.Store.(*variant.Store); compressing || p.state.Compressed {
		initials = append(initials, names.FeedFile, "feed-") // for their variants
	}
	for _, initial := range initials {
		for info, err := range p.docs.List(ctx, names.DocumentsDir+p.set.Name+"/"+initial) {
			if err != nil {
				return err
			}
			p.there.Add(info)
		}
	}
	docNames := slices.Concat(p.state.List.names(), p.state.PlannedList.names(), p.state.Changes.names(), p.state.Planned.names())
	if err := p.docs.Confirm(ctx, p.there, docNames...); err != nil {
		return err
	}
	return p.variants(ctx)
}

// reconcile finds where the Change List is to go on: where the state says, if
// catalog and state agree. If they do not, all is published again, with a Change
// List that begins where the catalog can answer for what it says.
func (p *publication) reconcile(ctx context.Context, set string) (err error) {
	if p.status, err = p.catalog.Status(ctx, set); err != nil {
		return err
	}
	if p.status.Kept.At.IsZero() { // Nothing was ever published from this catalog.
		if _, err := p.catalog.Mark(ctx, set); err != nil {
			return err
		}
		if p.status, err = p.catalog.Status(ctx, set); err != nil {
			return err
		}
	}
	p.unsure = p.state.Switching
	c := p.state.Changes
	if p.unsure && p.state.Planned != nil {
		c, p.newHistory = p.state.Planned, p.state.NewHistory
	}
	kept := p.status.Kept
	back := p.restart || p.owner.opts.Restart && !p.owner.published[p.set.Name]
	switch {
	case back:
	case c == nil:
		if c, err = p.recoverChanges(ctx, kept); err != nil {
			return err
		}
	default:
		if back, err = p.wentBack(ctx, c.Through, c.ThroughTime); err != nil {
			return err
		}
		back = back || c.After >= kept.Seq && kept.At.After(c.From) // a catalog of its own, which has as many changes
		if !back && c.After > kept.Seq {
			if back, err = lacksBeginning(ctx, p.catalog, set, c); err != nil {
				return err
			}
		}
		if !back && !p.owner.marked[p.set.Name] {
			if back, err = p.owner.lacksMark(ctx, p.set.Name, p.state, c); err != nil {
				return err
			}
		}
	}
	if back {
		// The published documents state changes that are not in this catalog. A
		// history that begins now makes readers compare all they have.
		p.docs.Log.WarnContext(ctx, "published documents are not of this catalog, or of a later state of it; the history of changes restarts", slog.String("set", p.set.Name))
		if kept, err = catalog.MarkAfter(ctx, p.catalog, set, p.state.newest().Add(historyGap)); err != nil {
			return err
		}
		c, p.back = nil, true
	}
	if c == nil || c.Open.After < kept.Seq {
		p.newHistory, p.begun = true, true
		c = &changeState{After: kept.Seq, From: kept.At, Open: openPart{From: kept.At, After: kept.Seq}, Through: kept.Seq}
		if p.status.Last == kept.Seq {
			c.ThroughTime = p.status.LastTime
		}
	}
	p.next.Changes = c
	return nil
}

// historyGap is how long after all that readers may have seen a history restarts that is not theirs:
// no interval of both touches (RA-CHG-05).
const historyGap = time.Millisecond

// lacksBeginning reports whether the beginning of a published Change List is not a point
// in the history that the catalog has: it is another catalog, or an older copy, which
// has as many changes. Otherwise tidy can forget what happened before.
func lacksBeginning(ctx context.Context, cat catalog.Catalog, set string, c *changeState) (bool, error) {
	from := c.From.Truncate(time.Microsecond)
	for change, err := range cat.Changes(ctx, set, c.After-1) {
		switch {
		case err != nil:
			return false, err
		case change.Seq > c.After:
			return !change.EventTime.After(from), nil
		case change.Seq < c.After || change.EventTime.After(from):
			return true, nil
		}
	}
	mark, err := cat.Mark(ctx, set) // an older copy does not know that the history was to begin then
	return mark.At.Before(from), err
}

// lacksMark has all changes to come happen after what readers may have seen, and reports whether one
// that they have not seen does not: the catalog has all changes of c, but has lost a later Mark, and the
// clock is behind that by which it was made.
func (s *Lists) lacksMark(ctx context.Context, set string, st *state, c *changeState) (bool, error) {
	newest, seen, list := st.newest(), c.Through, s.opts.Docs.CapabilityList(set)
	if l := st.latestList(); l != nil {
		seen = max(seen, l.taken().Seq)
	}
	if _, err := catalog.MarkAfter(ctx, s.opts.Catalog, list, newest); err != nil {
		return false, err
	}
	for change, err := range s.opts.Catalog.Changes(ctx, list, seen) {
		if err != nil || !change.EventTime.After(newest) {
			return err == nil, err
		}
		break
	}
	s.marked[set] = true
	return false, nil
}

// outsideHistory reports whether err says that an event of the catalog is not
// within the interval that the published Change List covers: the documents are
// not of this catalog, though nothing else showed it.
func outsideHistory(err error) bool {
	broken, ok := errors.AsType[*resourcesync.RuleError](err)
	return ok && broken.Rule == "RS-EM-04"
}

// writeRestarted restarts the history of a set whose events do not fit the Change
// List that is published, and writes it. To fail would be to fail in every run.
func (p *publication) writeRestarted(ctx context.Context, why error) (written bool, err error) {
	p.docs.Log.WarnContext(ctx, "the catalog does not continue the published change list", slog.String("set", p.set.Name), slog.Any("err", why))
	p.restart = true
	if err := p.prepare(ctx, true); err != nil {
		return false, err
	}
	return p.write(ctx)
}

// wentBack reports whether the catalog is not, or no longer, the one in which
// the change seq happened at that instant: it was restored from an older copy, or
// filled again. The zero time says that the instant is not known.
func (p *publication) wentBack(ctx context.Context, seq catalog.Seq, at time.Time) (bool, error) {
	if seq > p.status.Last {
		return true, nil
	}
	if at.IsZero() || seq <= p.status.Kept.Seq {
		return false, nil
	}
	for change, err := range p.catalog.Changes(ctx, p.docs.CapabilityList(p.set.Name), seq-1) {
		return err == nil && (change.Seq != seq || !change.EventTime.Equal(at)), err
	}
	return true, nil
}

// decide determines which lists are due. It reports look if it needs to know which
// documents exist.
func (p *publication) decide(ctx context.Context) (look bool, err error) {
	st, c := p.state, p.next.Changes
	p.report.Resources = p.status.Resources
	p.report.Seq = c.Through
	changed := p.status.Last != c.Through
	list, archiving := p.archiveDue()
	p.archiving = archiving
	p.listAtOnce = list || st.List == nil || p.unsure || p.newHistory || st.List.Rules != p.set.Rules.Mark ||
		!p.there.has(names.Set(p.set.Name).ResourceList()) || !p.there.hasAll(st.List.names())
	if p.listAtOnce || !p.built.isUsable(st.List, p.there, &p.archives) {
		p.built = nil
	}
	p.list = p.listAtOnce || p.built != nil || p.listDue(changed)
	if st.List != nil {
		p.report.Parts = len(st.List.Parts)
	}
	trim, err := p.trimDue(ctx, c)
	cut := archiving || c.Open.Size == 0 || !p.there.hasAll(c.names()) || p.status.Last-c.Open.After > catalog.Seq(p.owner.partEntries(p.set, c)) ||
		p.status.Last > c.Open.After && (p.owner.old(p.set, c) || p.owner.costly(p.set, c)) || trim
	p.changes = p.list || changed || cut || !p.there.has(names.Set(p.set.Name).ChangeList()) ||
		!p.there.is(c.Open.document(p.set.Name), c.Open.Size+int64(len(closingTag)))
	return p.list || cut, err
}

// The Resource List of a set of up to tinySet resources is written again with every
// publication. That of a larger set, which a quick publication puts off, takes longer: up
// to Options.SmallSet it is written again when the last one is older than listPace times
// the number of resources, so that writing lists takes a small share of the time.
const (
	tinySet  = 1000
	listPace = time.Millisecond
	tinyPace = time.Second // between lists of a tiny set, by PublishChanges
)

// The Resource List of a set that is larger than Options.SmallSet is written again
// once there have been so many changes since the last one that reading it and the
// changes costs noticeably more than reading a new list, or once there are changes and
// the last one is older than listAge. While a large part of the set changes, lists are
// at least largePace times the number of resources apart: writing one takes a few
// microseconds for each resource.
const (
	listShare = 10 // one tenth
	listAge   = 24 * time.Hour
	largePace = 50 * time.Microsecond
)

// isTiny reports whether a Resource List of so many resources is written at once.
func (s *Lists) isTiny(resources int64) bool {
	return resources <= min(tinySet, int64(s.opts.SmallSet))
}

// listDue says whether changes call for a new Resource List, see
// Options.SmallSet; changed says that there are changes which the Change List does
// not have yet. A list that lacks changes, and is due later even if there are no
// others, is reported as put off.
func (p *publication) listDue(changed bool) bool {
	list, n := p.state.List.taken(), p.status.Resources
	age := p.docs.Now().Sub(list.At)
	isRecent := func(pace time.Duration) bool { return age >= 0 && age < pace }
	switch {
	case !changed && p.status.Last <= list.Seq:
		return false
	case p.owner.isTiny(n):
		p.report.Later = p.quick && isRecent(tinyPace)
	case n <= int64(p.owner.opts.SmallSet):
		p.report.Later = p.quick || isRecent(min(time.Duration(n)*listPace, listAge))
	case int64(p.status.Last-list.Seq) >= n/listShare:
		p.report.Later = p.quick || isRecent(time.Duration(n)*largePace)
	case age < listAge:
		return false
	default:
		p.report.Later = p.quick
	}
	return !p.report.Later
}
