package run

import (
	"context"
	"fmt"
	"time"

	"lockstep/destination/internal/catchup"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/reconcile"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/wording"
	"lockstep/destination/report"
	"lockstep/resourcesync"
)

// Baseline compares all of the set (RS-DST-02). The Change List is read right
// after the Resource List, so that the plan is what the Source has now. With
// suspect, the history was rewritten: then nothing newer may be lost by it.
func (r *Run) Baseline(ctx context.Context, suspect bool) error {
	st, docs := r.Set, r.Documents
	ahead := entries.WasAhead(st, time.Now())
	docs.Compared = true
	if st.Lists == "" {
		docs.Compared = false
		r.Push.RestartCount() // else it is restarted when the comparison succeeds
		forgetChanges(st)
		st.Open, st.Ahead, st.ListAt = nil, false, time.Time{}
		st.Found = &saved.Doubts{}
		return r.incremental(ctx)
	}
	defer func() { docs.Reader.Overtakes = false }()
	first := r.Prefetch()
	beside := r.Beside()
	snap, c, usable, err := r.read(ctx, first, beside)
	if err != nil || !usable {
		return err
	}
	if docs.ReplacesList() && !docs.AcceptDump(snap.At) {
		docs.WarnNotFresh(snap.At)
		return nil
	}
	// Changes that were reported since the list, and applied here, are not
	// reported again: the list would undo them.
	if st.Complete && !r.AcceptOlder && !ahead && (st.Changes == "" || c.Gap || !c.Whole()) {
		suspect = suspect || saved.Time(snap.At).Before(st.Watermark) && !snap.At.IsZero()
	}
	if !r.AcceptOlder && !ahead {
		if err := wentBack(st, &snap, &c); err != nil {
			return err
		}
	}
	if docs.ListAt = snap.At; c.Lists > 0 && c.Whole() && !c.Gap { // together they are as of then
		docs.ListAt = later(later(docs.ListAt, c.Newest), c.Until)
	}
	complete := snap.Whole() && c.Whole()
	via := report.ViaList
	if snap.Dump {
		via = report.ViaDump
	}
	again, err := r.Reconcile(ctx, reconcile.Work{
		Mode: report.ModeBaseline, Via: via, Complete: complete, Explicit: snap.Complete && c.Complete, Partial: !c.Complete, Files: true, Suspect: suspect,
		Hinted: beside != nil && beside.Used, Prune: complete && (!snap.Sitemap || r.DeleteAbsent), Prefetched: first != nil,
		Done: func() { r.compared(&snap, &c) },
	})
	if err != nil || !again || !complete || r.DryRun {
		return err
	}
	if st.Changes == "" || docs.ReplacesChanges() {
		return r.relist(ctx, &snap)
	}
	// RS-HASH-08: the description may have changed since it was read.
	return r.incremental(ctx)
}

// read stages the resources of the set, and the changes since its list. Unless first is
// nil, it fetches resources meanwhile, and the Report has them already; unless beside is
// nil, manifests are read meanwhile. usable is that of changesSinceList.
func (r *Run) read(ctx context.Context, first *reconcile.Prefetch, beside *entries.Beside) (snap entries.Snapshot, c entries.Chain, usable bool, err error) {
	st, docs := r.Set, r.Documents
	if first != nil {
		docs.Reader.Prefetch = first.Start(ctx)
		defer func() {
			if perr := first.End(); err == nil {
				err = perr
			}
		}()
	}
	docs.Reader.Beside = beside
	snap, err = r.readList(ctx)
	docs.Reader.Prefetch, docs.Reader.Beside = nil, nil
	if err != nil {
		return snap, c, false, err
	}
	future := &docs.Reader.Future
	since := snap.At
	if future.Note(st.Lists, snap.At); future.Has(snap.At) {
		since = resourcesync.Datetime{} // changes of a corrected clock come before it
	}
	docs.Reader.Overtakes = !future.Has(snap.At)
	st.Found = &saved.Doubts{}
	c, usable, err = r.changesSinceList(ctx, &snap, since)
	return snap, c, usable, err
}

// readList reads the list. Parts of a list without changes beside it, which is read each
// time it changes, are not read again where rows of the Journal state the same. With changes
// beside it, a list is read only if something was missed, and its parts are new.
func (r *Run) readList(ctx context.Context) (snap entries.Snapshot, err error) {
	reader := r.Documents.Reader
	if r.Set.Changes != "" || r.Compare {
		return r.Documents.ReadList(ctx)
	}
	parts, err := r.Known(ctx)
	if err != nil {
		return snap, err
	}
	reader.Known = parts
	snap, err = r.Documents.ReadList(ctx)
	reader.Known = nil
	if err != nil || r.DryRun {
		return snap, err
	}
	return snap, parts.Save(ctx, snap.Complete)
}

// changesSinceList reads the changes since the list snap, which is as of the instant since,
// or zero if that is of no use. It reports that the list is not usable if it is a Resource
// Dump that replaces the Resource List, and neither it nor the changes show what is gone; or
// if it is to replace the changes, and is older than what was applied: it would bring back
// what was deleted since, and seem to have everything that is pending.
func (r *Run) changesSinceList(ctx context.Context, snap *entries.Snapshot, since resourcesync.Datetime) (c entries.Chain, usable bool, err error) {
	st, docs := r.Set, r.Documents
	c = entries.Chain{Complete: true}
	fresh := *st
	fresh.Cursor, fresh.Seen, fresh.SeenTime, fresh.History = saved.Cursor{}, nil, time.Time{}, time.Time{}
	if !docs.ReplacesChanges() {
		begin := since
		if !since.IsZero() {
			begin = snap.Since()
		}
		if c, err = docs.ReadChanges(ctx, begin, &fresh, false); err != nil {
			return c, false, err
		}
	}
	switch {
	case docs.ReplacesChanges():
		return docs.AcceptList(snap, &c), r.AcceptOlder || !docs.IsOlder(snap.At), nil
	case st.Changes == "":
		return c, true, nil
	}
	why, err := catchup.Extend(ctx, docs.Reader, &c, since, &fresh, r.AddPlan)
	if err != nil {
		return c, false, err
	}
	if gap := c.GapAfter(since); gap != "" {
		if why != "" {
			gap += ", and " + why
		}
		if c.Vanished != nil {
			docs.Reader.Fail(st.Changes, c.Vanished)
		}
		if docs.ReplacesList() && !docs.IsFresh(snap.At) {
			docs.FailList()
			docs.WarnDump(docs.ListURI, gap)
			return c, false, nil
		}
		r.warn(fmt.Sprintf("set %s: %s: changes may be missed until its next Resource List", st.Name, gap))
		c.Gap = true
		st.Found.Gap = gap
	}
	st.Found.NoAt = snap.Doubtful(&c)
	c.Doubt(st.Found, false)
	return c, true, nil
}

// compared records that all of the set was applied: the list snap, and the changes c
// since then.
func (r *Run) compared(snap *entries.Snapshot, c *entries.Chain) {
	st := r.Set
	st.Complete, st.Selection, st.Described, st.Restored = true, r.Selection, true, false
	st.ListKind = snap.Kind()
	st.ListAt, st.ListTag, st.ListParts, st.ListFrom = saved.Time(snap.At), snap.Validators, snap.Parts, ""
	if r.Documents.ListURI != st.Lists {
		st.ListFrom = r.Documents.ListURI
	}
	forgetChanges(st)
	st.Open, st.Appends, st.Unchecked, st.Older, st.Looked = nil, false, false, false, r.Now()
	since := snap.At
	if c.Lists > 0 {
		since = snap.Since()
	}
	r.advance(c, since)
}

// forgetChanges removes from the state what was read of the changes.
func forgetChanges(st *saved.Set) {
	st.Watermark, st.SeenTime, st.Seen, st.Cursor, st.Polled = time.Time{}, time.Time{}, nil, saved.Cursor{}, nil
}

// wentBack returns an error for a Source whose documents are older than what was
// applied here: a list, or a history, that ends before it.
func wentBack(st *saved.Set, s *entries.Snapshot, c *entries.Chain) error {
	if !s.Whole() || !c.Whole() || s.At.IsZero() {
		return nil
	}
	// A set that is not complete may have been: its last run was broken off.
	if c.Lists == 0 {
		if at := saved.Time(s.At); at.Before(st.ListAt) {
			return reconcile.WentBack(st.Name, fmt.Sprintf("its Resource List is as of %s, the one applied here as of %s", wording.Time(at), wording.Time(st.ListAt)))
		}
		return nil
	}
	end := saved.Time(s.At)
	for _, d := range []resourcesync.Datetime{c.Newest, c.Until, c.From} {
		end = saved.Latest(end, saved.Time(d))
	}
	if end.Before(st.Watermark) {
		return reconcile.WentBack(st.Name, fmt.Sprintf("the Source's latest change (%s) is older than our last sync (%s)", wording.Time(end), wording.Time(st.Watermark)))
	}
	return nil
}
