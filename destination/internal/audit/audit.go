// Package audit compares the files of a mirror with what its Source states and what
// the Journal knows.
package audit

import (
	"context"

	"lockstep/blob"
	"lockstep/destination/filename"
	"lockstep/destination/internal/apply"
	"lockstep/destination/internal/bundle"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/planner"
	"lockstep/destination/internal/saved"
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
	Names     *extsort.Sorter         // collects the names of the files that belong to the mirror
	Halfway   map[string]journal.Held // what a killed run left between files and Journal, by URI
	Numbers   map[int]bool            // of the sets that are audited
	Withdrawn map[int]bool            // numbers of the sets that the Source has withdrawn
	Partial   bool                    // only some sets were asked for: the mirror may have others

	Plain   bool  // there is no Journal: the files are all there is
	Content bool  // every file is read
	Fix     bool  // findings are going to be repaired
	Marks   Marks // what is to be repaired

	Report *report.AuditReport
	Emit   func(report.Event)
	Quiet  bool // no progress is emitted

	// The results, besides the Report.
	Offered  int64 // resources that the Source lists
	Selected int64 // those of them that are selected
	Orphans  int64 // damaged files, of resources that no set has any more

	sums     content.Hashers
	before   []int // numbers of the sets that were examined
	named    bool  // the names of all files that are held are noted
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

// Examine compares the resources of a set with the mirror. Files that a set before it
// contains are examined once.
func (a *Audit) Examine(ctx context.Context, set *Set) (err error) {
	c := Checker{Number: set.State.Number, Name: set.State.Name, Before: a.before, Listed: set.Listed, Plain: a.Plain, Content: a.Content, Fix: a.Fix,
		Withdrawn: a.Withdrawn, Store: a.Store, Forgetful: a.Forgetful, Paths: set.Paths, Sums: &a.sums}
	if set.State.Foreign != nil {
		if c.Excused, err = excused(ctx, a.Journal, set.State.Number); err != nil {
			return err
		}
	}
	a.Emit(report.Event{Kind: report.EventPlan, Set: set.State.Name, Progress: report.Progress{Total: a.progress.begin(set.Held)}})
	x := &examination{set: set, checker: c, audit: a}
	x.checker.Compare = x.compareFile
	names := a.Names.Writer()
	defer a.Names.Release(names)
	err = bundle.Each(ctx, x.actions(ctx, names), x.checker.Check, func(act *plan.Action, v *Verdict) error { return x.book(ctx, act, v) })
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

// FindForeign finds the files that do not belong to the mirror.
func (a *Audit) FindForeign(ctx context.Context) error {
	if a.Forgetful {
		return nil
	}
	if err := AddNames(ctx, a.Journal, a.Names, a.Halfway, !a.named); err != nil {
		return err
	}
	cause := "not made by lockstep"
	if a.Plain {
		cause = "the Source lists no resource with this file"
	}
	return ForeignFiles(ctx, a.Store, a.Names, func(info blob.Info) {
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
