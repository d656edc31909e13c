package destination

import (
	"context"
	"fmt"
	"iter"
	"time"

	"lockstep/destination/filename"
	"lockstep/destination/internal/adopt"
	"lockstep/destination/internal/apply"
	"lockstep/destination/internal/bulk"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/pending"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/planner"
	"lockstep/destination/internal/push"
	"lockstep/destination/internal/restore"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
)

// work says how carryOut is to apply what is staged.
type work struct {
	mode, via string
	complete  bool           // all was read: what is to go may go
	explicit  bool           // what the Source says was deleted may go, though not all was read
	partial   bool           // of the changes not all was read
	prune     bool           // and what is not staged is to go, too
	files     bool           // look whether the files are there; a run that follows a killed one does so anyway
	suspect   bool           // refuse if anything newer would be lost
	searched  bool           // packages were searched for all of it
	past      *restore.State // what is staged is what was then; nil: what is now
	final     bool           // what is staged failed before in this run
	done      func()         // all was carried out: move on
}

// carryOut plans and applies what is staged. It reports whether failures may
// succeed after reading the description again.
func (r *setRun) carryOut(ctx context.Context, w work) (again bool, err error) {
	if err := r.findOrigin(ctx); err != nil {
		return false, err
	}
	paths, err := r.paths()
	if err != nil {
		return false, err
	}
	confirmed := r.confirmed
	p := newPlanner(r.d, r.set.Number)
	p.Partial, p.Prune, p.Files = w.partial, w.prune, w.files || r.resume
	p.Stage, p.ListAt, p.IsNewer = r.stage, r.listAt, r.pushed(&w).IsNewer
	p.Dated, p.Settled, p.LookUp = r.origin != nil, r.set.Complete && !r.reselects(), true
	p.PreferOther = r.origin == nil && r.d.selects.PrefersOther(r.set.Selection)
	p.Refuse, p.Past = r.reader.Refuse, pastOf(w.past)
	p.Confirmed = func(uri string) bool { return confirmed[push.KeyOf(uri)] }
	var found adopt.Adopted
	if r.d.opts.Adopt || r.reclaims() && w.past == nil {
		if found, err = r.adopt(ctx, p, paths); err != nil {
			return false, err
		}
	}
	p.Sift = w.complete && r.reselects() && r.counts[r.set.Number] > 0
	var n bulk.Needs
	r.temporary = 0
	total, err := p.Count(ctx, r.stage, func(a *plan.Action) {
		if a.Verb == plan.Remove && r.set.push.IsTemporary(a.URI) {
			r.temporary++
		}
		if !found.Has(a) {
			n.Add(a)
		}
	})
	if err != nil {
		return false, err
	}
	withoutAdopted(&total, &found)
	if w.mode == ModeBaseline && w.files {
		r.set.noteSelection(&total)
	}
	deletes := (w.complete || w.explicit) && r.d.opts.Delete != DeleteKeep
	if deletes {
		if err := r.consent(&total, &w); err != nil {
			return false, err
		}
	} else {
		total.Deleted = 0
	}
	by, err := r.chooseWays(ctx, p, &w, &n, &total)
	if err != nil {
		return false, err
	}
	r.report.RaiseMode(w.mode, w.via)
	r.d.emit(Event{Kind: EventPlan, Set: r.set.Name, Progress: Progress{Total: total.Todo() + total.Unchanged, TotalBytes: total.Bytes}})
	if r.d.opts.DryRun {
		r.predict(&total)
		return false, nil
	}
	a := r.applier(ctx, paths)
	a.Methods = by
	a.OtherForm = otherForms(r, p).Fetch
	if w.past != nil {
		a.Fetch.AsOf = w.past.AsOf
		a.Fetch.OtherMethods = w.past.MayHint() && r.d.opts.Via != ViaList
	}
	if total.Todo() > 0 || w.prune || a.Recorder.Owing {
		if err := r.execute(ctx, a, p, &w, &total, deletes); err != nil {
			return false, err
		}
	}
	if a.Recorder.Confirmed > 0 {
		if err := r.removeConfirmed(ctx, &w); err != nil {
			return false, err
		}
	}
	if w.complete && w.done != nil {
		w.done()
		save := map[string][]byte{saved.DocSet(r.set.Number): saved.Encode(r.set)}
		if err := r.d.journal.Record(ctx, journal.Batch{Save: save}); err != nil {
			return false, fmt.Errorf("record progress: %w", err)
		}
	}
	return len(r.stale) > 0 || a.Recorder.Moved.Count > 0, nil
}

// consent checks a plan against the configured limits. A Source whose documents
// do not confirm its notifications may have returned to a time before them; a
// resource that disappears without a recorded deletion proves nothing then: it
// may never have existed.
func (r *setRun) consent(t *planner.Tally, w *work) error {
	if w.suspect && (t.Regressed > 0 || t.Unexplained > 0) || r.set.Doubted && t.Regressed > 0 {
		how := fmt.Sprintf("its history was rewritten, and %d resources are older there than here", t.Regressed)
		if t.Regressed == 0 {
			how = fmt.Sprintf("its history was rewritten, and %d resources are gone without a word", t.Unexplained)
		}
		return backInTime(r.set, how)
	}
	if r.set.Unselected {
		t.Unselected = t.Deleted
	}
	deleted, total := t.Deleted-t.Replaced, r.counts[r.set.Number]
	empties := deleted >= total
	if p := r.set.push; p != nil && t.Deleted > 0 && !(r.compared && w.complete) && !r.set.Unselected {
		// What was deleted before counts as well: otherwise a Source could empty
		// the mirror in small portions, also with a pull between any two of them.
		deleted, total = p.AddLoss(deleted, total, r.temporary)
	}
	return r.d.guard(r.set.Name, deleted, total, t.Unselected, empties)
}

// predict counts what a run would have done.
func (r *setRun) predict(t *planner.Tally) {
	r.report.Created += t.Created
	r.report.Updated += t.Updated
	r.report.Deleted += t.Deleted
	r.report.Unchanged += t.Unchanged + t.Touched + t.Released
	r.report.Refused += t.Refused
	r.report.Expected += t.Bytes
}

func (r *setRun) applier(ctx context.Context, paths *filename.Mapping) *apply.Applier {
	counter := &applyReport{&r.report, r.set.Name, r.d.emit}
	recorder := &apply.Recorder{Set: r.set.Number, Name: r.set.Name, Report: counter, Counts: r.counts, Results: r.results, Push: r.set.push, Marked: &r.placed,
		Stale: r.stale, KeepsDeleted: r.d.opts.Delete == DeleteKeep}
	a := apply.New(r.d.applyMirror(r.keep, r.out), newFetcher(r.d, r.set.Number, paths), newWays(r.d), recorder)
	a.Fetch.Resume, a.Fetch.BeforeDeletions, a.Fetch.OwnFiles, a.Fetch.Refuse = r.resume, true, r.ours, r.reader.Refuse
	if r.past != nil {
		a.Fetch.OfPast, a.Fetch.OpenKept = true, keptContent(r.past.from).Open
	}
	if r.origin != nil {
		a.Fetch.Stored = storedBy(r.origin)
	}
	if !r.final {
		recorder.Passing = r.passing
	}
	a.Fetch.Lasting = r.outages.IsLasting(FallbackLoc)
	for range r.d.journal.Owed(ctx, r.set.Number) {
		recorder.Owing, a.Fetch.Resume = true, true // what is owed may have begun to come
		break
	}
	return a
}

// execute carries out a plan: first what is new and changed, then deletions,
// then what needed the space that these freed.
func (r *setRun) execute(ctx context.Context, a *apply.Applier, p *planner.Planner, w *work, total *planner.Tally, deletes bool) error {
	if err := r.begin(ctx); err != nil {
		return err
	}
	if err := r.unsettle(ctx, a, w); err != nil {
		return err
	}
	defer r.noteMoved(a)
	a.Recorder.Progress.Total, a.Recorder.Progress.TotalBytes = total.Todo()+total.Unchanged, total.Bytes
	a.Fetch.BeforeDeletions = deletes && total.Deleted > 0
	actions := p.Actions(ctx, r.stage)
	if a.Recorder.Owing {
		waiting := pendingOf(r.d, r.set.Number)
		actions = waiting.Merge(ctx, actions, pending.Deferrals{Report: w.via != ViaNotification && !w.final, Settle: w.prune})
	}
	defer a.Methods.Warnings.Report(r.warn)
	replan := func() iter.Seq2[plan.Action, error] { return p.Actions(ctx, r.stage) }
	return a.Execute(ctx, actions, replan, deletes && total.Deleted > 0)
}

// unsettle notes what a run that does not come to its end would leave half done.
func (r *setRun) unsettle(ctx context.Context, a *apply.Applier, w *work) error {
	switch {
	case w.mode == ModeBaseline && (w.prune || r.origin != nil && w.complete):
		return r.restart(ctx, a, w.past)
	case r.set.Complete && r.reselects():
		undone := *r.set
		undone.Complete, undone.Selection = false, ""
		return r.d.journal.Record(ctx, journal.Batch{Save: map[string][]byte{saved.DocSet(r.set.Number): saved.Encode(&undone)}})
	}
	return nil
}

// restart records that the set is being compared as a whole: pending work so
// far is either found again, or no longer needed. If the set is being brought
// to a past state, its contents are afterwards known to be as old as that.
func (r *setRun) restart(ctx context.Context, a *apply.Applier, past *restore.State) error {
	if !a.Recorder.Owing && !r.set.Complete && past == nil {
		return nil
	}
	undone := *r.set
	undone.Complete = false
	undone.Harvest = undone.Harvest.Unfinished()
	b := journal.Batch{Save: map[string][]byte{}}
	if past != nil {
		undone.RestoreTo(past.Watermark, saved.Time(past.At))
		r.set.push.Reset(r.set.Number, b.Save)
	}
	b.Save[saved.DocSet(r.set.Number)] = saved.Encode(&undone)
	now, kept := time.Now(), false
	for o, err := range r.d.journal.Owed(ctx, r.set.Number) {
		if err != nil {
			return err
		}
		w, _, derr := desired.Decode(o.URI, string(o.Entry))
		switch {
		case derr == nil && w.Gone && w.Unconfirmed:
			kept = true // the list may be older than what was notified
			continue
		case derr == nil && w.NotBefore.After(now):
			kept = true // whether it is still wanted turns out
			continue
		}
		b.Settle = append(b.Settle, journal.Owed{Set: o.Set, URI: o.URI})
		if len(b.Settle) == 1000 {
			if err := r.d.journal.Record(ctx, b); err != nil {
				return err
			}
			b.Settle = nil
		}
	}
	a.Recorder.Owing = kept
	return r.d.journal.Record(ctx, b)
}
