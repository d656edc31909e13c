package destination

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// A setRun brings one set into step.
type setRun struct {
	*session
	set    *setState
	stage  *stage
	reader *setReader

	compared bool             // all was compared in this run
	failed   int              // documents that could not be read
	stale    map[string]error // resources that failed for what may be an old description, yet untold

	listAt resourcesync.Datetime // of the Resource List that is staged

	portions int64 // resources that were applied before the end of a harvest

	origin Origin // of a set without documents; nil: it has some
}

// maxStale caps the failures for which it is remembered that a newer
// description may mend them within the run. What is beyond stays owed.
const maxStale = 10_000

// maxRounds is how often the changes are read in one run.
const maxRounds = 3

// newSetRun returns a run for a set.
func (s *session) newSetRun(set *setState) *setRun {
	r := &setRun{session: s, set: set, stage: newStage(s.d.journal), stale: map[string]error{}}
	r.stage.turns.keep = s.d.opts.AllVersions
	r.reader = &setReader{d: s.d, set: set, home: s.home, stage: r.stage, warn: s.warn,
		fail: func(uri string, err error) { r.failed++; s.problem(uri, err) }}
	return r
}

// syncSet brings a set into step: by its changes if that can be, else by
// comparing all of it.
func (s *session) syncSet(ctx context.Context, set *setState) error {
	r := s.newSetRun(set)
	defer r.reader.packages.shelf.clear()
	err := r.run(ctx)
	for _, uri := range slices.Sorted(maps.Keys(r.stale)) { // what no newer description has mended
		s.d.emit(Event{Kind: EventFailed, Set: set.Name, URI: uri, Err: r.stale[uri]})
	}
	if cerr := r.stage.clear(context.WithoutCancel(ctx)); err == nil {
		err = cerr
	}
	set.compared = r.compared
	if err == nil && r.failed > 0 {
		err = fmt.Errorf("set %s: %w: documents could not be read", set.Name, ErrIncomplete)
	}
	return err
}

func (r *setRun) run(ctx context.Context) error {
	st, o := r.set, &r.d.opts
	switch {
	case st.unselected:
		return r.dissolve(ctx)
	case r.past != nil:
		return r.travel(ctx)
	case st.foreign != nil:
		return r.harvest(ctx)
	case st.Lists == "" && st.Changes == "":
		if o.Baseline && r.counts[st.Number] > 0 {
			return r.dissolve(ctx)
		}
		r.reader.fail(st.URI, fmt.Errorf("read %s: the set offers none of Resource List, Resource Dump, Change List and Change Dump", fetch.Printable(st.URI)))
		return nil
	case o.Baseline, r.d.compare, st.doubted:
		return r.baseline(ctx, false)
	case !st.Complete && st.Lists != "", r.reselects():
		return r.baseline(ctx, false)
	case st.Changes == "":
		return r.compareAgain(ctx)
	}
	return r.incremental(ctx)
}

// reselects reports whether what the set holds may have been selected by
// another selection.
func (r *setRun) reselects() bool { return r.set.Selection != r.d.selects.key }

// compareAgain is for Sources without a Change List: all is compared again
// when the list has changed.
func (r *setRun) compareAgain(ctx context.Context) error {
	same, err := r.reader.listUnchanged(ctx, r.set)
	switch {
	case err != nil:
		return err
	case !same:
		return r.baseline(ctx, false)
	}
	r.report.effort(ModeNone, r.set.viaList())
	return r.retry(ctx)
}

// retry tries again what is owed, where nothing new is known.
func (r *setRun) retry(ctx context.Context) error {
	r.stage.reset()
	owed, err := r.stageOwed(ctx)
	if err != nil || owed == 0 {
		return err
	}
	_, err = r.carryOut(ctx, work{mode: ModeNone, via: r.set.viaList(), complete: true})
	return err
}

// dissolve removes what a set held that is no more.
func (r *setRun) dissolve(ctx context.Context) error {
	r.report.effort(ModeBaseline, ViaList)
	_, err := r.carryOut(ctx, work{mode: ModeBaseline, via: ViaList, prune: true, complete: true, done: func() {
		*r.set = setState{URI: r.set.URI, Name: r.set.Name, Number: r.set.Number}
	}})
	return err
}

// incremental applies what changed since the watermark (RS-DST-20). A gap, or
// a history that was rewritten, leads to a comparison of all.
func (r *setRun) incremental(ctx context.Context) error {
	st := r.set
	since := resourcesync.NewDatetime(st.Watermark)
	for round := 1; ; round++ {
		r.stage.reset()
		failed := r.failed
		c, err := r.reader.readChanges(ctx, since, st, true)
		if err != nil {
			return err
		}
		if round > 1 && (c.unchanged || r.failed > failed) {
			return nil
		}
		if r.compared && (c.lost || r.gap(&c, since) != "") {
			return nil // it is as well as it can be
		}
		past, err := r.catchUp(ctx, &c, since, st)
		if err != nil {
			return err
		}
		via := st.viaChanges()
		if c.dump {
			via = ViaChangeDump
		}
		switch gap := r.gap(&c, since); {
		case c.lost && c.newest.Time().Before(st.SeenTime):
			return backInTime(st, fmt.Sprintf("its changes end at %s, those applied here at %s", show(c.newest.Time()), show(st.SeenTime)))
		case (c.lost || gap != "") && st.Lists != "":
			if past != "" {
				gap += ", and " + past
			}
			if c.lost {
				gap = "changes that were applied here are gone from its history"
			}
			r.warn(st.Changes, fmt.Sprintf("set %s: %s: comparing all of it", st.Name, gap))
			return r.baseline(ctx, c.lost)
		case gap != "":
			r.reader.fail(st.Changes, fmt.Errorf("read %s: %s, and there is no Resource List or Resource Dump to compare with", fetch.Printable(st.Changes), gap))
		}
		owed := 0
		if round == 1 && !r.compared { // else all was tried just now
			if owed, err = r.stageOwed(ctx); err != nil {
				return err
			}
		}
		if c.unchanged && owed == 0 {
			r.report.effort(ModeNone, via)
			return nil
		}
		mode := ModeIncremental
		if c.unchanged || r.stage.empty() {
			mode = ModeNone
		}
		if err := r.applyVersions(ctx, &c, via); err != nil {
			return err
		}
		again, err := r.carryOut(ctx, work{mode: mode, via: via, complete: c.complete, partial: !c.complete, done: func() { r.advance(&c, since) }})
		if err != nil || !again || round == maxRounds {
			return err
		}
		since = resourcesync.NewDatetime(st.Watermark)
	}
}

// gap says why changes may be missing between the watermark and what was
// read, or returns "" (RS-CHI-09, RS-DST-21).
func (r *setRun) gap(c *chain, since resourcesync.Datetime) string {
	switch {
	case c.vanished != nil:
		return fmt.Sprintf("a part of its changes is gone (%v)", c.vanished)
	case c.lists == 0 && !c.unchanged && c.complete && !since.IsZero() && c.from.Compare(since) > 0:
	case c.unchanged || c.lists == 0 || !c.complete:
		return ""
	case c.gap:
		return "its Change Lists leave a gap between them"
	case c.resumed || since.IsZero() || c.from.IsZero() || c.from.Compare(since) <= 0:
		return ""
	}
	return fmt.Sprintf("its changes are told from %s on, we know it as of %s", show(c.from.Time()), show(since.Time()))
}

// advance moves the watermark to the end of what was read. It is never taken
// from the local clock (RS-DST-27).
func (r *setRun) advance(c *chain, since resourcesync.Datetime) {
	st := r.set
	w := since
	later := func(d resourcesync.Datetime) {
		if d.Compare(w) > 0 {
			w = d
		}
	}
	later(c.newest)
	if c.until.Time().Before(time.Now()) { // RS-AMB-25: an end to come is looked at again
		later(c.until) // RS-DST-24
	}
	if w.IsZero() {
		later(c.from)
	}
	st.Watermark = stateTime(w)
	if c.unchanged {
		return
	}
	st.Polled, st.Open = c.polled, c.open
	st.Appends = st.Appends || c.grew
	if t := stateTime(c.history); !t.IsZero() {
		st.History = t
	}
	if c.cursor.Prefix != "" {
		st.Cursor = c.cursor
	}
	switch newest := stateTime(c.newest); {
	case newest.IsZero() && !c.lost, newest.Before(st.SeenTime) && !c.lost:
	case newest.Equal(st.SeenTime) && !c.lost:
		st.Seen = union(st.Seen, c.seen) // not all lists were read again
	default:
		st.SeenTime, st.Seen = newest, c.seen
	}
	if st.Lists == "" {
		st.Complete, st.Selection = true, r.d.selects.key
	}
}

func union(a, b []string) []string {
	a = slices.Concat(a, b)
	slices.Sort(a)
	a = slices.Compact(a)
	return a[:min(len(a), maxSeen)]
}

// stageOwed stages what is owed to the set, and returns how much it is.
func (r *setRun) stageOwed(ctx context.Context) (int, error) {
	n := 0
	for o, err := range r.d.journal.Owed(ctx, r.set.Number) {
		if err != nil {
			return n, err
		}
		w, _, err := decodeWant(o.URI, string(o.Entry))
		if err != nil {
			return n, err
		}
		w.class, w.Refused, w.Member = wantOwed, "", member{} // of a dump of another day
		if !w.Gone {
			w.Refused = r.reader.refuse(w.URI)
		}
		n++
		if err := r.stage.add(ctx, w); err != nil {
			return n, err
		}
	}
	return n, nil
}

// work is what carryOut is to do with what is staged.
type work struct {
	mode, via string
	complete  bool   // all was read: what is to go may go
	partial   bool   // of the changes not all was read
	prune     bool   // and what is not staged is to go, too
	files     bool   // look whether the files are there; a run that follows a killed one does so anyway
	suspect   bool   // refuse if anything newer would be lost
	past      *state // what is staged is what was then; nil: what is now
	done      func() // all was carried out: move on
}

// carryOut plans and applies what is staged. It reports whether reading the
// description again may mend failures.
func (r *setRun) carryOut(ctx context.Context, w work) (again bool, err error) {
	if err := r.findOrigin(ctx); err != nil {
		return false, err
	}
	paths, err := r.paths()
	if err != nil {
		return false, err
	}
	p := &planner{
		partial: w.partial, push: r.pushed(&w), stage: r.stage, listAt: r.listAt,
		d: r.d, set: r.set.Number, dated: r.origin != nil, prune: w.prune, files: w.files || r.resume, settled: r.set.Complete && !r.reselects(),
		others: r.origin == nil && r.d.selects.prefersOther(r.set.Selection), refuse: r.reader.refuse, past: w.past,
	}
	var found adopted
	if r.d.opts.Adopt {
		if found, err = r.adopt(ctx, p, paths); err != nil {
			return false, err
		}
	}
	p.sift = w.complete && r.reselects() && r.counts[r.set.Number] > 0
	var n needs
	total, err := p.count(ctx, r.stage, func(a *action) {
		if !found.has(a) {
			n.add(a)
		}
	})
	if err != nil {
		return false, err
	}
	found.from(&total)
	deletes := w.complete && r.d.opts.Delete != DeleteKeep
	if deletes {
		if err := r.consent(&total, w.suspect); err != nil {
			return false, err
		}
	} else {
		total.deleted = 0
	}
	by, err := r.chooseWays(ctx, p, &w, &n, &total)
	if err != nil {
		return false, err
	}
	r.report.effort(w.mode, w.via)
	r.d.emit(Event{Kind: EventPlan, Set: r.set.Name, Progress: Progress{Total: total.todo() + total.unchanged, TotalBytes: total.bytes}})
	if r.d.opts.DryRun {
		r.predict(&total)
		return false, nil
	}
	a := r.applier(ctx, paths)
	a.ways = by
	if w.past != nil {
		a.fetch.asOf = w.past.asOf
		a.fetch.lookOn = w.past.mayHint() && r.d.opts.Via != ViaList
	}
	if total.todo() > 0 || w.prune || a.owing {
		if err := r.execute(ctx, a, p, &w, &total, deletes); err != nil {
			return false, err
		}
	}
	if w.complete && w.done != nil {
		w.done()
		save := map[string][]byte{fmt.Sprint(docSet, r.set.Number): encode(r.set)}
		if err := r.d.journal.Record(ctx, Batch{Save: save}); err != nil {
			return false, fmt.Errorf("record progress: %w", err)
		}
	}
	return len(r.stale) > 0, nil
}

// consent checks a plan against what was agreed to. A Source that does not bear
// out what it notified may have gone back to a time before it did; that a
// resource is gone without a word proves nothing then: it may never have been.
func (r *setRun) consent(t *tally, suspect bool) error {
	if suspect && (t.regressed > 0 || t.unexplained > 0) || r.set.doubted && t.regressed > 0 {
		how := fmt.Sprintf("its history was rewritten, and %d resources are older there than here", t.regressed)
		if t.regressed == 0 {
			how = fmt.Sprintf("its history was rewritten, and %d resources are gone without a word", t.unexplained)
		}
		return backInTime(r.set, how)
	}
	if r.set.unselected {
		t.unselected = t.deleted
	}
	gone := int64(0) // by notifications: in small portions anything could go
	if p := r.set.push; p != nil && t.deleted > 0 {
		gone = p.Deleted
	}
	return r.d.guard(r.set.Name, t.deleted-t.replaced+gone, r.counts[r.set.Number]+gone, t.unselected)
}

// predict books what a run would have done.
func (r *setRun) predict(t *tally) {
	r.report.Created += t.created
	r.report.Updated += t.updated
	r.report.Deleted += t.deleted
	r.report.Unchanged += t.unchanged + t.touched + t.released
	r.report.Refused += t.refused
	r.report.Expected += t.bytes
}

func (r *setRun) applier(ctx context.Context, paths *Paths) *applier {
	a := &applier{d: r.d, set: r.set, report: &r.report, counts: r.counts, out: r.out, keep: r.keep, stale: r.stale, ways: &ways{}}
	a.fetch = &fetcher{d: r.d, set: r.set.Number, names: newNames(ctx, paths, r.d.store), resume: r.resume, first: true, refuse: r.reader.refuse, past: r.past, origin: r.origin}
	for range r.d.journal.Owed(ctx, r.set.Number) {
		a.owing, a.fetch.resume = true, true // what is owed may have begun to come
		break
	}
	return a
}

// execute carries out a plan: what is new and changed, then deletions, then
// what they made room for.
func (r *setRun) execute(ctx context.Context, a *applier, p *planner, w *work, total *tally, deletes bool) error {
	if err := r.begin(ctx); err != nil {
		return err
	}
	if err := r.unsettle(ctx, a, w); err != nil {
		return err
	}
	a.progress.Total, a.progress.TotalBytes = total.todo()+total.unchanged, total.bytes
	a.fetch.first = deletes && total.deleted > 0
	err := a.run(ctx, p.actions(ctx, r.stage))
	defer a.ways.warnings.tell(r.warn)
	if err != nil && !isFull(err) || a.broken {
		return err
	}
	if deletes && total.deleted > 0 {
		// Also when the disk is full: it is what makes room.
		if rerr := a.remove(ctx, p.actions(ctx, r.stage)); rerr != nil && err == nil {
			err = rerr
		}
	}
	if len(a.later) > 0 && (err == nil || isFull(err) && !a.broken) {
		later := a.later
		a.later, a.last, a.full, a.fetch.first = nil, true, 0, false
		a.fetch.names.look()
		if lerr := a.run(ctx, sliceOf(later)); err == nil {
			err = lerr
		}
	}
	if err != nil {
		return err
	}
	r.d.emit(Event{Kind: EventProgress, Set: r.set.Name, Progress: a.progress})
	return err
}

// unsettle notes what a run that does not come to its end would leave half done.
func (r *setRun) unsettle(ctx context.Context, a *applier, w *work) error {
	switch {
	case w.mode == ModeBaseline && (w.prune || r.origin != nil && w.complete):
		return r.restart(ctx, a, w.past)
	case r.set.Complete && r.reselects():
		undone := *r.set
		undone.Complete, undone.Selection = false, ""
		return r.d.journal.Record(ctx, Batch{Save: map[string][]byte{fmt.Sprint(docSet, r.set.Number): encode(&undone)}})
	}
	return nil
}

// restart notes that the set is being compared as a whole: what was owed so
// far is either found again, or no longer wanted. Where the set is to be what it
// was, what is there then is known to be as old as that.
func (r *setRun) restart(ctx context.Context, a *applier, past *state) error {
	if !a.owing && !r.set.Complete && past == nil {
		return nil
	}
	undone := *r.set
	undone.Complete = false
	undone.Harvest = undone.Harvest.undone()
	b := Batch{Save: map[string][]byte{}}
	if past != nil {
		undone.goBack(past)
		r.forgetPushed(b.Save)
	}
	b.Save[fmt.Sprint(docSet, r.set.Number)] = encode(&undone)
	for o, err := range r.d.journal.Owed(ctx, r.set.Number) {
		if err != nil {
			return err
		}
		b.Settle = append(b.Settle, Owed{Set: o.Set, URI: o.URI})
		if len(b.Settle) == 1000 {
			if err := r.d.journal.Record(ctx, b); err != nil {
				return err
			}
			b.Settle = nil
		}
	}
	a.owing = false
	return r.d.journal.Record(ctx, b)
}

// findOrigin lets the first resource tell the origin, where the Source is a
// file.
func (r *setRun) findOrigin(ctx context.Context) error {
	if r.mirror.Origin != "" {
		return nil
	}
	for w, err := range r.stage.wants(ctx) {
		if err != nil {
			return err
		}
		scheme, rest, ok := cutScheme(w.URI)
		if !ok {
			continue
		}
		if i := strings.IndexAny(rest, "/?#"); i >= 0 {
			rest = rest[:i]
		}
		r.mirror.Origin = scheme + "://" + rest
		if r.d.opts.DryRun {
			return nil
		}
		return r.d.journal.Record(ctx, Batch{Save: map[string][]byte{docMirror: encode(r.mirror)}})
	}
	return nil
}
