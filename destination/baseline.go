package destination

import (
	"context"
	"fmt"
	"time"

	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/wording"
	"lockstep/resourcesync"
)

// baseline compares all of the set (RS-DST-02). The Change List is read right
// after the Resource List, so that the plan is what the Source has now. With
// suspect, the history was rewritten: then nothing newer may be lost by it.
func (r *setRun) baseline(ctx context.Context, suspect bool) error {
	st, o := r.set, &r.d.opts
	ahead := st.wasAhead(time.Now())
	r.compared = true
	st.push.ForgetBalance() // what is deleted now is counted against what is here now
	if st.Lists == "" {
		r.compared = false
		st.Watermark, st.SeenTime, st.Seen, st.Cursor = time.Time{}, time.Time{}, nil, saved.Cursor{}
		st.Polled, st.Open, st.Ahead, st.ListAt = nil, nil, false, time.Time{}
		st.Found = &saved.Doubts{}
		return r.incremental(ctx)
	}
	snap, err := r.readSetList(ctx)
	if err != nil {
		return err
	}
	since := snap.at
	if r.reader.future.note(st.Lists, snap.at); r.reader.future.has(snap.at) {
		since = resourcesync.Datetime{} // changes of a corrected clock come before it
	}
	r.reader.overtakes = !r.reader.future.has(snap.at)
	defer func() { r.reader.overtakes = false }()
	st.Found = &saved.Doubts{}
	c := chain{complete: true}
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
		past, err := r.catchUp(ctx, &c, since, &fresh)
		if err != nil {
			return err
		}
		if gap := r.gap(&c, since); gap != "" {
			if past != "" {
				gap += ", and " + past
			}
			if c.vanished != nil {
				r.reader.fail(st.Changes, c.vanished)
			}
			if len(r.listCause) > 0 && !r.isFresh(snap.at) {
				r.failAll(r.listCause)
				r.warn(r.listURI, fmt.Sprintf("set %s: the Resource Dump cannot be used in place of the Resource List: %s", st.Name, gap))
				return nil
			}
			r.warn(st.Changes, fmt.Sprintf("set %s: %s: changes may be missed until its next Resource List", st.Name, gap))
			c.gap = true
			st.Found.Gap = gap
		}
		st.Found.NoAt = c.lists > 0 && snap.at.IsZero() && !snap.sitemap
		beginDoubts(st.Found, &c, false)
	}
	if len(r.listCause) > 0 {
		if (st.Changes == "" || len(r.noChanges) > 0) && !r.isFresh(snap.at) {
			r.failAll(r.listCause)
			r.warn(r.listURI, r.notFresh(snap.at))
			return nil
		}
		r.useDump(snap.at)
	}
	// Changes that were reported since the list, and applied here, are not
	// reported again: the list would undo them.
	if st.Complete && !o.Baseline && !ahead && (st.Changes == "" || c.gap || !c.whole()) {
		suspect = suspect || saved.Time(snap.at).Before(st.Watermark) && !snap.at.IsZero()
	}
	if !o.Baseline && !ahead {
		if err := r.wentBack(&snap, &c); err != nil {
			return err
		}
	}
	if r.listAt = snap.at; c.lists > 0 && c.whole() && !c.gap { // together they are as of then
		for _, d := range []resourcesync.Datetime{c.newest, c.until} {
			if d.Compare(r.listAt) > 0 {
				r.listAt = d
			}
		}
	}
	complete := snap.whole() && c.whole()
	via := ViaList
	if snap.dump {
		via = ViaDump
	}
	again, err := r.carryOut(ctx, work{
		mode: ModeBaseline, via: via, complete: complete, explicit: snap.complete && c.complete, partial: !c.complete, files: true, suspect: suspect,
		prune: complete && (!snap.sitemap || o.Delete == DeleteApply),
		done: func() {
			st.Complete, st.Selection = true, r.d.selects.Key
			st.ListKind = snap.kind()
			st.ListAt, st.ListTag, st.ListParts, st.ListFrom = saved.Time(snap.at), snap.validators, snap.parts, ""
			if r.listURI != st.Lists {
				st.ListFrom = r.listURI
			}
			st.Watermark, st.SeenTime, st.Seen, st.Cursor = time.Time{}, time.Time{}, nil, saved.Cursor{}
			st.Polled, st.Open, st.Appends = nil, nil, false
			r.advance(&c, snap.at)
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
func (r *setRun) wentBack(s *snapshot, c *chain) error {
	st := r.set
	if !s.whole() || !c.whole() || s.at.IsZero() {
		return nil
	}
	// A set that is not complete may have been: its last run was broken off.
	at := saved.Time(s.at)
	if c.lists == 0 {
		if at.Before(st.ListAt) {
			return backInTime(st, fmt.Sprintf("its Resource List is as of %s, the one applied here as of %s", wording.Time(at), wording.Time(st.ListAt)))
		}
		return nil
	}
	reached := at
	for _, d := range []resourcesync.Datetime{c.newest, c.until, c.from} {
		if t := saved.Time(d); t.After(reached) {
			reached = t
		}
	}
	if reached.Before(st.Watermark) {
		return backInTime(st, fmt.Sprintf("the Source's latest change (%s) is older than our last sync (%s)", wording.Time(reached), wording.Time(st.Watermark)))
	}
	return nil
}

func backInTime(st *setState, how string) error {
	return &RefusedError{
		Reason: fmt.Sprintf("set %s: the Source went back in time: %s; the newer copies were kept", st.Name, how),
		Hint:   "if the mirror is to go back too, run again with --baseline",
	}
}
