// Package counting fills in the Report of a run: it counts results, and lists the
// first failures and warnings.
package counting

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/destination/internal/repeats"
	"lockstep/destination/report"
	"lockstep/internal/fetch"
	"lockstep/internal/fetch/shown"
)

// maxMissing caps the list of past contents that are unavailable, in bytes. It is
// high because users who request a past state need to know everything it lacks.
const maxMissing = 24 << 20

// A Report is the report of a run in progress.
type Report struct {
	report.Report

	unread   int64           // sets whose Capability List could not be read
	missing  int             // bytes of Missing
	repeated *repeats.Counts // of warnings of one kind; nil: there are none
}

// Since returns what was counted since before, as the result of one set.
func (r *Report) Since(before *Report) report.SetReport {
	return report.SetReport{
		Mode: r.Mode, Via: r.Via,
		Created: r.Created - before.Created, Updated: r.Updated - before.Updated, Deleted: r.Deleted - before.Deleted,
		Unchanged: r.Unchanged - before.Unchanged, Failed: r.Failed - before.Failed, Refused: r.Refused - before.Refused,
	}
}

// Add adds what another report counted of resources that did not fail, and its warnings.
func (r *Report) Add(o *Report) {
	r.Created += o.Created
	r.Updated += o.Updated
	r.Unchanged += o.Unchanged
	by, more := &r.By, &o.By
	by.Request += more.Request
	by.OnDemand += more.OnDemand
	by.Mirror += more.Mirror
	by.Memento += more.Memento
	by.Unchanged += more.Unchanged
	for _, text := range o.Warnings {
		r.Warn(text)
	}
}

// AddSet adds the result of a set that ended with err: what was counted since before,
// and the reasons why it is not certain that the set is complete. The fields of set
// that are not counted are given, and what was counted in earlier turns. AddSet returns the result.
func (r *Report) AddSet(set report.SetReport, before *Report, err error, reasons []report.Unproven) report.SetReport {
	if again := min(set.Created+set.Updated, r.Unchanged-before.Unchanged); again > 0 {
		r.Unchanged -= again // done in earlier turns
	}
	d := r.Since(before)
	set.Mode, set.Via = d.Mode, d.Via
	set.Created, set.Updated, set.Deleted = set.Created+d.Created, set.Updated+d.Updated, set.Deleted+d.Deleted
	set.Unchanged, set.Failed, set.Refused = d.Unchanged, d.Failed, d.Refused
	if r.AddUnproven(reasons); len(reasons) > 0 {
		set.LeaveOpen()
	}
	if set.Error = failures(&set); err != nil {
		set.Error = fetch.Printable(err.Error())
	}
	set.Complete = set.IsComplete()
	r.BySet = append(r.BySet, set)
	r.Mode, r.Via = before.Mode, before.Via
	r.RaiseMode(set.Mode, set.Via)
	return set
}

// failures describes the failures of a set; empty if there are none.
func failures(set *report.SetReport) string {
	if set.Failed+set.Refused == 0 {
		return ""
	}
	return fmt.Sprintf("%d failed, %d refused", set.Failed, set.Refused)
}

// Postpone withdraws the result of a set that was interrupted, and is done again later: failures
// since before, and what was found in step. It returns what was done, in addition to earlier.
func (r *Report) Postpone(before *Report, earlier report.SetReport) report.SetReport {
	d := r.Since(before)
	earlier.Created += d.Created
	earlier.Updated += d.Updated
	earlier.Deleted += d.Deleted
	now := *r
	*r = *before
	r.Created, r.Updated, r.Deleted, r.By = now.Created, now.Updated, now.Deleted, now.By
	r.Moved, r.NotKept, r.Warnings, r.repeated = now.Moved, now.NotKept, now.Warnings, now.repeated
	return earlier
}

// Recount adds what was counted since before to the result of a set, whose failures
// were tried again.
func (r *Report) Recount(set string, before *Report) {
	for i := range r.BySet {
		b := &r.BySet[i]
		if b.URI != set {
			continue
		}
		d := r.Since(before)
		b.Created, b.Updated, b.Deleted = b.Created+d.Created, b.Updated+d.Updated, b.Deleted+d.Deleted
		b.Unchanged, b.Failed, b.Refused = b.Unchanged+d.Unchanged, b.Failed+d.Failed, b.Refused+d.Refused
		b.Error = failures(b)
	}
}

// AddUnproven lists reasons why it is not certain that the mirror is complete.
func (r *Report) AddUnproven(reasons []report.Unproven) {
	r.Unproven = append(r.Unproven, reasons[:min(len(reasons), max(report.MaxListed-len(r.Unproven), 0))]...)
}

// AddPlan adds a sentence about the transfer methods chosen for a set, once.
func (r *Report) AddPlan(sentence string) {
	if s := fetch.Printable(sentence); len(r.Plan) < report.MaxListed && !slices.Contains(r.Plan, s) {
		r.Plan = append(r.Plan, s)
	}
}

// AddFallback lists what was used in place of something else, once, and reports
// whether it is new. It makes the addresses in f printable.
func (r *Report) AddFallback(f *report.Fallback) (first bool) {
	f.Set = fetch.Printable(f.Set)
	f.URI, f.UsedURI, f.Cause = shown.Whole(f.URI), shown.Whole(f.UsedURI), fetch.Printable(f.Cause)
	for i := range r.Fallbacks {
		if o := &r.Fallbacks[i]; o.Set == f.Set && o.Missing == f.Missing && o.Used == f.Used {
			return false
		}
	}
	if len(r.Fallbacks) < report.MaxListed {
		r.Fallbacks = append(r.Fallbacks, *f)
	}
	return true
}

// FailResource lists a failure of a resource, which may be requested again at
// notBefore. A retried one is tried again at the end of the run.
func (r *Report) FailResource(uri string, err error, notBefore time.Time, retried bool) {
	if len(r.Failures) < report.MaxListed {
		f := report.NewResourceFailure(uri, err.Error(), retried)
		f.Defer(notBefore)
		r.Failures = append(r.Failures, f)
	}
}

// Retry removes n failures of resources that are tried again.
func (r *Report) Retry(n int64) {
	r.Failed -= n
	r.Failures = slices.DeleteFunc(slices.Clone(r.Failures), func(f report.Failure) bool { return f.IsRetried() })
}

// Fail lists a failure with a cause that names the address.
func (r *Report) Fail(uri, cause string) {
	if len(r.Failures) < report.MaxListed {
		r.Failures = append(r.Failures, report.NewFailure(uri, cause))
	}
}

// FailDocument lists a document that could not be read.
func (r *Report) FailDocument(uri string, err error) {
	n := len(r.Failures)
	r.Fail(uri, err.Error())
	t := fetch.NotBefore(err)
	if t.IsZero() {
		return
	}
	r.Defer(t)
	if len(r.Failures) > n {
		r.Failures[n].Defer(t)
	}
}

// Defer records that a document may be requested again at t.
func (r *Report) Defer(t time.Time) {
	if t = t.UTC().Truncate(time.Second); r.NotBefore.IsZero() || t.Before(r.NotBefore) {
		r.NotBefore = t
	}
}

// WithdrawFailure removes a failure that was resolved within the run.
func (r *Report) WithdrawFailure(uri, cause string) {
	was := report.NewFailure(uri, cause)
	if i := slices.IndexFunc(r.Failures, func(f report.Failure) bool { return f.URI == was.URI && f.Cause == was.Cause }); i >= 0 {
		r.Failures = slices.Delete(r.Failures, i, i+1)
	}
}

// WithdrawFailures removes all failures since before, which were resolved within the run.
func (r *Report) WithdrawFailures(before *Report) {
	r.Failed, r.Refused, r.Failures = before.Failed, before.Refused, slices.Clip(before.Failures)
}

// AddMissing lists a resource whose past content is unavailable.
func (r *Report) AddMissing(uri, cause string) {
	f := report.NewFailure(uri, cause)
	if r.missing > maxMissing {
		return
	}
	if r.missing += len(f.URI) + len(f.Cause) + 64; r.missing > maxMissing {
		r.Warn("more is missing than can be listed here: each was reported when it was requested")
	}
	r.Missing = append(r.Missing, f)
}

// WithdrawMissing removes a resource whose past content has become available.
func (r *Report) WithdrawMissing(uri string) {
	uri = shown.Whole(uri)
	r.Missing = slices.DeleteFunc(r.Missing, func(f report.Failure) bool { return f.URI == uri })
}

// AddUnreadSet records a set whose Capability List could not be read.
func (r *Report) AddUnreadSet(set report.SetReport) {
	r.unread++
	r.BySet = append(r.BySet, set)
}

// HasFailures reports whether resources failed or were refused, or Capability Lists
// could not be read.
func (r *Report) HasFailures() bool { return r.Failed+r.Refused+r.unread > 0 }

// Shortfall describes how much could not be done.
func (r *Report) Shortfall() string {
	var parts []string
	add := func(n int64, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(r.Failed, "failed")
	add(r.Refused, "refused")
	// Other failures are of documents, or of places in the mirror.
	switch other := int64(len(r.Failures)) - r.Failed - r.Refused; {
	case other == 1 && len(parts) == 0:
		return fetch.Printable(r.Failures[0].URI) + " could not be read or written"
	case other > 0 || len(parts) == 0:
		add(max(other, 1), "could not be read or written")
	}
	return strings.Join(parts, ", ")
}

// RaiseMode records how a set was brought into step: the report states the most
// thorough mode of all sets.
func (r *Report) RaiseMode(mode, via string) {
	rank := map[string]int{"": 0, report.ModeNone: 1, report.ModeIncremental: 2, report.ModeBaseline: 3}
	if rank[mode] > rank[r.Mode] {
		r.Mode, r.Via = mode, via
	}
}

// Warn records a warning. Of several warnings of one kind the first is listed and the
// others are counted; Warn reports whether it is the first.
func (r *Report) Warn(text string) (first bool) {
	if r.repeated == nil {
		r.repeated = &repeats.Counts{}
	}
	if first = r.repeated.Add(text, len(r.Warnings), report.MaxListed); first {
		r.Warnings = append(r.Warnings, fetch.Printable(text))
	}
	return first
}

// FinishWarnings appends to each warning how many more there were of its kind, and
// passes the resulting sentences to emit.
func (r *Report) FinishWarnings(emit func(text string)) {
	if r.repeated == nil {
		return
	}
	r.Warnings = r.repeated.Finish(r.Warnings, emit)
	r.repeated = nil
}
