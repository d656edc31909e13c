package destination

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"lockstep/destination/internal/apply"
	"lockstep/destination/internal/catchup"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/outage"
	"lockstep/destination/internal/pending"
	"lockstep/destination/internal/push"
	"lockstep/destination/internal/reconcile"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/stage"
	"lockstep/destination/internal/wording"
	"lockstep/internal/fetch"
	"lockstep/internal/nesting"
	"lockstep/resourcesync"
)

// A setRun brings one set into step.
type setRun struct {
	*session
	set    *setState
	stage  *stage.Stage
	reader *entries.Reader

	compared bool             // all was compared in this run
	failed   int              // documents that could not be read
	deep     bool             // one of them is an index that is nested too deep
	stale    map[string]error // resources that failed, perhaps due to an outdated description, not yet reported

	listAt resourcesync.Datetime // of the Resource List that is staged

	final bool // only what failed in this run is tried again

	began     time.Time         // the watermark before this run
	outages   *outage.Outages   // what could not be read in earlier runs
	listURI   string            // of the list that was read
	listCause []documentFailure // why it is not the Resource List; none: it is
	noChanges []documentFailure // why the list replaces the changes; empty: it does not
	movedOn   apply.MovedOn     // resources that came from mementos

	origin Origin // of a set without documents; nil: it has some

	confirmed map[push.Key]bool // deletions that were notified and that the Source confirms
	results   push.Results      // of each resource, if they are wanted
}

// maxRounds is how often the changes are read in one run.
const maxRounds = 3

// newSetRun returns a run for a set.
func (s *session) newSetRun(set *setState) *setRun {
	r := &setRun{session: s, set: set, stage: stage.New(s.d.journal), stale: map[string]error{}, outages: outage.New(s.d.clock)}
	r.stage.Versions.Keep = s.d.opts.AllVersions
	r.reader = newSetReader(s.d, set, s.home, s.file, r.stage, s.warn, r.fail)
	r.reader.Future.Limit = time.Now().Add(entries.MaxTrustedSkew)
	r.stage.Future = r.reader.Future.Has
	return r
}

// fail records a document of the set that could not be read. Of indexes that
// are nested too deep the first is reported.
func (r *setRun) fail(uri string, err error) {
	r.failed++
	if errors.Is(err, nesting.ErrDeep) {
		if r.deep {
			return
		}
		r.deep = true
	}
	r.problem(uri, err)
}

// syncSet brings a set into step: by its changes if that can be, else by
// comparing all of it.
func (s *session) syncSet(ctx context.Context, set *setState) error {
	set.Planned, set.Found = false, nil
	r := s.newSetRun(set)
	defer r.reader.Packages.Shelf.Clear()
	r.began = set.Watermark
	var err error
	r.outages, err = outage.Load(ctx, r.d.journal, set.Number, s.d.clock)
	if err == nil {
		err = r.run(ctx)
	}
	if err == nil && r.mustCompare() {
		err = r.baseline(ctx, false)
	}
	if err == nil {
		err = r.lookInPackages(ctx)
	}
	r.reportMoved()
	if serr := saveOutages(context.WithoutCancel(ctx), r); err == nil {
		err = serr
	}
	r.reader.Future.Report(&r.set.Set, r.warn)
	for _, uri := range slices.Sorted(maps.Keys(r.stale)) { // what no newer description has mended
		s.d.emit(Event{Kind: EventFailed, Set: set.Name, URI: uri, Err: r.stale[uri]})
	}
	if cerr := r.stage.Close(context.WithoutCancel(ctx)); err == nil {
		err = cerr
	}
	set.Compared = r.compared
	if err == nil && r.failed > 0 {
		err = fmt.Errorf("set %s: %w: documents could not be read", set.Name, ErrIncomplete)
	}
	return err
}

// mustCompare reports whether damaged files could not be repaired by what the
// Journal knows of them, and comparing all of the set may.
func (r *setRun) mustCompare() bool {
	if !r.damaged[r.set.Number] || r.compared || r.d.opts.DryRun || r.set.Lists == "" || len(r.stale) == 0 {
		return false
	}
	r.stage.Reset()
	return true
}

func (r *setRun) run(ctx context.Context) error {
	st, o := r.set, &r.d.opts
	switch {
	case st.Unselected:
		return r.dissolve(ctx)
	case r.past != nil:
		return restoreSet(ctx, r)
	case st.Foreign != nil:
		return harvestSet(ctx, r)
	case st.Lists == "" && st.Changes == "":
		if o.Baseline && r.counts[st.Number] > 0 {
			return r.dissolve(ctx)
		}
		r.reader.Fail(st.URI, fmt.Errorf("read %s: the set offers none of Resource List, Resource Dump, Change List and Change Dump", fetch.Printable(st.URI)))
		return nil
	case o.Baseline, r.d.compare, st.Doubted:
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
func (r *setRun) reselects() bool { return r.set.Selection != r.d.selects.Key }

// compareAgain is for Sources without a Change List: all is compared again
// when the list has changed.
func (r *setRun) compareAgain(ctx context.Context) error {
	same, err := r.sameList(ctx)
	switch {
	case err != nil:
		return err
	case !same:
		return r.baseline(ctx, false)
	}
	r.report.RaiseMode(ModeNone, r.set.viaList())
	return r.retry(ctx)
}

// retry retries pending work, when nothing new is known.
func (r *setRun) retry(ctx context.Context) error {
	r.stage.Reset()
	owed, err := r.stageOwed(ctx)
	if err != nil || owed == 0 {
		return err
	}
	_, err = r.carryOut(ctx, work{Mode: ModeNone, Via: r.set.viaList(), Complete: true})
	return err
}

// dissolve removes what a set held that no longer exists.
func (r *setRun) dissolve(ctx context.Context) error {
	r.report.RaiseMode(ModeBaseline, ViaList)
	_, err := r.carryOut(ctx, work{Mode: ModeBaseline, Via: ViaList, Prune: true, Complete: true, Done: func() {
		*r.set = setState{Set: saved.Set{URI: r.set.URI, Name: r.set.Name, Number: r.set.Number}}
	}})
	return err
}

// incremental applies what changed since the watermark (RS-DST-20). A gap, or
// a history that was rewritten, leads to a comparison of all.
func (r *setRun) incremental(ctx context.Context) error {
	st := r.set
	since := resourcesync.NewDatetime(st.Watermark)
	ahead := entries.WasAhead(&st.Set, time.Now())
	for round := 1; ; round++ {
		r.stage.Reset()
		failed := r.failed
		c, err := r.readSetChanges(ctx, since, st, true)
		if err != nil {
			return err
		}
		if len(r.noChanges) > 0 {
			if r.compared {
				return nil // it was compared just now
			}
			return r.compareInstead(ctx)
		}
		if round > 1 && (c.Unchanged || r.failed > failed) {
			return nil
		}
		if ahead && !c.Unchanged && !c.Resumed && !r.compared && c.Complete && !since.IsZero() {
			return r.compareAhead(ctx)
		}
		if r.compared && (c.Lost || c.GapAfter(since) != "") {
			if gap := c.GapAfter(since); gap != "" {
				st.CurrentDoubts().Gap = gap
			}
			return nil // it is as well as it can be
		}
		past, err := catchup.Extend(ctx, r.reader, &c, since, &st.Set, r.report.AddPlan)
		if err != nil {
			return err
		}
		via := st.viaChanges()
		if c.Dump {
			via = ViaChangeDump
		}
		if since.IsZero() && !c.Unchanged {
			c.Doubt(st.CurrentDoubts(), st.Lists == "")
		}
		gap := c.GapAfter(since)
		switch {
		case c.Lost && c.Newest.Time().Before(st.SeenTime):
			return reconcile.WentBack(st.Name, fmt.Sprintf("its changes end at %s, those applied here at %s", wording.Time(c.Newest.Time()), wording.Time(st.SeenTime)))
		case (c.Lost || gap != "") && st.Lists != "":
			if past != "" {
				gap += ", and " + past
			}
			if c.Lost {
				gap = "changes that were applied here are gone from its history"
			}
			r.warn(st.Changes, fmt.Sprintf("set %s: %s: comparing all of it", st.Name, gap))
			return r.baseline(ctx, c.Lost)
		case gap != "":
			r.reader.Fail(st.Changes, fmt.Errorf("read %s: %s, and there is no Resource List or Resource Dump to compare with", fetch.Printable(st.Changes), gap))
			st.CurrentDoubts().Gap = gap
		case c.Lists > 0 && !c.Unchanged && !c.Resumed && !c.Proven && !r.compared: // RS-MD-14
			st.CurrentDoubts().NoFrom = true
		}
		owed := 0
		if round == 1 && !r.compared { // else all was tried just now
			if owed, err = r.stageOwed(ctx); err != nil {
				return err
			}
		}
		if c.Unchanged && owed == 0 {
			r.report.RaiseMode(ModeNone, via)
			return nil
		}
		mode := ModeIncremental
		if c.Unchanged || r.stage.Empty() {
			mode = ModeNone
		}
		if err := reconciled(r).ApplyVersions(ctx, &c, via); err != nil {
			return err
		}
		again, err := r.carryOut(ctx, work{Mode: mode, Via: via, Complete: c.Whole(), Explicit: c.Complete, Partial: !c.Complete, Done: func() { r.advance(&c, since) }})
		if err != nil || !again || round == maxRounds {
			return err
		}
		since = resourcesync.NewDatetime(st.Watermark)
	}
}

// advance moves the watermark to the end of what was read. It is never taken
// from the local clock (RS-DST-27).
func (r *setRun) advance(c *entries.Chain, since resourcesync.Datetime) {
	st := r.set
	w := since
	later := func(d resourcesync.Datetime) {
		if d.Compare(w) > 0 {
			w = d
		}
	}
	later(c.Newest)
	if c.Until.Time().Before(time.Now()) { // RS-AMB-25: an end to come is looked at again
		later(c.Until) // RS-DST-24
	}
	if w.IsZero() {
		later(c.From)
	}
	st.Watermark = saved.Time(w)
	st.Ahead = st.Watermark.After(time.Now().Add(entries.MaxTrustedSkew))
	if st.Found != nil {
		st.Doubts = *st.Found
	}
	if c.Other {
		if st.Polled == nil {
			st.Polled = map[string]saved.Validators{}
		}
		delete(st.Polled, st.ChangeDump)
		if v, ok := c.Polled[st.ChangeDump]; ok && len(c.Open) == 0 {
			st.Polled[st.ChangeDump] = v
		}
		return
	}
	if c.Unchanged {
		return
	}
	st.Polled, st.Open = c.Polled, c.Open
	st.Appends = st.Appends || c.Grew
	if t := saved.Time(c.History); !t.IsZero() {
		st.History = t
	}
	if c.Cursor.Prefix != "" {
		st.Cursor = c.Cursor
	}
	switch newest := saved.Time(c.Newest); {
	case newest.IsZero() && !c.Lost, newest.Before(st.SeenTime) && !c.Lost:
	case newest.Equal(st.SeenTime) && !c.Lost:
		st.Seen = entries.Union(st.Seen, c.Seen) // not all lists were read again
	default:
		st.SeenTime, st.Seen = newest, c.Seen
	}
	if st.Lists == "" {
		st.Complete, st.Selection = true, r.d.selects.Key
	}
}

// stageOwed stages the pending work of the set, and returns how much there is.
func (r *setRun) stageOwed(ctx context.Context) (int, error) {
	return pendingStager(r).Stage(ctx, r.stage)
}

// pendingStager returns what stages the pending work of the set.
func pendingStager(r *setRun) *pending.Stager {
	return &pending.Stager{Set: pendingOf(r.d, r.set.Number), Transient: r.final, Refuse: r.reader.Refuse, Chooser: newChooser(r)}
}
