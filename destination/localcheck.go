package destination

import (
	"context"
	"fmt"
	"time"

	"lockstep/destination/internal/failure"
	"lockstep/destination/internal/localcheck"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
)

// CheckLocal says when a run looks at the files of the mirror itself.
type CheckLocal string

// What Options.CheckLocal can be. The default is each run in mirrors of fewer
// than [smallMirror] resources, and once a day in larger ones.
const (
	CheckAuto   CheckLocal = ""
	CheckAlways CheckLocal = "always"
	CheckDaily  CheckLocal = "daily"
	CheckNever  CheckLocal = "never"
)

const (
	// smallMirror is the number of resources below which every run looks.
	smallMirror = 100_000

	// dailyCheck is how old a check may be otherwise. It is less than a day, so
	// that a run every day at the same time looks each time.
	dailyCheck = 23 * time.Hour
)

// docLocal is the document in which the Journal keeps a [LocalReport].
const docLocal = "local"

// isLocalDue reports whether a run is to examine the files of a mirror that holds
// so many resources, after the last check.
func isLocalDue(when CheckLocal, last *LocalReport, held int64, now time.Time) bool {
	age := now.Sub(last.CheckedAt)
	aged := last.CheckedAt.IsZero() || age < 0 || age >= dailyCheck
	switch when {
	case CheckNever:
		return false
	case CheckAlways:
		return true
	case CheckDaily:
		return aged
	}
	return aged || held < smallMirror
}

// checkLocal examines the files of all resources that are held, if a check is due.
// Damaged files become pending for their sets.
func (s *session) checkLocal(ctx context.Context) error {
	last := &LocalReport{}
	if _, err := saved.Load(ctx, s.d.journal, docLocal, last); err != nil {
		return err
	}
	s.damaged, s.unrepaired = nil, 0
	if s.d.isForgetful() {
		return nil
	}
	s.report.Local = last
	held := s.counts.Total()
	if s.mirror.Found == nil || s.past != nil || !isLocalDue(s.d.opts.CheckLocal, last, held, s.d.clock()) {
		return nil
	}
	if last.CheckedAt.IsZero() && held == 0 { // a mirror that is new
		s.report.Local = nil
		return nil
	}
	offered := map[int]bool{}
	for i := range s.mirror.Found.Sets {
		if n, known := s.mirror.Numbers[setURI(&s.mirror.Found.Sets[i])]; known {
			offered[n] = true
		}
	}
	if len(offered) == 0 {
		return nil
	}
	at := s.d.clock().UTC().Truncate(time.Second)
	r, err := localcheck.Run(ctx, localcheck.Mirror{Journal: s.d.journal, Files: s.d.store, Keep: s.keep, Counts: s.counts, Offered: offered,
		In: s.d.inDest(), DryRun: s.d.opts.DryRun, Baseline: s.d.opts.Baseline, Unavailable: failure.IsUnreadable, Warn: s.warn, Fail: s.report.Fail})
	if s.unrepaired = r.Unrepaired; err != nil {
		return err
	}
	s.report.Local = &LocalReport{CheckedAt: at, Checked: true, Files: r.Files, Missing: r.Missing, Changed: r.Changed, Touched: r.Touched}
	s.damaged = r.Damaged
	if s.d.opts.DryRun {
		s.report.Updated += s.report.Local.Damaged()
		return nil
	}
	done := saved.Encode(&LocalReport{CheckedAt: at, Files: r.Files})
	err = s.d.journal.Record(ctx, journal.Batch{Save: map[string][]byte{docLocal: done}})
	if err != nil && failure.IsFull(err) {
		s.warn("", fmt.Sprintf("record when the files of the mirror were checked: %v", err)) // the next run looks again
		return nil
	}
	return err
}
