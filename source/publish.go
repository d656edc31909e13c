package source

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
	"lockstep/source/internal/names"
	"lockstep/source/internal/variant"
)

// A Report says what a Publish came to.
type Report struct {
	Sets    []SetReport
	Written bool     // false: all documents were as they should be
	Later   bool     // PublishChanges has put something off: Publish does it
	Kept    []string // documents left alone, because someone else wrote what is there
	Lacking []string // lines that a robots.txt left alone should have, for others to find the Resource Lists by it
}

// A SetReport is the part of a Report about one set.
type SetReport struct {
	Set       string
	Resources int64       // in the set
	Seq       catalog.Seq // newest change published
	Changes   int64       // published now for the first time
	List      bool        // a new Resource List was written
	Parts     int         // of the Resource List, 0 if it is one document
	Refused   int64       // resources and changes no document can state; each is logged
	Bytes     int64       // of lists written
	Removed   int         // parts of older generations removed
	Elapsed   time.Duration

	later bool // the Resource List is put off
}

// lookEvery is how often a Source looks whether all documents are where they
// belong, beside writing what is new.
const lookEvery = time.Minute

// Publish brings all documents in step with the catalog. The order of writes:
// of each set the lists and its Capability List, see publishSet; then the
// Source Description, which names those; then robots.txt and the hint page. It
// may be repeated at any time, after any failure: while the catalog stays as it
// is, nothing is written. One runs at a time; others wait. A set that fails
// does not keep the others from being published.
//
// The first time, after a failure and every minute it looks at all documents,
// and makes up for what is missing; in between it trusts that what it wrote is
// there.
func (s *Source) Publish(ctx context.Context) (Report, error) { return s.publish(ctx, false) }

// PublishChanges is a Publish that puts off what readers who know of the
// changes can do without: of small sets, Resource Lists are taken anew once a
// second at most. So it takes little time, however often it is called.
func (s *Source) PublishChanges(ctx context.Context) (Report, error) { return s.publish(ctx, true) }

func (s *Source) publish(ctx context.Context, quick bool) (Report, error) {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	s.quick = quick
	now := s.docs.Now()
	since := now.Sub(s.looked)
	look := s.looked.IsZero() || since < 0 || since >= lookEvery
	if look {
		s.small, s.tidied = make(map[string][]byte), false
	}
	report, sets, err := s.publishSets(ctx, look)
	if ctx.Err() == nil && len(sets) > 0 && (look || err != nil) {
		err = errors.Join(err, s.publishSource(ctx, sets, &report))
	}
	switch {
	case err != nil:
		s.looked = time.Time{}
	case look:
		s.looked = now
	}
	s.summarize()
	return report, err
}

// publishSets publishes each set, and returns those whose Capability List is
// there.
func (s *Source) publishSets(ctx context.Context, look bool) (report Report, sets []Set, _ error) {
	var errs []error
	for _, set := range s.opts.Sets {
		if err := ctx.Err(); err != nil {
			return report, sets, errors.Join(append(errs, err)...)
		}
		r, written, err := s.publishSet(ctx, set, look)
		report.Sets = append(report.Sets, r)
		report.Written = report.Written || written
		report.Later = report.Later || r.later
		there := err == nil
		if err != nil {
			errs = append(errs, fmt.Errorf("publish set %s: %w", set.Name, err))
			_, err := s.docs.Stat(ctx, names.CapabilityList(set.Name))
			there = err == nil
		}
		if there {
			sets = append(sets, set)
		}
	}
	return report, sets, errors.Join(errs...)
}

// publishSet brings the documents of one set in step with the catalog.
//
// Most often there are a few changes, for which the open Change List has room.
// Then it, longer, is all that is written, together with the tail of the state.
//
// Else the order of writes is this, each step durable before the next begins:
//
//  1. parts of a new Resource List, under new names;
//  2. what archives are going to name, then the state, saying that entry
//     documents are about to be switched, and where the parts of the Change List
//     are to end;
//  3. parts of the Change List: the open one, then those now closed (RS-CHI-06);
//     then their archive: what is about to leave the Change List is there before
//     it leaves (RA-CHG-08);
//  4. the entry documents, the Change List's before the Resource List's; then
//     the archive of Resource Lists, which tells of nothing that the Change List
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
// step 2 without step 6 writes all entry documents anew, and closes parts where
// step 2 says: what was closed once stays as it is.
func (s *Source) publishSet(ctx context.Context, set Set, look bool) (r SetReport, written bool, err error) {
	start := time.Now()
	p := &publication{Source: s, set: set, report: SetReport{Set: set.Name}}
	defer func() { p.report.Elapsed = time.Since(start); r = p.report }()
	if err := p.prepare(ctx, look); err != nil {
		return r, false, err
	}
	published := p.state
	if p.list || p.changes {
		if written, err = p.write(ctx); outsideHistory(err) && !p.restart {
			written, err = p.writeRestarted(ctx, err)
		}
		if err != nil {
			return r, written, err
		}
		s.restarted[set.Name] = true
		published = p.next
		s.spend(set, published.Changes)
	}
	s.tell(set.Name, published)
	if written {
		s.docs.Log.InfoContext(ctx, "published", slog.String("set", set.Name), slog.Int64("entries", p.report.Resources),
			slog.Int64("seq", int64(p.report.Seq)), slog.Int64("changes", p.report.Changes), slog.Bool("list", p.report.List))
	}
	fed, err := p.publishAtom(ctx, p.there != nil) // has steps of its own
	if written = written || fed; err != nil || p.there == nil {
		return r, written, err
	}
	named, err := p.publishCapabilityList(ctx, set) // step 5, where nothing else was to be done
	if err == nil {
		err = p.tidy(ctx, published) // step 7
	}
	return r, written || named, err
}

// A publication is one set on its way from one published state to the next.
type publication struct {
	*Source
	set     Set
	report  SetReport
	state   *state // what is published, as far as known
	next    *state // what will be
	status  catalog.Status
	there   sizes          // nil: nobody looked
	unsure  bool           // a publication was cut short
	anew    bool           // the history begins anew: nothing of the Change List there is goes on
	list    bool           // a Resource List is due
	changes bool           // a Change List is due
	entry   blob.Writer    // the Resource List's entry document
	build   *changeBuild   // of the Change List
	back    bool           // the catalog is older than what was published from it
	restart bool           // whatever was published, the history begins again
	begun   bool           // the history begins anew by this publication
	past    bool           // archives call for documents to be written
	lists   *archive.Draft // of Resource Lists; nil: there is none, or nobody looked
	closed  *archive.Draft // of Change Lists; the same
}

// prepare finds out what is published, what the catalog holds, and what is to
// be done. Where that is more than to append a few changes, or look is set, it
// looks at all documents of the set.
func (p *publication) prepare(ctx context.Context, look bool) (err error) {
	name := p.docs.CapabilityList(p.set.Name)
	if p.state, err = p.load(ctx, p.set.Name, name); err != nil {
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

// look finds out which documents of the set there are.
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
			p.there[info.Name] = info.Size
		}
	}
	return p.variants(ctx)
}

// reconcile finds where the Change List is to go on: where the state says, if
// catalog and state agree. If they do not, all is published anew, with a Change
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
		c, p.anew = p.state.Planned, p.state.Anew
	}
	kept := p.status.Kept
	back := p.restart || p.opts.Restart && !p.restarted[p.set.Name]
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
	}
	if back {
		// The published documents state changes that are not in this catalog. A
		// history that begins now makes readers compare all they have.
		p.docs.Log.WarnContext(ctx, "published documents are not of this catalog, or of a later state of it; the history of changes restarts", slog.String("set", p.set.Name))
		if kept, err = p.catalog.Mark(ctx, set); err != nil {
			return err
		}
		c, p.back = nil, true
	}
	if c == nil || c.Open.After < kept.Seq {
		p.anew, p.begun = true, true
		c = &changeState{After: kept.Seq, From: kept.At, Open: openPart{From: kept.At, After: kept.Seq}, Through: kept.Seq}
	}
	p.next.Changes = c
	return nil
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

// decide says which lists are due. It returns true if it has to know what
// documents there are.
func (p *publication) decide(ctx context.Context) (look bool, err error) {
	st, c := p.state, p.next.Changes
	p.report.Resources = p.status.Resources
	p.report.Seq = c.Through
	news := p.status.Last != c.Through
	list, past := p.archiveDue()
	p.past = past
	p.list = list || st.List == nil || p.unsure || p.anew || st.List.Rules != p.rules[p.set.Name].Mark || p.listDue(news) ||
		!p.there.has(names.ResourceList(p.set.Name)) || !p.have(st.List.names())
	if st.List != nil {
		p.report.Parts = len(st.List.Parts)
	}
	trim, err := p.trimDue(ctx, c)
	cut := past || c.Open.Size == 0 || !p.have(c.names()) || p.status.Last-c.Open.After > catalog.Seq(p.partEntries(p.set, c)) ||
		p.status.Last > c.Open.After && (p.old(p.set, c) || p.costly(p.set, c)) || trim
	p.changes = p.list || news || cut || !p.there.has(names.ChangeList(p.set.Name)) ||
		!p.there.is(c.Open.document(p.set.Name), c.Open.Size+int64(len(closingTag)))
	return p.list || cut, err
}

// A Resource List of a set this small is taken anew with every publication; of
// a larger one, up to Options.SmallSet, when the last is listPace old for each
// resource: writing lists takes little of the time.
const (
	tinySet  = 1000
	listPace = time.Millisecond
	tinyPace = time.Second // between lists of a tiny set, by PublishChanges
)

// listDue says whether changes call for a new Resource List, see
// defaultSmallSet; news: there are some the Change List does not have yet.
func (p *publication) listDue(news bool) bool {
	list, n := p.state.List, p.status.Resources
	age := p.docs.Now().Sub(list.At)
	if n <= min(tinySet, int64(p.opts.SmallSet)) {
		behind := news || p.status.Last > list.Seq
		p.report.later = behind && p.quick && age >= 0 && age < tinyPace
		return behind && !p.report.later
	}
	return news && (n <= int64(p.opts.SmallSet) && (age < 0 || age >= time.Duration(n)*listPace) ||
		int64(p.status.Last-list.Seq) >= n/listShare && n > int64(p.opts.SmallSet) || age >= listAge)
}

func (p *publication) have(docNames []string) bool {
	return !slices.ContainsFunc(docNames, func(name string) bool { return !p.there.has(name) })
}
