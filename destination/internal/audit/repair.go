package audit

import (
	"errors"
	"fmt"

	"lockstep/destination/internal/sets"
	"lockstep/destination/report"
	"lockstep/internal/fetch"
)

// CheckRepair refuses to repair a mirror if that would make it worse: dest is its name,
// and selection are the rules that select resources.
func (a *Audit) CheckRepair(all []*sets.State, dest, selection string) error {
	if a.Plain {
		return &report.RefusedError{
			Reason: fmt.Sprintf("%s is no mirror of ours: there is nothing to repair it by", fetch.Printable(dest)),
			Hint:   "make it one with sync --adopt, which takes over the files that are right",
		}
	}
	for _, set := range all {
		if set.Selection != "" && set.Selection != selection {
			return &report.RefusedError{
				Reason: fmt.Sprintf("set %s: the mirror was made with other --include, --exclude, --type, --since, --prefer or --allow-host flags", fetch.Printable(set.Name)),
				Hint:   "give the flags that sync was given, or run sync with these first",
			}
		}
	}
	return nil
}

// AddRepair adds the result of the run that repaired the mirror, which ended with err.
// keepsDeleted says that the run deleted nothing. AddRepair returns the error of the
// audit.
func (a *Audit) AddRepair(run *report.Report, err error, keepsDeleted bool) error {
	r := a.Report
	r.Mended = &report.Mended{
		Fetched: run.Created + run.Updated,
		Deleted: run.Deleted,
		Failed:  run.Failed + run.Refused,
	}
	r.Failures = append(r.Failures, run.Failures...)
	r.Failures = r.Failures[:min(len(r.Failures), report.MaxListed)]
	r.Warnings = append(r.Warnings, run.Warnings[:min(len(run.Warnings), max(report.MaxListed-len(r.Warnings), 0))]...)
	r.Unproven = run.Unproven
	r.InSync = err == nil && (!keepsDeleted || r.Extra == 0) && a.Orphans == 0
	if errors.Is(err, report.ErrIncomplete) {
		err = fmt.Errorf("mend: %w", err)
	}
	return err
}
