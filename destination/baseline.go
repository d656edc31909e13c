package destination

import (
	"context"
	"fmt"
	"time"

	"lockstep/destination/internal/catchup"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/reconcile"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/wording"
	"lockstep/resourcesync"
)

// baseline compares all of the set (RS-DST-02). The Change List is read right
// after the Resource List, so that the plan is what the Source has now. With
// suspect, the history was rewritten: then nothing newer may be lost by it.
func (r *setRun) baseline(ctx context.Context, suspect bool) error {
	st, o := r.set, &r.d.opts
	ahead := entries.WasAhead(&st.Set, time.Now())
	r.compared = true
	if st.Lists == "" {
		r.compared = false
		st.push.RestartCount() // else it is restarted when the comparison succeeds
		st.Watermark, st.SeenTime, st.Seen, st.Cursor = time.Time{}, time.Time{}, nil, saved.Cursor{}
		st.Polled, st.Open, st.Ahead, st.ListAt = nil, nil, false, time.Time{}
		st.Found = &saved.Doubts{}
		return r.incremental(ctx)
	}
	snap, err := r.readSetList(ctx)
	if err != nil {
		return err
	}
	since := snap.At
	if r.reader.Future.Note(st.Lists, snap.At); r.reader.Future.Has(snap.At) {
		since = resourcesync.Datetime{} // changes of a corrected clock come before it
	}
	r.reader.Overtakes = !r.reader.Future.Has(snap.At)
	defer func() { r.reader.Overtakes = false }()
	st.Found = &saved.Doubts{}
	c := entries.Chain{Complete: true}
	fresh := *st
	fresh.Cursor, fresh.Seen, fresh.SeenTime, fresh.History = saved.Cursor{}, nil, time.Time{}, time.Time{}
	if len(r.noChanges) == 0 {
		if c, err = r.readSetChanges(ctx, since, &fresh, false); err != nil {
			return err
		}
	}
	if len(r.noChanges) > 0 {
		c = r.useList(&snap, &c)
	} else if st.Changes != "" {
		past, err := catchup.Extend(ctx, r.reader, &c, since, &fresh.Set, r.report.AddPlan)
		if err != nil {
			return err
		}
		if gap := c.GapAfter(since); gap != "" {
			if past != "" {
				gap += ", and " + past
			}
			if c.Vanished != nil {
				r.reader.Fail(st.Changes, c.Vanished)
			}
			if len(r.listCause) > 0 && !r.isFresh(snap.At) {
				r.failAll(r.listCause)
				r.warn(r.listURI, fmt.Sprintf("set %s: the Resource Dump cannot be used in place of the Resource List: %s", st.Name, gap))
				return nil
			}
			r.warn(st.Changes, fmt.Sprintf("set %s: %s: changes may be missed until its next Resource List", st.Name, gap))
			c.Gap = true
			st.Found.Gap = gap
		}
		st.Found.NoAt = c.Lists > 0 && snap.At.IsZero() && !snap.Sitemap
		c.Doubt(st.Found, false)
	}
	if len(r.listCause) > 0 {
		if (st.Changes == "" || len(r.noChanges) > 0) && !r.isFresh(snap.At) {
			r.failAll(r.listCause)
			r.warn(r.listURI, r.notFresh(snap.At))
			return nil
		}
		r.useDump(snap.At)
	}
	// Changes that were reported since the list, and applied here, are not
	// reported again: the list would undo them.
	if st.Complete && !o.Baseline && !ahead && (st.Changes == "" || c.Gap || !c.Whole()) {
		suspect = suspect || saved.Time(snap.At).Before(st.Watermark) && !snap.At.IsZero()
	}
	if !o.Baseline && !ahead {
		if err := r.wentBack(&snap, &c); err != nil {
			return err
		}
	}
	if r.listAt = snap.At; c.Lists > 0 && c.Whole() && !c.Gap { // together they are as of then
		for _, d := range []resourcesync.Datetime{c.Newest, c.Until} {
			if d.Compare(r.listAt) > 0 {
				r.listAt = d
			}
		}
	}
	complete := snap.Whole() && c.Whole()
	via := ViaList
	if snap.Dump {
		via = ViaDump
	}
	again, err := r.carryOut(ctx, work{
		Mode: ModeBaseline, Via: via, Complete: complete, Explicit: snap.Complete && c.Complete, Partial: !c.Complete, Files: true, Suspect: suspect,
		Prune: complete && (!snap.Sitemap || o.Delete == DeleteApply),
		Done: func() {
			st.Complete, st.Selection = true, r.d.selects.Key
			st.ListKind = snap.Kind()
			st.ListAt, st.ListTag, st.ListParts, st.ListFrom = saved.Time(snap.At), snap.Validators, snap.Parts, ""
			if r.listURI != st.Lists {
				st.ListFrom = r.listURI
			}
			st.Watermark, st.SeenTime, st.Seen, st.Cursor = time.Time{}, time.Time{}, nil, saved.Cursor{}
			st.Polled, st.Open, st.Appends = nil, nil, false
			r.advance(&c, snap.At)
		},
	})
	if err != nil || !again || !complete || o.DryRun {
		return err
	}
	if st.Changes == "" || len(r.noChanges) > 0 {
		return r.relist(ctx, &snap)
	}
	// RS-HASH-08: the description may have changed since it was read.
	return r.incremental(ctx)
}

// wentBack refuses a Source whose documents are older than what we have (a
// list, or a history, that ends before what was applied here).
func (r *setRun) wentBack(s *entries.Snapshot, c *entries.Chain) error {
	st := r.set
	if !s.Whole() || !c.Whole() || s.At.IsZero() {
		return nil
	}
	// A set that is not complete may have been: its last run was broken off.
	at := saved.Time(s.At)
	if c.Lists == 0 {
		if at.Before(st.ListAt) {
			return reconcile.WentBack(st.Name, fmt.Sprintf("its Resource List is as of %s, the one applied here as of %s", wording.Time(at), wording.Time(st.ListAt)))
		}
		return nil
	}
	reached := at
	for _, d := range []resourcesync.Datetime{c.Newest, c.Until, c.From} {
		if t := saved.Time(d); t.After(reached) {
			reached = t
		}
	}
	if reached.Before(st.Watermark) {
		return reconcile.WentBack(st.Name, fmt.Sprintf("the Source's latest change (%s) is older than our last sync (%s)", wording.Time(reached), wording.Time(st.Watermark)))
	}
	return nil
}
