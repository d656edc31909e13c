package harvest

import (
	"context"
	"errors"
	"fmt"

	"lockstep/destination/internal/counting"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/pending"
	"lockstep/destination/internal/reconcile"
	"lockstep/destination/internal/representation"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/stage"
	"lockstep/destination/journal"
	"lockstep/destination/report"
	"lockstep/internal/fetch"
)

// maxRounds limits how often the changes are taken over in one run.
const maxRounds = 3

// A Run brings one set into step with its Origin. It is used once.
type Run struct {
	Set     *saved.Set
	Origin  Origin
	Chooser *representation.Chooser
	Reader  *entries.Reader
	Stage   *stage.Stage
	Journal journal.Journal
	Report  *counting.Report

	Baseline     bool   // a complete comparison was requested
	Compare      bool   // compare everything in any case
	DryRun       bool   // nothing is applied
	AbsentIsGone bool   // the user wishes that what is not listed is deleted
	Selection    string // the rules that select resources

	Stops     func(error) bool                    // whether an error of Update ends the run
	Causes    func(error) []error                 // the single causes of an error of Update
	Undecided func(context.Context) (bool, error) // whether it is not yet known if the files in the mirror belong to it
	Decide    func(context.Context) error         // decides that when all resources are staged

	Pending *pending.Stager // pending work of the set

	// Apply applies what is staged. It reports whether failures may succeed if the
	// Origin is asked again.
	Apply func(context.Context, reconcile.Work) (again bool, err error)

	Compared bool // result: everything was compared, and pending work was tried

	portions int64 // resources that were applied before the end of the harvest
}

// Run updates the memory of the Origin and applies what is new in it.
func (r *Run) Run(ctx context.Context) error {
	if err := r.checkPosition(ctx); err != nil {
		return err
	}
	full := r.Baseline
	for round := 1; ; {
		more, broken, err := r.update(ctx, full)
		if err != nil {
			return err
		}
		wait := r.DryRun // the total is reported at the end
		if more && !wait {
			if wait, err = r.Undecided(ctx); err != nil {
				return err
			}
		}
		if more && wait {
			continue
		}
		again, err := r.takeIn(ctx, more, broken)
		switch {
		case err != nil:
			return err
		case more:
		case !again || broken || round == maxRounds:
			return nil
		default: // AP-CDL-05: a resource that has disappeared may have been listed since
			full, round = false, round+1
		}
	}
}

// checkPosition makes the position of the set one in another memory if the memory of the Origin is of before it, as
// after a restore: Update will give the numbers up to the position to other changes. That is recorded first.
func (r *Run) checkPosition(ctx context.Context) error {
	if r.Set.Harvest == nil {
		return nil
	}
	s, err := r.Origin.Status(ctx)
	h := *r.Set.Harvest
	if err != nil || h.ID != s.ID || max(h.Seq, h.Fresh) <= s.Seq {
		return err
	}
	h.ID = ""
	if r.Set.Harvest = &h; r.DryRun {
		return nil
	}
	return saved.UpdateSet(ctx, r.Journal, r.Set.Number, func(st *saved.Set) { st.Harvest = &h })
}

// Expect updates the memory of the Origin and stages all of its resources. The
// snapshot says whether it may lack some. hasFailed reports whether documents could
// not be read.
func (r *Run) Expect(ctx context.Context, hasFailed func() bool) (snap entries.Snapshot, err error) {
	for more := true; more; {
		if more, _, err = r.update(ctx, false); err != nil {
			return snap, err
		}
	}
	s, err := r.status(ctx)
	if err != nil {
		return snap, err
	}
	if r.Set.Partial = !s.Whole; !s.Whole && !hasFailed() {
		r.Reader.Fail(r.Set.URI, fmt.Errorf("read %s: not all of it is known", fetch.Printable(r.Set.URI)))
	}
	snap.Sitemap = !s.Complete // like a Sitemap it does not say what no longer exists
	return snap, r.StageAll(ctx, r.Stage)
}

// StageAll stages all resources that the Origin knows.
func (r *Run) StageAll(ctx context.Context, to *stage.Stage) error {
	return stageAll(ctx, to, r.Chooser, r.Origin.Entries(ctx), desired.Listed, 0)
}

// update has the Origin bring its memory into step. It is broken if that failed, or
// ended early.
func (r *Run) update(ctx context.Context, full bool) (more, broken bool, err error) {
	uri := r.Set.URI
	r.Reader.OnOpen(uri)
	more, err = r.Origin.Update(ctx, full)
	switch {
	case ctx.Err() != nil:
		return false, true, context.Cause(ctx)
	case r.Stops(err):
		return false, true, err
	case errors.Is(err, report.ErrEnded) && r.Set.Harvest != nil: // AP-HV-15: existing resources stay
		r.Set.Ended = true
		r.Reader.Warn(uri, fmt.Sprintf("%v; what is here was kept", err))
		return false, false, nil
	case err != nil:
		for _, cause := range r.Causes(err) {
			r.Reader.Fail(uri, cause)
		}
	}
	return more && err == nil, err != nil, nil
}

// status returns the status of the Origin and reports its warnings.
func (r *Run) status(ctx context.Context) (Status, error) {
	s, err := r.Origin.Status(ctx)
	if err != nil {
		return s, err
	}
	for _, text := range s.Warnings {
		r.Reader.Warn(r.Set.URI, text)
	}
	return s, nil
}

// takeIn applies what the Origin knows now. If more is to come, deletions wait for the
// end: only then is it known whether they are too many. takeIn reports whether
// failures may succeed if the Origin is asked again.
func (r *Run) takeIn(ctx context.Context, more, broken bool) (again bool, err error) {
	s, err := r.status(ctx)
	if err != nil {
		return false, err
	}
	was := r.Set.Watermark
	defer func() {
		if err != nil {
			r.Set.Watermark = was
		}
	}()
	r.Set.Watermark, r.Set.Partial = s.Until, !s.Whole
	h := next(r.Set.Harvest, &s)
	switch {
	case more:
		return false, r.takePortion(ctx, h, &s)
	case !r.Compared && (!h.Known || r.Compare || r.reselects()):
		r.Compared = true
		return r.takeAll(ctx, h, &s, broken)
	}
	return r.takeChanges(ctx, h, &s)
}

// reselects reports whether the resources of the set may have been selected by other
// rules.
func (r *Run) reselects() bool { return r.Set.Selection != r.Selection }

// next returns the position in a memory that has the status s: at its beginning if h
// is a position in another memory.
func next(h *saved.Harvest, s *Status) *saved.Harvest {
	if h != nil && h.ID == s.ID && h.Seq <= s.Seq && h.Seq >= s.Kept {
		next := *h
		next.Source = s.Source
		next.Other = h.Other || isOtherSource(h, s)
		return &next
	}
	return &saved.Harvest{ID: s.ID, Source: s.Source, Seq: s.Kept, Other: isOtherSource(h, s)}
}

// isOtherSource reports whether the memory is that of another Source than before.
func isOtherSource(h *saved.Harvest, s *Status) bool {
	return h != nil && h.Source != "" && s.Source != "" && h.Source != s.Source
}

// takePortion applies what is new and changed in a harvest that is not complete yet.
func (r *Run) takePortion(ctx context.Context, h *saved.Harvest, s *Status) error {
	r.Stage.Reset()
	if err := stageAll(ctx, r.Stage, r.Chooser, r.Origin.Changes(ctx, max(h.Seq, h.Fresh)), desired.Changed, 0); err != nil {
		return err
	}
	if r.Stage.Empty() {
		return nil
	}
	mode := report.ModeIncremental
	if !h.Known {
		mode = report.ModeBaseline
	}
	before := r.Report.Created + r.Report.Updated
	if _, err := r.Apply(ctx, r.work(mode)); err != nil {
		return err
	}
	r.portions += r.Report.Created + r.Report.Updated - before
	h.Fresh = s.Seq
	r.Set.Harvest = h
	if r.reselects() { // until everything is compared, part of the set is selected by the rules of an earlier run
		r.Set.Complete, r.Set.Selection = false, ""
	}
	if err := r.Journal.Record(ctx, journal.Batch{Save: map[string][]byte{saved.DocSet(r.Set.Number): saved.Encode(r.Set)}}); err != nil {
		return fmt.Errorf("record progress: %w", err)
	}
	return r.Origin.Applied(ctx, h.Seq, h.Fresh)
}

// takeChanges applies what changed since the last run.
func (r *Run) takeChanges(ctx context.Context, h *saved.Harvest, s *Status) (again bool, err error) {
	changed := s.Seq > h.Seq
	if r.Stage.Reset(); changed {
		if err := stageAll(ctx, r.Stage, r.Chooser, r.Origin.Changes(ctx, h.Seq), desired.Changed, h.Fresh-h.Seq); err != nil {
			return false, err
		}
	}
	waiting := 0
	if !r.Compared {
		if waiting, err = r.Pending.Stage(ctx, r.Stage); err != nil {
			return false, err
		}
		r.Compared = true
	}
	if !changed && waiting == 0 {
		r.Report.RaiseMode(report.ModeNone, r.Set.Foreign.Kind)
		return false, nil
	}
	mode := report.ModeIncremental
	if !changed {
		mode = report.ModeNone
	}
	w := r.work(mode)
	w.Complete, w.Done = true, func() { r.reached(h, s) }
	again, err = r.Apply(ctx, w)
	return again, r.applied(ctx, s, err)
}

// takeAll compares all resources. A resource that is not listed no longer exists if
// its deletion was reported, or if everything was read and absence means deletion
// (AP-CDL-01, AP-CDL-02, AP-CDL-03).
func (r *Run) takeAll(ctx context.Context, h *saved.Harvest, s *Status, broken bool) (again bool, err error) {
	r.Stage.Reset()
	if err := stageAll(ctx, r.Stage, r.Chooser, deletions(r.Origin.Changes(ctx, h.Seq)), desired.Listed, 0); err != nil {
		return false, err
	}
	if err := stageAll(ctx, r.Stage, r.Chooser, r.Origin.Entries(ctx), desired.Listed, 0); err != nil {
		return false, err
	}
	if err := r.Chooser.StageReported(ctx, r.Stage, r.Journal.Owed(ctx, r.Set.Number)); err != nil {
		return false, err
	}
	if err := r.Decide(ctx); err != nil {
		return false, err
	}
	whole, unchanged := s.Whole && !broken, r.Report.Unchanged
	w := r.work(report.ModeBaseline)
	w.Complete, w.Files = true, true
	w.Prune = whole && (s.Complete || h.Other || r.AbsentIsGone)
	w.Done = func() {
		if h.Known = whole; whole {
			r.Set.Complete, r.Set.Selection, r.Set.Restored, h.Other = true, r.Selection, false, false
		}
		r.reached(h, s)
	}
	again, err = r.Apply(ctx, w)
	// Resources that were counted when they were applied are not counted again.
	r.Report.Unchanged -= min(r.portions, r.Report.Unchanged-unchanged)
	return again, r.applied(ctx, s, err)
}

// work returns how what is staged is applied.
func (r *Run) work(mode string) reconcile.Work {
	return reconcile.Work{Mode: mode, Via: r.Set.Foreign.Kind}
}

// reached records that everything the Origin knows is applied.
func (r *Run) reached(h *saved.Harvest, s *Status) {
	h.Seq, h.Fresh = s.Seq, 0
	r.Set.Harvest = h
}

// applied reports to the Origin that its changes were applied, unless err is not nil.
func (r *Run) applied(ctx context.Context, s *Status, err error) error {
	if err != nil || r.DryRun {
		return err
	}
	return r.Origin.Applied(ctx, s.Seq, s.Seq)
}
