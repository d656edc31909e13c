package destination

import (
	"context"
	"errors"
	"fmt"

	"lockstep/internal/fetch"
)

// mayFix refuses what mending would make worse.
func (a *auditor) mayFix(sets []*setState) error {
	if a.exam.Plain {
		return &RefusedError{
			Reason: fmt.Sprintf("%s is no mirror of ours: there is nothing to mend it by", fetch.Printable(a.session.d.opts.Dest)),
			Hint:   "make it one with sync --adopt, which takes over the files that are right",
		}
	}
	for _, set := range sets {
		if set.Selection != "" && set.Selection != a.session.d.selects.Key {
			return &RefusedError{
				Reason: fmt.Sprintf("set %s: the mirror was made with other --include, --exclude, --type, --since, --prefer or --allow-host flags", fetch.Printable(set.Name)),
				Hint:   "give the flags that sync was given, or run sync with these first",
			}
		}
	}
	return nil
}

// mend brings the mirror into step after an audit found differences.
func (d *Destination) mend(ctx context.Context, address string, r *AuditReport) error {
	o := d.opts
	o.DryRun, o.Baseline, o.CheckLocal = false, false, CheckNever // the audit has looked
	m, err := d.with(o)
	if err != nil {
		return err // unreachable: d was made with these options
	}
	m.compare = true
	report, err := m.Sync(ctx, address)
	r.Mended = &Mended{
		Fetched: report.Created + report.Updated,
		Deleted: report.Deleted,
		Failed:  report.Failed + report.Refused,
	}
	r.Failures = append(r.Failures, report.Failures...)
	r.Failures = r.Failures[:min(len(r.Failures), maxListed)]
	for _, w := range report.Warnings {
		if len(r.Warnings) < maxListed {
			r.Warnings = append(r.Warnings, w)
		}
	}
	r.Unproven = report.Unproven
	r.InSync = err == nil && (o.Delete != DeleteKeep || r.Extra == 0)
	if errors.Is(err, ErrIncomplete) {
		err = fmt.Errorf("mend: %w", err)
	}
	return err
}
