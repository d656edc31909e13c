package run

import (
	"context"
	"time"

	"lockstep/destination/internal/reconcile"
	"lockstep/destination/internal/saved"
	"lockstep/destination/report"
	"lockstep/resourcesync"
)

// maxOutdatedWait is the longest time between two readings of a list for resources whose
// descriptions are outdated.
const maxOutdatedWait = 24 * time.Hour

// lookUpOutdated reads the list of the set for the resources that have been pending since
// an earlier run, are not at their addresses, or not as described, and of which no change
// says that they are gone or different. That is so where a Source's state was restored
// from a copy that is older than the description, and where a Source does not report
// deletions. Nothing else of the set is compared.
//
// A Source may list resources that it does not have: the list is not read again before as
// much time has passed as it took, then twice as much, up to a day.
func (r *Run) lookUpOutdated(ctx context.Context) error {
	st, now := r.Set, r.Now()
	if len(r.Outdated) == 0 {
		return r.saveBackoff(ctx, saved.Backoff{})
	}
	if r.Documents.Compared || r.DryRun || st.Lists == "" || now.Before(saved.Until(st.Outdated.Next, now, maxOutdatedWait)) {
		return nil
	}
	if r.allListed() { // by the list that was applied
		if same, err := r.Documents.ListUnchanged(ctx); err != nil || same {
			return err
		}
	}
	begun := time.Now()
	whole, err := r.stageOutdated(ctx)
	if err != nil {
		return err
	}
	if whole {
		if _, err := r.Reconcile(ctx, reconcile.Work{Mode: report.ModeIncremental, Via: st.ViaList(), Complete: true}); err != nil {
			return err
		}
	}
	wait := min(max(2*st.Outdated.Wait, time.Since(begun)), maxOutdatedWait)
	return r.saveBackoff(ctx, saved.Backoff{Next: now.Add(wait), Wait: wait})
}

// allListed reports whether no outdated description is that of a change.
func (r *Run) allListed() bool {
	for _, changed := range r.Outdated {
		if changed {
			return false
		}
	}
	return true
}

// stageOutdated stages what the list of the set, and the changes since then, say of the
// outdated resources: those that they do not name are gone. It reports whether all of that
// could be read.
func (r *Run) stageOutdated(ctx context.Context) (whole bool, err error) {
	st, reader := r.Set, r.Documents.Reader
	named := make(map[string]bool, len(r.Outdated))
	for uri := range r.Outdated {
		named[uri] = false
	}
	reader.Only = named
	defer func() { reader.Only = nil }()
	snap, err := reader.ReadList(ctx, st.Lists)
	if err != nil || !snap.Whole() {
		return false, err
	}
	since := snap.At
	if reader.Future.Note(st.Lists, since); reader.Future.Has(since) {
		since = resourcesync.Datetime{} // changes of a corrected clock come before it
	}
	begin := since
	if !since.IsZero() {
		begin = snap.Since()
	}
	c, err := reader.ReadChanges(ctx, begin, unread(st), false)
	if err != nil || !c.Whole() || c.GapAfter(since) != "" {
		return false, err
	}
	if snap.Sitemap && !r.DeleteAbsent { // it does not say what is gone (RS-RL-12)
		return true, nil
	}
	return true, r.stageGone(ctx, named)
}

// saveBackoff saves when the list may be read again, and nothing else of the set.
func (r *Run) saveBackoff(ctx context.Context, b saved.Backoff) error {
	if r.DryRun || r.Set.Outdated == b {
		return nil
	}
	r.Set.Outdated = b
	return saved.UpdateSet(ctx, r.Pending.Journal, r.Set.Number, func(st *saved.Set) { st.Outdated = b })
}
