package source

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
)

// A Report says what a Publish came to.
type Report struct {
	Sets    []SetReport
	Written bool     // false: all documents were as they should be
	Kept    []string // documents left alone, because someone else wrote what is there
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
}

// Publish brings all documents in step with the catalog. The order of writes:
// of each set the lists and its Capability List, see publishSet; then the
// Source Description, which names those; then robots.txt. It may be repeated at
// any time, after any failure: while the catalog stays as it is, nothing is
// written. One runs at a time; others wait. A set that fails does not keep the
// others from being published.
func (s *Source) Publish(ctx context.Context) (Report, error) {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	var report Report
	var errs []error
	var sets []Set // whose Capability List is there
	for _, set := range s.opts.Sets {
		if err := ctx.Err(); err != nil {
			return report, err
		}
		r, written, err := s.publishSet(ctx, set)
		report.Sets = append(report.Sets, r)
		report.Written = report.Written || written
		if err != nil {
			errs = append(errs, fmt.Errorf("publish set %s: %w", set.Name, err))
		}
		if _, err := s.docs.Stat(ctx, capabilityListName(set.Name)); err == nil {
			sets = append(sets, set)
		}
	}
	if len(sets) > 0 {
		errs = append(errs, s.publishSource(ctx, sets, &report))
	}
	s.summarize()
	return report, errors.Join(errs...)
}

// publishSource writes the documents about the Source as a whole.
func (s *Source) publishSource(ctx context.Context, sets []Set, report *Report) error {
	description, err := s.encodeDescription(sets)
	if err != nil {
		return fmt.Errorf("build source description: %w", err)
	}
	for _, d := range []struct {
		name string
		data []byte
	}{{wellKnownName, description}, {robotsName, s.robots(sets)}} {
		written, kept, err := s.publishSmall(ctx, d.name, d.data)
		if err != nil {
			return fmt.Errorf("publish %s: %w", d.name, err)
		}
		report.Written = report.Written || written
		if kept {
			report.Kept = append(report.Kept, d.name)
		}
	}
	return nil
}

// publishSmall writes a document that depends on the Options only, if it is
// not there already. A robots.txt that is not ours stays as it is.
func (s *Source) publishSmall(ctx context.Context, name string, data []byte) (written, kept bool, err error) {
	old, mod, err := s.read(ctx, name)
	switch {
	case err != nil || bytes.Equal(old, data):
		return false, false, err
	case name == robotsName && old != nil && !ourRobots(old):
		return false, true, nil
	}
	return true, false, s.commit(ctx, name, data, s.after(mod))
}

// after returns the time, or if that is not after t, the next instant that is:
// Last-Modified never goes back, whatever the clock does.
func (s *Source) after(t time.Time) time.Time {
	if now := s.opts.Now(); now.After(t) {
		return now
	}
	return t.Add(time.Millisecond)
}

// publishSet brings the documents of one set in step with the catalog.
//
// The order of writes, each step durable before the next begins:
//
//  1. parts of a new Resource List, under new names;
//  2. the state, saying that entry documents are about to be switched;
//  3. parts of the Change List: the open one, then those now closed (RS-CHI-06);
//  4. the entry documents, the Change List's before the Resource List's; then,
//     if there is no index any more, the part that was open, now closed;
//  5. the Capability List, if it is not there yet;
//  6. the state, describing what is now published;
//  7. what the state no longer needs: the catalog's oldest changes, and parts
//     replaced more than the grace period ago.
//
// Cut short anywhere, every entry document names only parts that are there
// (RS-IDX-06), and the Change List covers from the Resource List's at: it never
// begins after the at of a list someone may still be reading. A run that finds
// step 2 without step 6 writes all entry documents anew. Closed parts come out
// as they were, for where one ends depends on its beginning and the catalog
// alone.
func (s *Source) publishSet(ctx context.Context, set Set) (r SetReport, written bool, err error) {
	start := time.Now()
	p := &publication{Source: s, set: set, report: SetReport{Set: set.Name}}
	defer func() { p.report.Elapsed = time.Since(start); r = p.report }()
	if err := p.look(ctx); err != nil {
		return r, false, err
	}
	published := p.state
	if p.due() {
		if err := p.write(ctx); err != nil {
			return r, false, err
		}
		published, written = p.next, true
		s.opts.Logger.InfoContext(ctx, "published", slog.String("set", set.Name), slog.Int64("entries", p.report.Resources),
			slog.Int64("seq", int64(p.report.Seq)), slog.Int64("changes", p.report.Changes), slog.Bool("list", p.report.List))
	} else if written, err = p.publishCapabilityList(ctx, set); err != nil { // step 5 for itself
		return r, false, err
	}
	return r, written, p.tidy(ctx, published) // step 7
}

// write takes steps 1 to 6 of publishSet.
func (p *publication) write(ctx context.Context) error {
	defer func() { discard(p.parts); discard(p.entries) }() // does nothing to what was committed
	if err := p.build(ctx); err != nil {                    // step 1
		return err
	}
	if err := p.announce(ctx); err != nil { // step 2
		return err
	}
	for _, ws := range [][]blob.Writer{p.parts, p.entries, p.ended} { // steps 3 and 4
		if len(ws) == 0 {
			continue
		}
		if err := p.docs.Commit(ctx, ws...); err != nil {
			return err
		}
	}
	if _, err := p.publishCapabilityList(ctx, p.set); err != nil { // step 5
		return err
	}
	return p.save(ctx, p.set.Name, p.next) // step 6
}

// A publication is one set on its way from one published state to the next.
type publication struct {
	*Source
	set     Set
	report  SetReport
	state   *state // what is published, as far as known
	next    *state // what will be
	status  catalog.Status
	there   map[string]bool // blobs there are
	list    bool            // a Resource List is due
	changes bool            // a Change List is due
	parts   []blob.Writer   // of the Change List, in the order of their commit
	entries []blob.Writer   // entry documents, likewise
	ended   []blob.Writer   // a part of an index that is no more
}

// look finds out what is published and what the catalog holds.
func (p *publication) look(ctx context.Context) (err error) {
	name := p.capabilityList(p.set.Name)
	if p.state, err = p.load(ctx, p.set.Name, name); err != nil {
		return err
	}
	p.there = make(map[string]bool)
	for _, lists := range []string{"resourcelist", "changelist"} { // not the patches, which are many
		for info, err := range p.docs.List(ctx, documentsDir+p.set.Name+"/"+lists) {
			if err != nil {
				return err
			}
			p.there[info.Name] = true
		}
	}
	p.next = new(*p.state)
	if err := p.reconcile(ctx, name); err != nil {
		return fmt.Errorf("read catalog: %w", err)
	}
	p.decide()
	return nil
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
	kept := p.status.Kept
	c := p.state.Changes
	if c != nil {
		back, err := p.wentBack(ctx, set, c)
		if err != nil {
			return err
		}
		if back {
			// Readers were told of changes this catalog knows nothing of. A
			// history that begins now makes them compare all they have.
			p.opts.Logger.WarnContext(ctx, "catalog is older than what was published from it; its history begins anew", slog.String("set", p.set.Name))
			if kept, err = p.catalog.Mark(ctx, set); err != nil {
				return err
			}
			c = nil
		}
	}
	if c == nil || c.Open.After < kept.Seq {
		p.list, p.changes = true, true
		p.next.Changes = &changeState{After: kept.Seq, From: kept.At, Open: openPart{From: kept.At, After: kept.Seq}, Through: kept.Seq}
	}
	return nil
}

// wentBack reports whether the catalog is not, or not any more, the one c was
// published from: restored from an older copy, or filled anew.
func (p *publication) wentBack(ctx context.Context, set string, c *changeState) (bool, error) {
	if c.Through > p.status.Last {
		return true, nil
	}
	if c.ThroughTime.IsZero() || c.Through <= p.status.Kept.Seq {
		return false, nil
	}
	for change, err := range p.catalog.Changes(ctx, set, c.Through-1) {
		return err == nil && (change.Seq != c.Through || !change.EventTime.Equal(c.ThroughTime)), err
	}
	return true, nil
}

// decide says which lists are due.
func (p *publication) decide() {
	st := p.state
	p.report.Resources = p.status.Resources
	p.report.Seq = p.next.Changes.Through
	if st.List == nil || st.Switching {
		p.list, p.changes = true, true
	}
	if p.list {
		return
	}
	p.report.Parts = len(st.List.Parts)
	news := p.status.Last != st.Changes.Through
	p.changes = news || !p.there[changeListName(p.set.Name)]
	if parts := st.Changes.names(); !p.have(parts) {
		p.changes = true
		p.next.Changes = st.Changes.uncut()
	}
	p.list = news && p.listDue() || !p.there[resourceListName(p.set.Name)] || !p.have(st.List.Parts)
}

// listDue says whether changes call for a new Resource List, see defaultSmallSet.
func (p *publication) listDue() bool {
	list := p.state.List
	changes := int64(p.status.Last - list.Seq)
	return p.status.Resources <= int64(p.opts.SmallSet) ||
		changes >= p.status.Resources/listShare ||
		p.opts.Now().Sub(list.At) >= listAge
}

func (p *publication) have(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !p.there[name] })
}

// due reports whether there is anything to write.
func (p *publication) due() bool { return p.list || p.changes }

// build writes what is due. Nothing that a document names changes by it.
func (p *publication) build(ctx context.Context) error {
	p.next.Stamp = p.after(p.state.Stamp)
	var list blob.Writer
	if p.list { // before the changes, so that these reach beyond what it holds
		w, err := p.buildList(ctx)
		if err != nil {
			return err
		}
		list = w
	}
	if p.changes {
		if err := p.buildChanges(ctx); err != nil {
			if list != nil {
				_ = list.Close() // nothing of it is wanted
			}
			return err
		}
	}
	if list != nil {
		p.entries = append(p.entries, list)
	}
	return nil
}

func (p *publication) buildList(ctx context.Context) (blob.Writer, error) {
	mark, err := p.catalog.Mark(ctx, p.capabilityList(p.set.Name))
	if err != nil {
		return nil, fmt.Errorf("build resource list: %w", err)
	}
	b := &listBuild{Source: p.Source, set: p.set.Name, mark: mark, stamp: p.next.Stamp,
		gen: generation(p.set.Name, mark.At, func(name string) bool { return p.there[name] })}
	list, w, err := b.run(ctx)
	if err != nil {
		return nil, err
	}
	p.next.List = list
	p.report.List, p.report.Parts = true, len(list.Parts)
	p.report.Resources = list.Resources
	p.report.Bytes += b.bytes.Load()
	p.report.Refused += b.refused.Load()
	return w, nil
}

func (p *publication) buildChanges(ctx context.Context) error {
	st := *p.next.Changes
	st.Closed = slices.Clone(st.Closed)
	b := &changeBuild{Source: p.Source, set: p.set.Name, stamp: p.next.Stamp}
	if err := b.trim(ctx, &st, p.cutoff()); err != nil {
		return err
	}
	parts, entry, err := b.run(ctx, &st)
	if err != nil {
		return err
	}
	p.parts, p.entries, p.ended = parts, append(p.entries, entry), b.ended
	p.report.Changes = int64(st.Through - p.next.Changes.Through)
	p.report.Seq = st.Through
	p.report.Bytes += b.bytes
	p.report.Refused += b.refused
	p.next.Changes = &st
	return nil
}

// cutoff returns the instant before which nobody needs changes any more. They
// are kept for all who may be reading a Resource List, also a replaced one.
func (p *publication) cutoff() time.Time {
	cutoff := p.opts.Now().Add(-p.opts.Keep)
	lists := []time.Time{p.next.List.At}
	if p.state.List != nil {
		lists = append(lists, p.state.List.At)
	}
	for _, r := range p.state.Retired {
		if !r.At.IsZero() {
			lists = append(lists, r.At)
		}
	}
	for _, at := range lists {
		if at.Before(cutoff) {
			cutoff = at
		}
	}
	return cutoff
}

// announce says in the state that the entry documents are about to be
// switched, and completes the state that is to be saved when they are.
func (p *publication) announce(ctx context.Context) error {
	p.next.Switching = false
	p.next.Retired = p.retire(p.opts.Now())
	switching := *p.state
	switching.Switching, switching.Stamp = true, p.next.Stamp
	return p.save(ctx, p.set.Name, &switching)
}

// retire returns the parts there are that no entry document will name.
func (p *publication) retire(now time.Time) []retired {
	named := make(map[string]bool)
	for _, names := range [][]string{p.next.List.Parts, p.next.Changes.names()} {
		for _, name := range names {
			named[name] = true
		}
	}
	var all []retired
	known := make(map[string]bool)
	for _, r := range p.state.Retired {
		if !named[r.Name] && p.there[r.Name] {
			all = append(all, r)
			known[r.Name] = true
		}
	}
	var at time.Time
	if p.state.List != nil {
		at = p.state.List.At
	}
	for name := range p.there {
		if isPart(p.set.Name, name) && !named[name] && !known[name] {
			all = append(all, retired{Name: name, Gone: now, At: at})
		}
	}
	slices.SortFunc(all, func(a, b retired) int {
		return cmp.Or(a.Gone.Compare(b.Gone), strings.Compare(a.Name, b.Name))
	})
	return all
}

// tidy lets go of what nobody needs, according to st, which is published. All
// of it can be done again.
func (p *publication) tidy(ctx context.Context, st *state) error {
	if c := st.Changes; c.After > p.status.Kept.Seq {
		mark := catalog.Mark{Seq: c.After, At: c.From.Truncate(time.Microsecond)} // see boundary
		if err := p.catalog.Forget(ctx, p.capabilityList(p.set.Name), mark); err != nil {
			return fmt.Errorf("forget changes up to %d: %w", c.After, err)
		}
	}
	if err := p.tidyPatches(ctx); err != nil {
		return err
	}
	var old []string
	for _, r := range st.Retired {
		if p.there[r.Name] && p.opts.Now().Sub(r.Gone) >= p.opts.Grace {
			old = append(old, r.Name)
		}
	}
	if len(old) == 0 {
		return nil
	}
	if err := p.docs.Remove(ctx, old...); err != nil {
		return fmt.Errorf("remove replaced parts: %w", err)
	}
	p.report.Removed = len(old)
	return nil
}
