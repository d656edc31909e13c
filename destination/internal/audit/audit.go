// Package audit compares the files of a mirror with what its Source states and what
// the Journal knows.
package audit

import (
	"context"
	"fmt"

	"lockstep/blob"
	"lockstep/destination/filename"
	"lockstep/destination/internal/apply"
	"lockstep/destination/internal/bundle"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/planner"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/scratch"
	"lockstep/destination/internal/sets"
	"lockstep/destination/internal/stage"
	"lockstep/destination/journal"
	"lockstep/destination/report"
	"lockstep/internal/extsort"
)

// An Audit is one comparison of a mirror with its Source, set by set.
type Audit struct {
	Store     blob.Store
	Forgetful bool // the Store keeps no files
	Journal   journal.Journal
	Halfway   map[string]journal.Held // what a killed run left between files and Journal, by URI
	Withdrawn map[int]bool            // numbers of the sets that the Source has withdrawn
	Partial   bool                    // only some sets were asked for: the mirror may have others
	Restricts bool                    // not all resources of the sets are selected

	Plain   bool  // there is no Journal: the files are all there is
	Content bool  // every file is read
	Fix     bool  // findings are going to be repaired
	Marks   Marks // what is to be repaired
	Hashers content.Hashers

	Report *report.AuditReport
	Emit   func(report.Event)
	Quiet  bool // no progress is emitted

	// The results, besides the Report.
	Incomplete bool  // documents could not be read; set before Run if that is known then
	Orphans    int64 // damaged files, of resources that no set has any more

	names    *extsort.Sorter // collects the names of the files that belong to the mirror
	numbers  map[int]bool    // of the sets that are audited
	offered  int64           // resources that the Source lists
	selected int64           // those of them that are selected
	before   []int           // numbers of the sets that were examined
	named    bool            // the names of all files that are held are noted
	progress progress
}

// A Set is a set to be examined, whose desired resources are staged.
type Set struct {
	State   *saved.Set
	Held    int64 // resources of the mirror
	Listed  bool  // what the Source does not list is extra
	Paths   *filename.Mapping
	Planner *planner.Planner
	Stage   *stage.Stage
}

// Run examines sets with examine, which calls [Audit.Examine] for a set and reports
// whether all of its documents could be read, and then finds the files that do not
// belong to the mirror.
func (a *Audit) Run(ctx context.Context, all []*sets.State, examine func(context.Context, *sets.State) (complete bool, err error)) (err error) {
	a.names = scratch.RoomOf(a.Journal).Sorter()
	defer func() {
		if cerr := a.names.Close(); err == nil {
			err = cerr
		}
	}()
	a.numbers = make(map[int]bool, len(all))
	for _, set := range all {
		a.numbers[set.Number] = true
	}
	for _, set := range all {
		complete, err := examine(ctx, set)
		if err != nil {
			return err
		}
		a.Incomplete = a.Incomplete || !complete
	}
	if err := a.findForeign(ctx); err != nil {
		return err
	}
	switch {
	case a.Incomplete:
		return fmt.Errorf("%w: documents could not be read", report.ErrIncomplete)
	case a.Restricts && a.offered > 0 && a.selected == 0:
		return &report.SelectionError{Listed: a.offered}
	}
	return nil
}

// Examine compares the resources of a set with the mirror. Files that a set before it
// contains are examined once.
func (a *Audit) Examine(ctx context.Context, set *Set) (err error) {
	x := &examination{set: set, audit: a}
	if set.State.Foreign != nil {
		if x.excused, err = excused(ctx, a.Journal, set.State.Number); err != nil {
			return err
		}
	}
	a.Emit(report.Event{Kind: report.EventPlan, Set: set.State.Name, Progress: report.Progress{Total: a.progress.begin(set.Held)}})
	names := a.names.Writer()
	defer a.names.Release(names)
	err = bundle.Each(ctx, x.actions(ctx, names), x.check, func(act *plan.Action, v *verdict) error { return x.book(ctx, act, v) })
	if err != nil {
		return err
	}
	a.named = a.named || set.Planner.Prune
	a.before = append(a.before, set.State.Number)
	return a.Marks.Flush(ctx)
}

// excused returns the optional representations of a set that sync has reported as not
// served. An audit reports those beyond the limit as missing.
func excused(ctx context.Context, j journal.Journal, set int) (map[string]bool, error) {
	all := map[string]bool{}
	for o, err := range j.Owed(ctx, set) {
		if err != nil {
			return nil, err
		}
		w, _, err := desired.Decode(o.URI, string(o.Entry))
		if err != nil {
			return nil, err
		}
		if w.Excused && len(all) < apply.MaxStale {
			all[o.URI] = true
		}
	}
	return all, nil
}

// findForeign finds the files that do not belong to the mirror.
func (a *Audit) findForeign(ctx context.Context) error {
	if a.Forgetful {
		return nil
	}
	if err := addNames(ctx, a.Journal, a.names, a.Halfway, !a.named); err != nil {
		return err
	}
	cause := "not made by lockstep"
	if a.Plain {
		cause = "the Source lists no resource with this file"
	}
	return foreignFiles(ctx, a.Store, a.names, func(info blob.Info) {
		a.find(&report.Finding{Kind: report.Foreign, Path: info.Name, Found: &report.Facts{Length: &info.Size, Lastmod: info.ModTime}, Cause: cause})
	})
}

// find counts and reports a finding.
func (a *Audit) find(f *report.Finding) {
	printable(f)
	a.Report.Count(f)
	a.Emit(report.Event{Kind: report.EventFinding, Set: f.Set, URI: f.URI, Path: f.Path, Finding: *f})
}

// step reports progress, at intervals.
func (a *Audit) step(set string) {
	if done, total := a.progress.step(); !a.Quiet && a.progress.isDue() {
		a.Emit(report.Event{Kind: report.EventProgress, Set: set, Progress: report.Progress{Done: done, Total: total, Bytes: a.Report.Read}})
	}
}
