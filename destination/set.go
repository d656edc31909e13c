package destination

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"lockstep/destination/internal/apply"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/known"
	"lockstep/destination/internal/outage"
	"lockstep/destination/internal/pending"
	"lockstep/destination/internal/push"
	"lockstep/destination/internal/reconcile"
	"lockstep/destination/internal/run"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/stage"
	"lockstep/destination/internal/substitute"
)

// A setRun brings one set into step.
type setRun struct {
	*session
	set    *setState
	stage  *stage.Stage
	reader *entries.Reader
	docs   *substitute.Documents
	failed *substitute.Failures // documents that could not be read

	stale map[string]error // resources that failed, perhaps due to an outdated description, not yet reported

	outdated apply.Outdated // those of them that nothing describes any more

	final bool // only what failed in this run is tried again

	movedOn apply.MovedOn // resources that came from mementos

	origin Origin // of a set without documents; nil: it has some

	confirmed map[push.Key]bool // deletions that were notified and that the Source confirms
	results   push.Results      // of each resource, if they are wanted
}

// newReadRun returns a run that only reads the documents of a set.
func newReadRun(s *session, set *setState) *setRun {
	r := &setRun{session: s, set: set, stage: stage.New(s.d.journal), failed: &substitute.Failures{Report: s.problem}, stale: map[string]error{}, outdated: apply.Outdated{}}
	r.stage.Companions = s.d.selects.Companions
	r.reader = newSetReader(s.d, set, s.home, s.file, r.stage, s.warn, r.failed.Add)
	r.docs = &substitute.Documents{Set: &set.Set, Reader: r.reader, Outages: outage.New(s.d.clock), Held: func() int64 { return s.state.Counts[set.Number] },
		Baseline: s.d.opts.Baseline, Warn: s.warn, Replace: func(f Fallback) { addFallback(s, set.Name, f) }}
	return r
}

// newSetReader returns a reader of a set's documents for a Destination.
func newSetReader(d *Destination, set *setState, home *url.URL, file string, st *stage.Stage, warn func(uri, text string), fail func(uri string, err error)) *entries.Reader {
	return &entries.Reader{
		Client: d.client, Opener: d.packages, Jobs: d.opts.Jobs, Selects: d.selects, History: !d.opts.At.IsZero(), Baseline: d.opts.Baseline,
		OnOpen: func(uri string) { d.emit(Event{Kind: EventDocument, Set: set.Name, URI: uri}) },
		Pushed: func() *push.State { return set.Push },
		Set:    &set.Set, Home: home, File: file, Stage: st, Warn: warn, Fail: fail,
	}
}

// newSetRun returns a run for a set.
func newSetRun(s *session, set *setState) *setRun {
	r := newReadRun(s, set)
	r.stage.Versions.Keep = s.d.opts.AllVersions
	r.reader.Future.Limit = time.Now().Add(entries.MaxTrustedSkew)
	r.stage.Future = r.reader.Future.Has
	return r
}

// addFallback reports what was used in place of something else.
func addFallback(s *session, set string, f Fallback) {
	if f.Set = set; s.report.AddFallback(&f) {
		s.d.emit(Event{Kind: EventWarning, Set: set, URI: f.URI, Err: errors.New(f.String())})
	}
}

// syncSet brings a set into step: by its changes if that can be, else by
// comparing all of it.
func syncSet(ctx context.Context, s *session, set *setState) error {
	set.Planned, set.Found = false, nil
	defer func(before bool) { s.restored = s.restored || before && !set.Restored }(set.Restored)
	r := newSetRun(s, set)
	defer r.reader.Packages.Shelf.Clear()
	began, before := set.Watermark, changesOf(r)
	var err error
	r.docs.Outages, err = outage.Load(ctx, r.d.journal, set.Number, s.d.clock)
	if err == nil {
		err = bringInStep(ctx, r)
	}
	if err == nil && mustCompare(r) {
		r.stage.Reset()
		err = documentsOf(r).Baseline(ctx, false)
	}
	if o := &s.d.opts; err == nil && !o.DryRun && o.Via != ViaList && s.past == nil && set.Foreign == nil && !s.d.compare {
		err = documentsOf(r).Search(ctx, began)
	}
	if err == nil && set.Foreign == nil {
		err = describeListed(ctx, r, changesOf(r) > before)
	}
	reportMoved(r)
	if serr := saveOutages(context.WithoutCancel(ctx), r); err == nil {
		err = serr
	}
	r.reader.Future.Report(&r.set.Set, r.warn)
	if r.set.Kept && r.d.opts.Delete == DeleteKeep {
		r.warn(r.set.URI, fmt.Sprintf("set %s: resources that the Source has deleted are kept; without --delete keep they are deleted", r.set.Name))
	}
	if cerr := endSet(ctx, r); err == nil {
		err = cerr
	}
	set.Compared = r.docs.Compared
	if err == nil && r.failed.Count > 0 {
		err = fmt.Errorf("set %s: %w: documents could not be read", set.Name, ErrIncomplete)
	}
	return err
}

// reportMoved reports the resources that came from mementos.
func reportMoved(r *setRun) {
	if m := &r.movedOn; m.Count > 0 {
		r.docs.Replace(reconcile.FallbackFor(m))
	}
}

// endSet reports the resources that failed and that no newer description has mended,
// and discards what is staged.
func endSet(ctx context.Context, r *setRun) error {
	for _, uri := range slices.Sorted(maps.Keys(r.stale)) {
		r.d.emit(Event{Kind: EventFailed, Set: r.set.Name, URI: uri, Err: r.stale[uri]})
	}
	return r.stage.Close(context.WithoutCancel(ctx))
}

// saveOutages records what failed in this run.
func saveOutages(ctx context.Context, r *setRun) error {
	o := r.docs.Outages
	if !o.HasFailed(FallbackLoc) {
		o.Works(FallbackLoc)
	}
	if r.d.opts.DryRun || r.d.compare {
		return nil
	}
	return o.Save(ctx, r.d.journal, r.set.Number)
}

// mustCompare reports whether damaged files could not be repaired by what the
// Journal knows of them, and comparing all of the set may.
func mustCompare(r *setRun) bool {
	return r.damaged[r.set.Number] && !r.docs.Compared && !r.d.opts.DryRun && r.set.Lists != "" && len(r.stale) > 0
}

// bringInStep brings a set into step in the way that fits it.
func bringInStep(ctx context.Context, r *setRun) error {
	switch {
	case r.set.Unselected:
		return dissolve(ctx, r)
	case r.past != nil:
		return restoreSet(ctx, r)
	case r.set.Foreign != nil:
		return harvestSet(ctx, r)
	}
	return documentsOf(r).Bring(ctx)
}

// documentsOf returns what brings a set into step with its documents.
func documentsOf(r *setRun) *run.Run {
	o := &r.d.opts
	return &run.Run{
		Settings: run.Settings{Compare: r.compares(), AcceptOlder: o.Baseline, DryRun: o.DryRun, Now: r.d.clock,
			DeleteAbsent: o.Delete == DeleteApply, Selection: r.d.selects.Key},
		Set: &r.set.Set, Push: r.set.Push, Documents: r.docs, Failures: r.failed, Stage: r.stage, Pending: pendingStager(r), Stale: r.stale, Outdated: r.outdated,
		Reconcile: func(ctx context.Context, w reconcile.Work) (bool, error) { return reconciled(r).Apply(ctx, w) },
		Known:     func(ctx context.Context) (*known.Parts, error) { return known.Load(ctx, r.d.journal, r.set.Number) },
		Prefetch:  func() *reconcile.Prefetch { return prefetchOf(r) },
		Beside:    func() *entries.Beside { return reconciled(r).Beside() },
		Dissolve:  func(ctx context.Context) error { return dissolve(ctx, r) },
		Versions: func(ctx context.Context, c *entries.Chain, via string) error {
			return reconciled(r).ApplyVersions(ctx, c, via)
		},
		RaiseMode: r.report.RaiseMode, AddPlan: r.report.AddPlan,
	}
}

// compares reports whether the set is compared as a whole in any case.
func (r *setRun) compares() bool {
	o := &r.d.opts
	return o.Baseline || r.d.compare || r.set.Restored || r.set.IsRipe(r.d.clock()) || r.set.Kept && o.Delete != DeleteKeep
}

// prefetchOf returns what fetches resources while a list is read; nil if nothing does.
// If the Source is a file, names of files depend on what it lists.
func prefetchOf(r *setRun) *reconcile.Prefetch {
	if r.d.compare || r.state.Source.Origin == "" {
		return nil
	}
	return reconciled(r).Prefetch()
}

// reselects reports whether what the set holds may have been selected by
// another selection.
func (r *setRun) reselects() bool { return r.set.Selection != r.d.selects.Key }

// dissolve removes the resources of a set that no longer exists.
func dissolve(ctx context.Context, r *setRun) error {
	r.report.RaiseMode(ModeBaseline, ViaList)
	_, err := reconciled(r).Apply(ctx, reconcile.Work{Mode: ModeBaseline, Via: ViaList, Prune: true, Complete: true, Done: func() {
		*r.set = setState{Set: saved.Set{URI: r.set.URI, Name: r.set.Name, Number: r.set.Number}}
	}})
	return err
}

// pendingStager returns what stages the pending work of the set.
func pendingStager(r *setRun) *pending.Stager {
	return &pending.Stager{Set: pendingOf(r.d, r.set.Number), Transient: r.final, Refuse: r.reader.Refuse, Chooser: newChooser(r)}
}
