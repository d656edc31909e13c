package report

import (
	"slices"
	"sync"
	"time"

	"lockstep/destination"
)

// A Tally sums up the passes of a follow. It does not grow with them.
type Tally struct {
	Passes  int64 // that did something or failed
	Failing int64 // of them: after which not all was in step
	destination.Report
}

const (
	mostKept = 100    // failures and warnings that are kept, the newest of them
	MostSets = 10_000 // sets that are reported one by one: those of a Source may come and go
)

// Add adds a pass.
func (t *Tally) Add(r *destination.Report, err error) {
	t.Passes++
	if err != nil {
		t.Failing++
	}
	sum := &t.Report
	sum.Source, sum.Destination = r.Source, r.Destination
	if len(r.Way) > 0 {
		sum.Way = r.Way
	}
	if effort(r.Mode) >= effort(sum.Mode) {
		sum.Mode, sum.Via = r.Mode, r.Via
	}
	sum.Created, sum.Updated, sum.Deleted = sum.Created+r.Created, sum.Updated+r.Updated, sum.Deleted+r.Deleted
	sum.Unchanged, sum.Failed, sum.Refused = sum.Unchanged+r.Unchanged, sum.Failed+r.Failed, sum.Refused+r.Refused
	sum.Contradicted, sum.Moved = sum.Contradicted+r.Contradicted, sum.Moved+r.Moved
	sum.Bytes, sum.Requests, sum.Elapsed = sum.Bytes+r.Bytes, sum.Requests+r.Requests, sum.Elapsed+r.Elapsed
	if r.SyncedUntil.After(sum.SyncedUntil) {
		sum.SyncedUntil = r.SyncedUntil
	}
	if r.Kept != nil {
		sum.Kept = r.Kept
	}
	if r.Local != nil {
		sum.Local = r.Local
	}
	sum.NotKept += r.NotKept
	sum.By = addBy(sum.By, r.By)
	for i := range r.BySet {
		addSet(sum, &r.BySet[i])
	}
	sum.Failures = newest(sum.Failures, r.Failures)
	sum.Warnings = newest(sum.Warnings, r.Warnings)
	sum.Fallbacks, sum.Withdrawn = r.Fallbacks, r.Withdrawn // those of the last pass
}

// Copy returns a copy that shares nothing with t.
func (t *Tally) Copy() *Tally {
	c := *t
	c.Way, c.BySet = slices.Clone(c.Way), slices.Clone(c.BySet)
	c.Fallbacks, c.Withdrawn = slices.Clone(c.Fallbacks), slices.Clone(c.Withdrawn)
	c.Failures, c.Warnings = slices.Clone(c.Failures), slices.Clone(c.Warnings)
	return &c
}

// effort orders the modes of passes.
func effort(mode string) int {
	return slices.Index([]string{destination.ModeNone, destination.ModeIncremental, destination.ModeBaseline}, mode)
}

func addBy(a, b destination.By) destination.By {
	return destination.By{
		Request: a.Request + b.Request, Package: a.Package + b.Package, OnDemand: a.OnDemand + b.OnDemand, Patch: a.Patch + b.Patch,
		Mirror: a.Mirror + b.Mirror, Unchanged: a.Unchanged + b.Unchanged, Adopted: a.Adopted + b.Adopted, AdoptedByTime: a.AdoptedByTime + b.AdoptedByTime, Harvest: a.Harvest + b.Harvest,
		Memento: a.Memento + b.Memento, Kept: a.Kept + b.Kept,
	}
}

// addSet adds the totals of a pass for one set.
func addSet(sum *destination.Report, r *destination.SetReport) {
	i := slices.IndexFunc(sum.BySet, func(s destination.SetReport) bool { return s.URI == r.URI })
	if i < 0 {
		if len(sum.BySet) >= MostSets {
			sum.BySet = slices.Delete(sum.BySet, 0, 1)
		}
		sum.BySet = append(sum.BySet, *r)
		return
	}
	s := &sum.BySet[i]
	if effort(r.Mode) >= effort(s.Mode) {
		s.Mode, s.Via = r.Mode, r.Via
	}
	s.Created, s.Updated, s.Deleted = s.Created+r.Created, s.Updated+r.Updated, s.Deleted+r.Deleted
	s.Unchanged, s.Failed, s.Refused = s.Unchanged+r.Unchanged, s.Failed+r.Failed, s.Refused+r.Refused
	s.Bytes, s.Elapsed = s.Bytes+r.Bytes, s.Elapsed+r.Elapsed
	if r.SyncedUntil.After(s.SyncedUntil) {
		s.SyncedUntil = r.SyncedUntil
	}
	s.Name, s.Error, s.Complete = r.Name, r.Error, r.Complete
}

// newest adds what is new to kept, and drops the oldest.
func newest[T comparable](kept, more []T) []T {
	for _, v := range more {
		if !slices.Contains(kept, v) {
			kept = append(kept, v)
		}
	}
	if n := len(kept) - mostKept; n > 0 {
		kept = slices.Clone(kept[n:])
	}
	return kept
}

// A Once prevents that something that is retried is reported each time.
type Once struct {
	mu   sync.Mutex // guards said
	Said map[string]time.Time
}

const (
	sayAgain = time.Hour // after which something is said again
	MostSaid = 1000      // sentences remembered
)

// First reports whether a text has not been said for a while, and notes that
// it is now.
func (s *Once) First(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if at, ok := s.Said[text]; ok && now.Sub(at) < sayAgain {
		return false
	}
	if s.Said == nil || len(s.Said) >= MostSaid {
		s.Said = map[string]time.Time{}
	}
	s.Said[text] = now
	return true
}

// Forget makes everything worth saying again.
func (s *Once) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Said = nil
}
