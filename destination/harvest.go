package destination

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/representation"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/transfer"
	"lockstep/destination/journal"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// foreignSet makes a set of what has to be harvested, so that it has a number
// and a state like any other.
func foreignSet(found *discover.Found) {
	if f := found.Foreign; f != nil {
		found.Sets = []discover.Set{{Name: f.URI}}
	}
}

// harvest brings a set without documents into step with the memory of its
// Origin, while the Origin brings that memory into step with the outside.
func (r *setRun) harvest(ctx context.Context) (err error) {
	if err := r.openOrigin(ctx); err != nil {
		return err
	}
	defer func() {
		if cerr := r.origin.Close(); err == nil {
			err = cerr
		}
	}()
	full := r.d.opts.Baseline
	for round := 1; ; {
		more, broken, err := r.update(ctx, full)
		if err != nil {
			return err
		}
		wait := r.d.opts.DryRun // what all of it comes to is reported at the end
		if more && !wait {
			if wait, err = isUndecided(ctx, r.session); err != nil {
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
		default: // AP-CDL-05: what has disappeared may have been listed since
			full, round = false, round+1
		}
	}
}

// openOrigin opens the Origin of the set.
func (r *setRun) openOrigin(ctx context.Context) error {
	f, o := r.set.Foreign, &r.d.opts
	if o.Bridge == nil {
		return fmt.Errorf("read %s: %s, and harvesting is not configured", fetch.Printable(f.URI), f.What())
	}
	var err error
	if r.origin, err = o.Bridge(ctx, *f, BridgeOptions{ReadOnly: o.DryRun, Accept: o.Baseline}); err != nil {
		return err
	}
	r.mirror.Maps = nil
	if m, ok := r.origin.(PathMapper); ok {
		r.mirror.Maps = m.Maps()
	}
	return nil
}

// update has the Origin bring its memory in step. It is broken if that could
// not be done, or not to the end.
func (r *setRun) update(ctx context.Context, full bool) (more, broken bool, err error) {
	uri := r.set.URI
	r.d.emit(Event{Kind: EventDocument, Set: r.set.Name, URI: uri})
	more, err = r.origin.Update(ctx, full)
	switch {
	case ctx.Err() != nil:
		return false, true, context.Cause(ctx)
	case errors.Is(err, ErrRefused), errors.Is(err, ErrScratch), isFull(err):
		return false, true, err
	case errors.Is(err, ErrEnded) && r.set.Harvest != nil: // AP-HV-15: what there is stays
		r.set.Ended = true
		r.warn(uri, fmt.Sprintf("%v; what is here was kept", err))
		return false, false, nil
	case err != nil:
		many, ok := errors.AsType[Problems](err)
		if !ok {
			many = Problems{err}
		}
		for _, cause := range many {
			r.reader.Fail(uri, cause)
		}
	}
	return more && err == nil, err != nil, nil
}

// takeIn applies what the Origin knows now. If there is more to come, deletions
// wait for the end: only then is it known whether they are too many. takeIn
// reports whether failures may succeed if the Origin is asked again.
func (r *setRun) takeIn(ctx context.Context, more, broken bool) (again bool, err error) {
	s, err := r.origin.Status(ctx)
	if err != nil {
		return false, err
	}
	for _, text := range s.Warnings {
		r.warn(r.set.URI, text)
	}
	st, o := r.set, &r.d.opts
	st.Watermark, st.Partial = s.Until, !s.Whole
	h := nextHarvest(st.Harvest, &s)
	switch {
	case more:
		err = r.takePortion(ctx, h, &s)
		return false, err
	case !r.compared && (!h.Known || o.Baseline || r.d.compare || r.damaged[r.set.Number] || r.reselects()):
		r.compared = true
		return r.takeAll(ctx, h, &s, broken)
	}
	return r.takeChanges(ctx, h, &s)
}

// nextHarvest returns the position in a memory that has the status s: at its
// beginning if h is of another memory.
func nextHarvest(h *saved.Harvest, s *OriginStatus) *saved.Harvest {
	if h != nil && h.ID == s.ID && h.Seq <= s.Seq && h.Seq >= s.Kept {
		next := *h
		next.Source = s.Source
		next.Other = h.Other || isOtherSource(h, s)
		return &next
	}
	return &saved.Harvest{ID: s.ID, Source: s.Source, Seq: s.Kept, Other: isOtherSource(h, s)}
}

// isOtherSource reports whether the memory is of another Source than before.
func isOtherSource(h *saved.Harvest, s *OriginStatus) bool {
	return h != nil && h.Source != "" && s.Source != "" && h.Source != s.Source
}

// takePortion applies what is new and changed of a harvest that is not complete
// yet.
func (r *setRun) takePortion(ctx context.Context, h *saved.Harvest, s *OriginStatus) error {
	r.stage.Reset()
	if err := r.stageOrigin(ctx, r.origin.Changes(ctx, max(h.Seq, h.Fresh)), desired.Changed, 0); err != nil {
		return err
	}
	if r.stage.Empty() {
		return nil
	}
	mode := ModeIncremental
	if !h.Known {
		mode = ModeBaseline
	}
	before := r.report.Created + r.report.Updated
	if _, err := r.carryOut(ctx, work{Mode: mode, Via: r.set.viaList()}); err != nil {
		return err
	}
	r.portions += r.report.Created + r.report.Updated - before
	h.Fresh = s.Seq
	r.set.Harvest = h
	if r.reselects() { // until all is compared, some of the set is selected by the rules of an earlier run
		r.set.Complete, r.set.Selection = false, ""
	}
	if err := r.d.journal.Record(ctx, journal.Batch{Save: map[string][]byte{saved.DocSet(r.set.Number): saved.Encode(r.set)}}); err != nil {
		return fmt.Errorf("record progress: %w", err)
	}
	return r.origin.Applied(ctx, h.Seq, h.Fresh)
}

// takeChanges applies what changed since the last run.
func (r *setRun) takeChanges(ctx context.Context, h *saved.Harvest, s *OriginStatus) (again bool, err error) {
	changed := s.Seq > h.Seq
	if r.stage.Reset(); changed {
		if err := r.stageOrigin(ctx, r.origin.Changes(ctx, h.Seq), desired.Changed, h.Fresh-h.Seq); err != nil {
			return false, err
		}
	}
	owed := 0
	if !r.compared {
		if owed, err = r.stageOwed(ctx); err != nil {
			return false, err
		}
		r.compared = true // and all that failed was tried
	}
	via := r.set.viaList()
	if !changed && owed == 0 {
		r.report.RaiseMode(ModeNone, via)
		return false, nil
	}
	mode := ModeIncremental
	if !changed {
		mode = ModeNone
	}
	again, err = r.carryOut(ctx, work{Mode: mode, Via: via, Complete: true, Done: func() { r.reached(h, s) }})
	return again, r.applied(ctx, s, err)
}

// takeAll compares all resources. A resource that is not listed is gone if its
// deletion was reported, or if everything was read and absence means deletion
// (AP-CDL-01, AP-CDL-02, AP-CDL-03).
func (r *setRun) takeAll(ctx context.Context, h *saved.Harvest, s *OriginStatus, broken bool) (again bool, err error) {
	r.stage.Reset()
	if err := r.stageOrigin(ctx, deletions(r.origin.Changes(ctx, h.Seq)), desired.Listed, 0); err != nil {
		return false, err
	}
	if err := r.stageOrigin(ctx, r.origin.Entries(ctx), desired.Listed, 0); err != nil {
		return false, err
	}
	if err := newChooser(r).StageReported(ctx, r.stage, r.d.journal.Owed(ctx, r.set.Number)); err != nil {
		return false, err
	}
	if err := knowsOwnHarvest(ctx, r); err != nil {
		return false, err
	}
	whole, unchanged := s.Whole && !broken, r.report.Unchanged
	again, err = r.carryOut(ctx, work{
		Mode: ModeBaseline, Via: r.set.viaList(), Complete: true, Files: true,
		Prune: whole && (s.Complete || h.Other || r.d.opts.Delete == DeleteApply),
		Done: func() {
			if h.Known = whole; whole {
				r.set.Complete, r.set.Selection, h.Other = true, r.d.selects.Key, false
			}
			r.reached(h, s)
		},
	})
	// What was booked as it came is not looked at for the first time.
	r.report.Unchanged -= min(r.portions, r.report.Unchanged-unchanged)
	return again, r.applied(ctx, s, err)
}

// reached notes that all the Origin knows is applied.
func (r *setRun) reached(h *saved.Harvest, s *OriginStatus) {
	h.Seq, h.Fresh = s.Seq, 0
	r.set.Harvest = h
}

// applied reports to the Origin that its changes were applied, unless err is
// not nil.
func (r *setRun) applied(ctx context.Context, s *OriginStatus, err error) error {
	if err != nil || r.d.opts.DryRun {
		return err
	}
	return r.origin.Applied(ctx, s.Seq, s.Seq)
}

// stageOrigin stages what an Origin yields. The first done of them were applied
// earlier in this run, or by one that was broken off.
func (r *setRun) stageOrigin(ctx context.Context, entries iter.Seq2[resourcesync.Entry, error], class desired.Class, done int64) error {
	n := r.stage.AddDocument()
	r.stage.Documents[n].Dated, r.stage.Documents[n].Rising = true, true
	c := newChooser(r)
	pos := int64(0)
	for e, err := range entries {
		if err != nil {
			return err
		}
		at := desired.Rank{Class: class, Doc: n, Pos: pos, Event: e.Datetime}
		if err := r.stageEntry(ctx, c, &e, at, pos < done); err != nil {
			return err
		}
		if pos++; pos%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// stageEntry stages what is to become of a resource, and of those that are
// representations of the same, where it is a change.
func (r *setRun) stageEntry(ctx context.Context, c *representation.Chooser, e *resourcesync.Entry, at desired.Rank, applied bool) error {
	add := func(w desired.Resource, err error) error {
		if err != nil {
			return err
		}
		w.Rank, w.Applied = at, applied
		return r.stage.Add(ctx, w)
	}
	switch {
	case e.Change == resourcesync.Deleted:
		return add(r.reader.Resource(e), nil)
	case at.Class == desired.Listed:
		return add(c.Settle(ctx, e, true))
	}
	if err := add(c.Settle(ctx, e, false)); err != nil || entries.CanonicalOf(e) == "" && !representation.HasAlternates(e) {
		return err
	}
	others, err := c.Relatives(ctx, e)
	if err != nil {
		return err
	}
	for i := range others {
		others[i].Change = resourcesync.Updated
		if err := add(c.Settle(ctx, &others[i], true)); err != nil {
			return err
		}
	}
	return nil
}

// deletions are the changes that are some; what is there again is among what
// there is now.
func deletions(changes iter.Seq2[resourcesync.Entry, error]) iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		for e, err := range changes {
			if (err != nil || e.Change == resourcesync.Deleted) && !yield(e, err) {
				return
			}
		}
	}
}

// expectedHarvest stages what a set without documents should be.
func (r *setRun) expectedHarvest(ctx context.Context) (snap entries.Snapshot, err error) {
	if err := r.openOrigin(ctx); err != nil {
		return snap, err
	}
	defer func() {
		if cerr := r.origin.Close(); err == nil {
			err = cerr
		}
	}()
	for more := true; more; {
		if more, _, err = r.update(ctx, false); err != nil {
			return snap, err
		}
	}
	s, err := r.origin.Status(ctx)
	if err != nil {
		return snap, err
	}
	for _, text := range s.Warnings {
		r.warn(r.set.URI, text)
	}
	if r.set.Partial = !s.Whole; !s.Whole && r.failed == 0 {
		r.reader.Fail(r.set.URI, fmt.Errorf("read %s: not all of it is known", fetch.Printable(r.set.URI)))
	}
	snap.Sitemap = !s.Complete // like a Sitemap it does not say what is no more
	return snap, r.stageOrigin(ctx, r.origin.Entries(ctx), desired.Listed, 0)
}

// storedBy returns what offers a fetcher the content that an Origin has.
func storedBy(origin Origin) func(context.Context, *plan.Action, func(io.Reader) transfer.Outcome) (transfer.Outcome, bool) {
	return func(ctx context.Context, a *plan.Action, put func(io.Reader) transfer.Outcome) (transfer.Outcome, bool) {
		content, err := origin.Open(ctx, a.URI, a.Hashes)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return transfer.Outcome{}, false
		case err != nil:
			return transfer.Outcome{Err: err, Stale: errors.Is(err, ErrGone) || transfer.IsStale(err)}, true
		}
		defer content.Close()
		o := put(content)
		o.By, o.Stale = transfer.ByHarvest, transfer.IsStale(o.Err)
		return o, true
	}
}
