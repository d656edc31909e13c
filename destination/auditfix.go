package destination

import (
	"context"
	"errors"
	"fmt"

	"lockstep/blob"
	"lockstep/destination/internal/audit"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/reserve"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
)

// The repair is done by an ordinary run. While the audit reads files, it marks
// damaged ones in the Journal: it puts their rows in doubt, so that any
// comparison takes them for another version, and adds them to the set's pending
// work, so that the next run fetches them if this one is killed. Then a run
// compares everything, under the guards that apply to every run. Nothing that
// deletes is added to the pending work: the list that the run reads says what
// is to be deleted.

// mayFix refuses what mending would make worse.
func (a *auditor) mayFix(sets []*setState) error {
	if a.plain {
		return &RefusedError{
			Reason: fmt.Sprintf("%s is no mirror of ours: there is nothing to mend it by", fetch.Printable(a.d.opts.Dest)),
			Hint:   "make it one with sync --adopt, which takes over the files that are right",
		}
	}
	for _, set := range sets {
		if set.Selection != "" && set.Selection != a.d.selects.Key {
			return &RefusedError{
				Reason: fmt.Sprintf("set %s: the mirror was made with other --include, --exclude, --type, --since, --prefer or --allow-host flags", fetch.Printable(set.Name)),
				Hint:   "give the flags that sync was given, or run sync with these first",
			}
		}
	}
	return nil
}

// note prepares the mending of a damaged file.
func (s *setAudit) note(ctx context.Context, act *plan.Action, f *audit.Finding) error {
	w := act.AsStated()
	if w.Class == 0 { // only the Journal says what it should be
		h := &act.Held
		w = desired.Resource{URI: h.URI, Length: h.Length, Hashes: h.Hashes}
	}
	if err := s.doubt(ctx, act.Held, f); err != nil {
		return err
	}
	if s.a.known[s.set.URI] == s.set.Number { // else the run takes it for new anyway
		w.Rank = desired.Rank{Class: desired.Pending, Event: w.Event, Modified: w.Modified}
		cause := "an audit found it " + string(f.Kind)
		s.a.marks.Owe = append(s.a.marks.Owe, journal.Owed{Set: s.set.Number, URI: w.URI, Entry: w.Append(nil), Cause: cause})
	}
	return s.a.mark(ctx, false)
}

// doubt marks the row of a damaged file as one that has to be fetched.
// Something else at its path is moved away, if that destroys nothing. Otherwise
// the resource is no longer held, and gets another file next to it.
func (s *setAudit) doubt(ctx context.Context, h journal.Held, f *audit.Finding) error {
	if c, ok := s.a.d.store.(blob.Clearer); ok {
		moved, err := c.Clear(ctx, h.Path)
		if err != nil {
			return err
		}
		if moved != "" {
			f.Cause += "; what stood there was moved to " + moved
		}
	}
	blocked, err := reserve.Blocked(ctx, s.a.d.store, h.Path)
	if err != nil {
		return err
	}
	if !blocked {
		h.Hashes, h.ETag, h.Modified = nil, "", ""
		s.a.marks.Put = append(s.a.marks.Put, h)
		return nil
	}
	s.a.marks.Drop = append(s.a.marks.Drop, h.URI)
	for _, n := range h.Sets {
		s.a.counts[n]--
	}
	return nil
}

// mark writes notes to the Journal, when they are many or all is to be written.
func (a *auditor) mark(ctx context.Context, all bool) error {
	n := len(a.marks.Put) + len(a.marks.Drop) + len(a.marks.Owe)
	if n == 0 || !all && n < 4*batchCount {
		return nil
	}
	b := a.marks
	a.marks = journal.Batch{}
	if len(b.Drop) > 0 {
		b.Save = map[string][]byte{saved.DocCounts: saved.Encode(a.counts)}
	}
	if err := a.keep.AddPast(ctx, &b); err != nil {
		return err
	}
	if err := a.keep.Record(ctx, a.d.journal, b); err != nil {
		return fmt.Errorf("note what is to be mended: %w", err)
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
