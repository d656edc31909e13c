package localcheck

import (
	"context"
	"fmt"
	"time"

	"lockstep/destination/internal/failure"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/destination/report"
)

// When a run checks. The default is each run of mirrors with fewer than smallMirror
// resources, and once a day for larger ones.
const (
	Auto   = ""
	Always = "always"
	Daily  = "daily"
	Never  = "never"
)

const (
	// smallMirror is the number of resources below which every run checks.
	smallMirror = 100_000

	// dailyCheck is the age at which a daily check is repeated. It is less than a
	// day, so that a run every day at the same time checks each time.
	dailyCheck = 23 * time.Hour
)

// Doc is the document in which the Journal stores a [report.LocalReport].
const Doc = "local"

// An Outcome is the result of a check, or of the last one if none was due.
type Outcome struct {
	Report     *report.LocalReport // nil: no check was ever due
	Damaged    map[int]bool        // numbers of the sets with files to repair
	Unrepaired int                 // files that are damaged or cannot be examined, and that no set can repair
}

// RunIfDue examines the files if a check is due at the time now of the mirror's clock,
// and records that time. Unless possible, it only returns the result of the last check.
func RunIfDue(ctx context.Context, m Mirror, when string, possible bool, now time.Time) (Outcome, error) {
	last := &report.LocalReport{}
	if _, err := saved.Load(ctx, m.Journal, Doc, last); err != nil {
		return Outcome{}, err
	}
	out := Outcome{Report: last}
	held := m.Counts.Total()
	switch {
	case !possible || !isDue(when, last, held, now):
		return out, nil
	case last.CheckedAt.IsZero() && held == 0: // a new mirror
		return Outcome{}, nil
	case len(m.Offered) == 0:
		return out, nil
	}
	at := now.UTC().Truncate(time.Second)
	r, err := Run(ctx, m)
	if out.Unrepaired = r.Unrepaired; err != nil {
		return out, err
	}
	out.Report = &report.LocalReport{CheckedAt: at, Checked: true, Files: r.Files, Missing: r.Missing, Changed: r.Changed, Touched: r.Touched}
	if out.Damaged = r.Damaged; m.DryRun {
		return out, nil
	}
	done := saved.Encode(&report.LocalReport{CheckedAt: at, Files: r.Files})
	err = m.Journal.Record(ctx, journal.Batch{Save: map[string][]byte{Doc: done}})
	if err != nil && failure.IsFull(err) {
		m.Warn("", fmt.Sprintf("record when the files of the mirror were checked: %v", err)) // the next run checks again
		return out, nil
	}
	return out, err
}

// isDue reports whether a run is to examine the files of a mirror that holds a number
// of resources, after the last check.
func isDue(when string, last *report.LocalReport, held int64, now time.Time) bool {
	age := now.Sub(last.CheckedAt)
	aged := last.CheckedAt.IsZero() || age < 0 || age >= dailyCheck
	switch when {
	case Never:
		return false
	case Always:
		return true
	case Daily:
		return aged
	}
	return aged || held < smallMirror
}
