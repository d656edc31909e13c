// Package run brings one set into step with its documents: by its changes, where
// they join what was applied before, and otherwise by comparing all of it.
package run

import (
	"context"
	"fmt"
	"time"

	"lockstep/destination/internal/catchup"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/known"
	"lockstep/destination/internal/pending"
	"lockstep/destination/internal/push"
	"lockstep/destination/internal/reconcile"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/stage"
	"lockstep/destination/internal/substitute"
	"lockstep/destination/internal/wording"
	"lockstep/destination/report"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// maxRounds is how often the changes, or a list, are read in one run.
const maxRounds = 3

// Settings are the operator's choices.
type Settings struct {
	Compare      bool   // compare everything
	AcceptOlder  bool   // also apply documents that are older than what was applied
	DryRun       bool   // change nothing
	DeleteAbsent bool   // delete what a plain Sitemap does not list
	Selection    string // which resources are selected now

	Now func() time.Time
}

// A Run brings one set into step with its documents.
type Run struct {
	Settings
	Set       *saved.Set
	Push      *push.State // what notifications said; nil: unknown
	Documents *substitute.Documents
	Failures  *substitute.Failures // documents that could not be read
	Stage     *stage.Stage
	Pending   *pending.Stager
	Stale     map[string]error // resources that failed, perhaps because their descriptions are outdated
	Outdated  map[string]bool  // those of them that nothing describes any more, and whether a change described them

	Reconcile func(context.Context, reconcile.Work) (again bool, err error) // applies what is staged
	Known     func(context.Context) (*known.Parts, error)                   // what earlier runs recorded of the parts of the list
	Prefetch  func() *reconcile.Prefetch                                    // fetches resources while a list is read; nil if nothing does
	Beside    func() *entries.Beside                                        // reads manifests of packages while a list is read; nil if nothing does
	Versions  func(ctx context.Context, c *entries.Chain, via string) error // applies the versions before the last
	Dissolve  func(context.Context) error                                   // deletes all resources of the set
	RaiseMode func(mode, via string)                                        // reports how the set was brought into step
	AddPlan   func(sentence string)                                         // reports which method was chosen
}

// Bring brings the set into step: by its changes where that is possible, otherwise
// by comparing everything.
func (r *Run) Bring(ctx context.Context) error {
	st := r.Set
	switch {
	case st.Lists == "" && st.Changes == "" && r.AcceptOlder && r.Documents.Held() > 0:
		return r.Dissolve(ctx)
	case failWithout(r.Documents):
		return nil
	case r.Compare, st.Doubted, !st.Complete && st.Lists != "", st.Selection != r.Selection:
		return r.Baseline(ctx, false)
	case st.Changes == "":
		return r.compareOnceChanged(ctx, func() {})
	case st.Unchecked && st.Lists != "" && st.DoubtsRewrite(r.Now()):
		return r.compareRewritten(ctx)
	}
	if err := r.incremental(ctx); err != nil {
		return err
	}
	return r.lookUpOutdated(ctx)
}

// incremental applies what changed since the watermark (RS-DST-20). A gap, or a
// history that was rewritten, leads to a comparison of everything.
func (r *Run) incremental(ctx context.Context) error {
	st, docs := r.Set, r.Documents
	since := resourcesync.NewDatetime(st.Watermark)
	ahead := entries.WasAhead(st, time.Now())
	all := false // read all changes since the list, whatever their times
	for round := 1; ; round++ {
		r.Stage.Reset()
		failed := r.Failures.Count
		begin, state := since, st
		if all {
			begin, state = resourcesync.NewDatetime(st.ListAt), unread(st)
		}
		c, err := docs.ReadChanges(ctx, begin, state, !all)
		switch {
		case err != nil:
			return err
		case round > 1 && docs.ReplacesChanges(): // what was read before is applied
			docs.FailChanges()
			return nil
		case docs.ReplacesChanges():
			if docs.Compared {
				return nil
			}
			return r.compareOnceChanged(ctx, docs.AcceptUnchangedList)
		case round > 1 && (c.Unchanged || r.Failures.Count > failed):
			return nil
		case ahead && !all && !c.Unchanged && !c.Resumed && !docs.Compared && c.Complete && !since.IsZero():
			r.warn(fmt.Sprintf("set %s: it was read up to %s, when that lay in our future: comparing all of it", st.Name, wording.Time(st.Watermark)))
			return r.Baseline(ctx, false)
		}
		if gap := c.GapAfter(since); docs.Compared && (c.Lost || gap != "") {
			if gap != "" {
				st.CurrentDoubts().Gap = gap
			}
			return nil // there is nothing else to compare with
		}
		if !all {
			if compared, err := r.join(ctx, &c, since); compared || err != nil {
				return err
			}
			if all = r.looksAtOlder(&c); all {
				round--
				continue
			}
		}
		again, err := r.applyChanges(ctx, &c, since, round == 1 && !docs.Compared, all)
		if err != nil || !again || round == maxRounds {
			return err
		}
		since, all = resourcesync.NewDatetime(st.Watermark), false
	}
}

// join compares everything if the changes c do not join what was applied, and reports whether
// it did.
func (r *Run) join(ctx context.Context, c *entries.Chain, since resourcesync.Datetime) (compared bool, err error) {
	st := r.Set
	if c.Doubtful && !st.DoubtsRewrite(r.Now()) {
		c.Doubtful, st.Unchecked = false, true
	}
	switch compare, err := r.checkJoin(ctx, c, since); {
	case err != nil || !compare:
		return false, err
	case !c.Lost && c.Doubtful:
		st.Rewrites++
		return true, r.compareRewritten(ctx)
	}
	return true, r.Baseline(ctx, c.Lost)
}

// looksAtOlder reports whether all changes since the list are to be read again, whatever their
// times, as the Source may have added some before those that were read. Those from before the
// list could undo what it states.
func (r *Run) looksAtOlder(c *entries.Chain) bool {
	st := r.Set
	st.Older = st.Older || c.Older
	return st.Older && c.Whole() && !r.Documents.Compared && st.DoubtsOlder(saved.Time(c.History), r.Now())
}

// unread returns the state of a set of whose changes nothing was read.
func unread(st *saved.Set) *saved.Set {
	fresh := *st
	forgetChanges(&fresh)
	fresh.History = time.Time{}
	return &fresh
}

// compareRewritten compares everything because the changes no longer began as they did when
// they were last read.
func (r *Run) compareRewritten(ctx context.Context) error {
	st := r.Set
	st.Doubted, st.Rewritten = true, r.Now()
	defer func() { st.Doubted = false }()
	return r.Baseline(ctx, false)
}

// checkJoin checks whether the changes join the watermark, and extends them with
// archived changes if they do not. It reports whether to compare everything; a gap
// that cannot be closed is reported and recorded.
func (r *Run) checkJoin(ctx context.Context, c *entries.Chain, since resourcesync.Datetime) (compare bool, err error) {
	st := r.Set
	why, err := catchup.Extend(ctx, r.Documents.Reader, c, since, st, r.AddPlan)
	if err != nil {
		return false, err
	}
	if since.IsZero() && !c.Unchanged {
		c.Doubt(st.CurrentDoubts(), st.Lists == "")
	}
	gap := c.GapAfter(since)
	switch {
	case c.Lost && c.Newest.Time().Before(st.SeenTime):
		ends := "it has no changes"
		if !c.Newest.IsZero() {
			ends = "its changes end at " + wording.Time(c.Newest.Time())
		}
		return false, reconcile.WentBack(st.Name, fmt.Sprintf("%s, those applied here end at %s", ends, wording.Time(st.SeenTime)))
	case (c.Lost || gap != "") && st.Lists != "":
		if why != "" {
			gap += ", and " + why
		}
		if c.Lost {
			gap = "changes that were applied here are gone from its history"
		}
		r.warn(fmt.Sprintf("set %s: %s: comparing all of it", st.Name, gap))
		return true, nil
	case c.Doubtful && st.Lists != "" && !r.Documents.Compared:
		r.warn(fmt.Sprintf("set %s: its changes no longer begin as they did when they were last read: comparing all of it", st.Name))
		return true, nil
	case gap != "":
		r.Documents.Reader.Fail(st.Changes, fmt.Errorf("read %s: %s, and there is no Resource List or Resource Dump to compare with", fetch.Printable(st.Changes), gap))
		st.CurrentDoubts().Gap = gap
	case c.Lists > 0 && !c.Unchanged && !c.Resumed && !c.Proven && !r.Documents.Compared: // RS-MD-14
		st.CurrentDoubts().NoFrom = true
	}
	return false, nil
}

// applyChanges applies the changes c, which are all since the list if all is set, and pending
// work, too, if retry is set. It reports whether failures may succeed once the changes are
// read again.
func (r *Run) applyChanges(ctx context.Context, c *entries.Chain, since resourcesync.Datetime, retry, all bool) (again bool, err error) {
	via := r.Set.ViaChanges()
	if c.Dump {
		via = report.ViaChangeDump
	}
	pending := 0
	if retry {
		if pending, err = r.Pending.Stage(ctx, r.Stage); err != nil {
			return false, err
		}
	}
	if c.Unchanged && pending == 0 {
		r.RaiseMode(report.ModeNone, via)
		return false, nil
	}
	mode := report.ModeIncremental
	if c.Unchanged || r.Stage.Empty() {
		mode = report.ModeNone
	}
	if !all { // else it would apply the earlier versions again
		if err := r.Versions(ctx, c, via); err != nil {
			return false, err
		}
	}
	return r.Reconcile(ctx, reconcile.Work{Mode: mode, Via: via, Complete: c.Whole(), Explicit: c.Complete, Partial: !c.Complete, Done: func() {
		if r.advance(c, since); all || since.IsZero() {
			r.Set.Older, r.Set.Looked = false, r.Now()
		}
	}})
}

// warn warns of something about the changes of the set.
func (r *Run) warn(text string) { r.Documents.Warn(r.Set.Changes, text) }

// compareOnceChanged compares everything if the list has changed since it was last
// applied, because there are no changes or they cannot be read. Otherwise it calls
// unchanged and retries pending work.
func (r *Run) compareOnceChanged(ctx context.Context, unchanged func()) error {
	same, err := r.Documents.ListUnchanged(ctx)
	switch {
	case err != nil:
		return err
	case !same:
		return r.Baseline(ctx, false)
	}
	unchanged()
	r.RaiseMode(report.ModeNone, r.Set.ViaList())
	r.Stage.Reset()
	pending, err := r.Pending.Stage(ctx, r.Stage)
	if err != nil || pending == 0 {
		return err
	}
	_, err = r.Reconcile(ctx, reconcile.Work{Mode: report.ModeNone, Via: r.Set.ViaList(), Complete: true})
	return err
}

// Search looks in the packages of dumps for the resources that could not be fetched
// from their addresses, because a list or a change describes content that may be
// there: in packages that may have changed since the watermark before this run.
func (r *Run) Search(ctx context.Context, watermark time.Time) error {
	if len(r.Stale) == 0 {
		return nil
	}
	r.Stage.Reset()
	if n, err := r.Pending.StageDescribed(ctx, r.Stage, r.Stale); err != nil || n == 0 {
		return err
	}
	searched, err := r.Documents.SearchDumps(ctx, watermark)
	if err == nil && searched {
		_, err = r.Reconcile(ctx, reconcile.Work{Mode: report.ModeNone, Via: r.Set.ViaList(), Searched: true, Final: true})
	}
	if err == nil {
		r.Documents.RecordSearches()
	}
	return err
}
