package audit

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"lockstep/blob"
	"lockstep/destination/internal/adopt"
	"lockstep/destination/internal/bundle"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/failure"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/planner"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/stage"
	"lockstep/destination/internal/wording"
	"lockstep/destination/journal"
	"lockstep/internal/extsort"
	"lockstep/resourcesync"
)

// An Audit is one comparison of a mirror with its Source, set by set.
type Audit struct {
	Store   blob.Store
	Journal journal.Journal
	Halfway map[string]journal.Held // what a killed run left between files and Journal, by URI
	Numbers map[int]bool            // of the sets that are audited
	Partial bool                    // only some sets were asked for: the mirror may have others
	Marks   *Marks                  // what is to be repaired

	Find func(*Finding)   // reports a finding
	Step func(set string) // reports progress, with the name of the set

	// The results.
	Resources int64 // that the sets should contain
	Verified  int64 // files whose bytes were read and found right
	Read      int64 // bytes of files that were read
	Offered   int64 // resources that the Source lists
	Selected  int64 // those of them that are selected
	Orphans   int64 // damaged files, of resources that no set has any more

	named bool // the names of all files that are held are noted
}

// A Set examines the resources of one set, many at a time, and reports on them in
// their order.
type Set struct {
	State   *saved.Set
	Checker Checker
	Planner *planner.Planner

	audit *Audit
}

// Add returns the examination of a set. It is carried out before the next one is
// added: what several sets contain is examined once.
func (a *Audit) Add(state *saved.Set, c Checker, p *planner.Planner) *Set {
	s := &Set{State: state, Checker: c, Planner: p, audit: a}
	s.Checker.Compare = s.compareFile
	return s
}

// FindForeign finds the files that do not belong to the mirror. plain says that
// there is no Journal: the files are all there is.
func (a *Audit) FindForeign(ctx context.Context, names *extsort.Sorter, plain bool) error {
	if err := AddNames(ctx, a.Journal, names, a.Halfway, !a.named); err != nil {
		return err
	}
	cause := "not made by lockstep"
	if plain {
		cause = "the Source lists no resource with this file"
	}
	return ForeignFiles(ctx, a.Store, names, func(info blob.Info) {
		a.Find(&Finding{Kind: Foreign, Path: info.Name, Found: &Facts{Length: &info.Size, Lastmod: info.ModTime}, Cause: cause})
	})
}

// Examine looks at all that is staged and all that is held, and notes the names
// of the files that belong to a resource.
func (s *Set) Examine(ctx context.Context, st *stage.Stage, names *extsort.Writer) error {
	err := bundle.Each(ctx, s.actions(ctx, st, names), s.Checker.Check, func(act *plan.Action, v *Verdict) error {
		return s.book(ctx, act, v)
	})
	s.audit.named = s.audit.named || err == nil && s.Planner.Prune
	return err
}

// actions yields what is to be looked at.
func (s *Set) actions(ctx context.Context, st *stage.Stage, names *extsort.Writer) iter.Seq2[plan.Action, error] {
	return func(yield func(plan.Action, error) bool) {
		for act, err := range s.Planner.Actions(ctx, st) {
			if row, ok := s.audit.Halfway[act.URI]; ok && err == nil {
				act, err = s.decided(ctx, &act, row)
			}
			if err == nil && s.isStandIn(&act) {
				act, err = s.standIn(ctx, &act)
			}
			if err == nil {
				err = s.account(&act, names)
			}
			if act.Class != 0 && !act.Gone {
				if s.audit.Offered++; !act.Unselected {
					s.audit.Selected++
				}
			}
			if act.Verb == plan.Skip && err == nil && !s.isOrphan(&act) {
				continue
			}
			if !yield(act, err) || err != nil {
				return
			}
		}
	}
}

// account notes the names of the files that belong to a resource: where all
// that is held passes by, of all that is held; in a plain directory, of all
// that is wanted.
func (s *Set) account(act *plan.Action, names *extsort.Writer) error {
	switch {
	case s.Checker.Plain:
		for path := range adopt.Names(s.Checker.Paths, act.URI) {
			if err := names.Add([]byte(path), nil); err != nil {
				return err
			}
		}
	case act.IsHeld() && s.Planner.Prune && !s.audit.named:
		return names.Add([]byte(act.Held.Path), nil)
	}
	return nil
}

// decided makes the decision about a resource again, for the row that the
// Journal will hold once the state that a killed run left has been cleaned up.
func (s *Set) decided(ctx context.Context, act *plan.Action, row journal.Held) (plan.Action, error) {
	if act.Class == 0 {
		return s.Planner.Decide(ctx, nil, row)
	}
	w := act.Resource
	return s.Planner.Decide(ctx, &w, row)
}

// book counts and reports what was found.
func (s *Set) book(ctx context.Context, act *plan.Action, v *Verdict) error {
	if act.Class != 0 && !act.Gone && !v.Orphan {
		s.audit.Resources++
	}
	s.audit.Read += v.Read
	if v.Verified {
		s.audit.Verified++
	}
	s.audit.Step(s.State.Name)
	if v.Finding.Kind == "" {
		return nil
	}
	if v.Orphan {
		s.audit.Orphans++
	} else if s.Checker.Fix && v.Damaged {
		if err := s.audit.Marks.Add(ctx, s.State, act, &v.Finding); err != nil {
			return err
		}
	}
	s.audit.Find(&v.Finding)
	return nil
}

// isOrphan reports whether a resource is held only by sets that are not there
// any more: what it should be, the Journal alone knows. Each passes by once.
func (s *Set) isOrphan(act *plan.Action) bool {
	if !act.IsHeld() || s.audit.named || !s.Planner.Prune || s.audit.Partial {
		return false
	}
	for _, n := range act.Held.Sets {
		if s.audit.Numbers[n] {
			return false
		}
	}
	return true
}

// compareFile compares the file of a resource in a plain directory with what
// the Source says.
func (s *Set) compareFile(ctx context.Context, act *plan.Action) (Verdict, error) {
	f := s.Checker.Verdict(act, Missing, "no file of it is here").Finding
	if p, err := s.Checker.Paths.Path(act.URI); err == nil {
		f.Path = p
	}
	for path := range adopt.Names(s.Checker.Paths, act.URI) {
		l, err := adopt.Look(ctx, s.Checker.Sums, s.Checker.Store, path, &act.Resource)
		var wrong *content.Error
		switch {
		case ctx.Err() != nil:
			return Verdict{}, ctx.Err()
		case err == nil:
			return Verdict{Verified: l.Verified, Read: l.Length}, nil
		case errors.Is(err, blob.ErrNotExist):
			continue
		case failure.IsShortage(err):
			return Verdict{}, err
		}
		f.Path, f.Found = path, &Facts{Hash: wording.Hashes(l.Hashes), Length: &l.Length, Lastmod: l.Modified}
		switch {
		case errors.As(err, &wrong):
			f.Kind, f.Cause = Stale, fmt.Sprintf("its %s is %s, the Source states %s", wrong.What, wrong.Got, wrong.Want)
		case errors.Is(err, adopt.ErrUnverifiable):
			f.Kind, f.Cause = Unverifiable, err.Error()
		default:
			f.Kind, f.Cause, f.Found = Missing, err.Error(), nil
		}
	}
	return Verdict{Finding: f}, nil
}

// isStandIn reports whether a, which is to be removed, is kept in place of a
// representation that could not be fetched.
func (s *Set) isStandIn(a *plan.Action) bool {
	return a.Verb == plan.Remove && a.Instead != "" && s.Checker.Excused[a.Instead]
}

// standIn decides about such a resource by the representation that is kept.
func (s *Set) standIn(ctx context.Context, a *plan.Action) (plan.Action, error) {
	w := a.Resource
	w.Gone, w.Instead, w.Change = false, "", resourcesync.Change(0)
	return s.Planner.Decide(ctx, &w, a.Held)
}
