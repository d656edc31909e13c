// Package reconcile brings one set of a mirror into the state that is staged for it:
// it plans the actions, checks that no more is deleted than was agreed to, chooses
// the transfer methods, and has the actions carried out.
package reconcile

import (
	"context"
	"fmt"
	"io"
	"time"

	"lockstep/destination/filename"
	"lockstep/destination/internal/adopt"
	"lockstep/destination/internal/apply"
	"lockstep/destination/internal/bulk"
	"lockstep/destination/internal/counting"
	"lockstep/destination/internal/dump"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/outage"
	"lockstep/destination/internal/places"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/planner"
	"lockstep/destination/internal/push"
	"lockstep/destination/internal/representation"
	"lockstep/destination/internal/restore"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/selection"
	"lockstep/destination/internal/stage"
	"lockstep/destination/internal/transfer"
	"lockstep/destination/journal"
	"lockstep/destination/report"
	"lockstep/resourcesync"
)

// Settings are the user's choices.
type Settings struct {
	KeepDeleted bool   // never delete what the Source deletes
	MaxDelete   int    // in percent of a set; 100 is any share
	Via         string // which transfer methods to use: see destination.Options
	AllVersions bool   // apply also the versions before the last
	Documents   bool   // the documents prevail over what was notified
	AskNow      bool   // request also what servers asked not to request yet
	Adopt       bool   // files that no run wrote become part of the mirror if they match
	VerifyAll   bool   // verify all hashes that the Source states, not only the strongest
	Replace     bool   // with Adopt: those that do not match are replaced
	DryRun      bool   // change nothing
	Examined    bool   // with DryRun: the missing files are counted already
	NamePlans   bool   // with DryRun: emit an event for each resource that would change
}

// A Run is what the sets of one run have in common.
type Run struct {
	Settings
	Mirror  apply.Mirror
	Selects *selection.Selection
	OnDisk  func(context.Context, *journal.Held) (bool, error) // whether the file of a row exists
	Opener  *dump.Opener                                       // opens packages

	Report  *counting.Report
	Emit    func(report.Event)
	Counts  saved.Counts
	Marked  *places.Marked
	Passing map[int]int64 // counts by set what failed and is tried again at the end of the run; nil: nothing is

	Now time.Time // on the mirror's clock

	Resume   bool // an earlier run may have left unfinished downloads
	OwnFiles bool // files that match can only be the mirror's own

	Past    bool // the run restores a former state
	Offline bool // and uses only what a mirror has kept

	// OpenKept opens contents that a mirror holds or has kept.
	OpenKept func(ctx context.Context, uri string, hashes resourcesync.Hashes, length int64) (io.ReadCloser, error)

	Begin   func(context.Context) error                                                    // called before the mirror changes
	Record  func(ctx context.Context, b journal.Batch, what string, recorded func()) error // records rows together with the changes to be delivered
	Paths   func(context.Context, *stage.Stage) (*filename.Mapping, error)                 // the names of the files of what is staged
	Fetcher func(set int, paths *filename.Mapping) *transfer.Fetcher
}

// A Set is one set whose state is staged.
type Set struct {
	Run      *Run
	State    *saved.Set
	Push     *push.State // what notifications said; nil: unknown
	Stage    *stage.Stage
	Reader   *entries.Reader
	Outages  *outage.Outages
	Stale    map[string]error // failures that may succeed after reading the description again
	Outdated apply.Outdated   // those of them that nothing describes any more
	Moved    *apply.MovedOn   // resources that came from mementos
	FallBack func(report.Fallback)

	ListAt    resourcesync.Datetime // of the Resource List that is staged
	Compared  bool                  // the whole set was compared in this run
	Final     bool                  // only what failed in this run is tried again
	Reselects bool                  // another selection may have chosen what the mirror holds
	Reclaims  bool                  // files that match become part of the mirror before anything is fetched

	Confirmed map[push.Key]bool // notified deletions that the Source confirms
	Results   push.Results      // of each resource; nil: they are not needed

	Harvested bool // the set has no documents

	// Stored offers contents that were harvested; it may be nil.
	Stored func(context.Context, *plan.Action, func(io.Reader) transfer.Outcome) (transfer.Outcome, bool)

	Finder representation.Finder // finds other representations; nil: there are none
}

// Work says how to apply what is staged.
type Work struct {
	Mode, Via  string
	Complete   bool           // everything was read, so deletions may be carried out
	Explicit   bool           // recorded deletions may be carried out although not everything was read
	Partial    bool           // some of the changes could not be read
	Prune      bool           // resources that are not staged are deleted, too
	Files      bool           // check whether the files exist; a run that follows a killed one always does
	Suspect    bool           // refuse if anything newer would be lost
	Hinted     bool           // where the packages of the Resource Dump have contents is staged as well
	Searched   bool           // the packages of dumps were searched for all of it
	Past       *restore.State // the former state that is staged; nil: it is the current state
	Final      bool           // what is staged failed before in this run
	Prefetched bool           // the set was empty, and some of what is staged was fetched while the list was read
	Done       func()         // called when everything was applied, to record the progress
}

// Apply plans and applies what is staged. It reports whether failures may succeed
// after reading the descriptions again.
func (s *Set) Apply(ctx context.Context, w Work) (again bool, err error) {
	r := s.Run
	paths, err := r.Paths(ctx, s.Stage)
	if err != nil {
		return false, err
	}
	p := s.planner(&w)
	var found adopt.Adopted
	if r.Adopt || s.Reclaims && w.Past == nil {
		if found, err = s.adopt(ctx, p, paths); err != nil {
			return false, err
		}
	}
	p.Sift = w.Complete && s.Reselects && r.Counts[s.State.Number] > 0
	var needs bulk.Needs
	temporary := int64(0)
	total, err := p.Count(ctx, s.Stage, func(a *plan.Action) {
		if a.Verb == plan.Remove && s.Push.IsTemporary(a.URI) {
			temporary++
		}
		if !found.Has(a) {
			needs.Add(a)
		}
	})
	if err != nil {
		return false, err
	}
	if w.Past == nil {
		s.State.Ripen(p.Ripe(), r.Now, w.Mode == report.ModeBaseline && w.Files)
	}
	withoutAdopted(&total, &found)
	if w.Mode == report.ModeBaseline && w.Files {
		noteSelection(s.State, &total)
	}
	deletes := (w.Complete || w.Explicit) && !r.KeepDeleted
	if deletes {
		if err := s.consent(&total, &w, temporary); err != nil {
			return false, err
		}
		if err := s.checkSelection(ctx, &total); err != nil {
			return false, err
		}
	} else {
		s.State.Kept = s.State.Kept || (w.Complete || w.Explicit) && total.Deleted > 0 && !r.DryRun
		total.Deleted = 0
	}
	methods, err := s.chooseMethods(ctx, p, &w, &needs, &total)
	if err != nil {
		return false, err
	}
	r.Report.RaiseMode(w.Mode, w.Via)
	r.Emit(report.Event{Kind: report.EventPlan, Set: s.State.Name, Progress: report.Progress{Total: total.Todo() + total.Unchanged, TotalBytes: total.Bytes}})
	if r.DryRun {
		predict(r.Report, &total)
		return false, s.namePlans(ctx, p, deletes, &found)
	}
	a := s.applier(ctx, paths)
	a.Methods = methods
	a.OtherForm = s.otherForms(p).Fetch
	if w.Prefetched {
		a.Recorder.Report = &results{report: r.Report, set: s.State.Name, emit: r.Emit, again: true}
	}
	if w.Past != nil {
		a.Fetch.AsOf = w.Past.AsOf
		a.Fetch.OtherMethods = w.Past.MayHint() && r.Via != report.ViaList
	}
	if total.Todo() > 0 || w.Prune || a.Recorder.Owing {
		if err := s.execute(ctx, a, p, &w, &total, deletes); err != nil {
			return false, err
		}
	}
	if a.Recorder.Confirmed > 0 {
		if err := s.removeConfirmed(ctx, &w); err != nil {
			return false, err
		}
	}
	if w.Complete && w.Done != nil {
		if deletes && w.Mode == report.ModeBaseline {
			s.State.Kept = false
		}
		w.Done()
		save := map[string][]byte{saved.DocSet(s.State.Number): saved.Encode(s.State)}
		if err := r.Mirror.Journal.Record(ctx, journal.Batch{Save: save}); err != nil {
			return false, fmt.Errorf("record progress: %w", err)
		}
	}
	return len(s.Stale) > 0 || a.Recorder.Moved.Count > 0, nil
}

// planner returns the planner for what is staged.
func (s *Set) planner(w *Work) *planner.Planner {
	confirmed := s.Confirmed
	p := s.Run.Planner(s.State.Number)
	p.Partial, p.Prune, p.Files = w.Partial, w.Prune, (w.Files || s.Run.Resume) && !(s.Run.DryRun && s.Run.Examined)
	p.Stage, p.ListAt, p.IsNewer = s.Stage, s.ListAt, s.pushed(w).IsNewer
	p.Dated, p.Settled, p.LookUp = s.Harvested, s.State.Complete && !s.Reselects, true
	p.PreferOther = !s.Harvested && s.Run.Selects.PrefersOther(s.State.Selection)
	p.Refuse = s.Reader.Refuse
	if w.Past != nil {
		p.Past = &planner.Past{AsOf: w.Past.AsOf, During: w.Past.During}
	}
	p.Confirmed = func(uri string) bool { return confirmed[push.KeyOf(uri)] }
	return p
}

// Planner returns a planner for a set of the mirror.
func (r *Run) Planner(set int) *planner.Planner {
	return &planner.Planner{Journal: r.Mirror.Journal, Selects: r.Selects, OnDisk: r.OnDisk, Set: set, Stated: apply.TakesNoContent(r.Mirror.Store), Now: r.Now}
}

// pushed returns what notifications said, for a plan made of documents.
func (s *Set) pushed(w *Work) *push.State {
	if w.Via == report.ViaNotification || s.Run.Documents || w.Past != nil {
		return nil
	}
	return s.Push
}

// otherForms fetches other representations of what p plans; it is nil where each
// resource has one.
func (s *Set) otherForms(p *planner.Planner) *representation.Others {
	if s.Finder == nil {
		return nil
	}
	return &representation.Others{Chooser: &representation.Chooser{Reader: s.Reader, Finder: s.Finder}, Planner: p, NotBefore: plan.NotBefore}
}

// noteSelection records how much of what a set lists is selected.
func noteSelection(st *saved.Set, t *planner.Tally) {
	st.Planned, st.Matched = true, t.Created+t.Updated+t.Unchanged+t.Touched+t.Refused
	st.Listed = st.Matched + t.Passed + t.Unselected
}

// predict counts what a run would have done.
func predict(r *counting.Report, t *planner.Tally) {
	r.Created += t.Created
	r.Updated += t.Updated
	r.Deleted += t.Deleted
	r.Unchanged += t.Unchanged + t.Touched + t.Released
	r.Refused += t.Refused
	r.Expected += t.Bytes
}
