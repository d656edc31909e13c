package reconcile

import (
	"context"
	"fmt"

	"lockstep/destination/internal/planner"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/wording"
	"lockstep/destination/report"
)

// freeDeletes is the number of resources that a run may delete whatever their
// share: a set of ten that loses six is not worth stopping for.
const freeDeletes = 5

// consent checks a plan against the configured limits; temporary is how many of
// its deletions undo creations that were only notified. A Source whose documents do
// not confirm its notifications may have returned to a time before them; a resource
// that disappears without a recorded deletion proves nothing then: it may never have
// existed.
func (s *Set) consent(t *planner.Tally, w *Work, temporary int64) error {
	if w.Prefetched {
		return nil // this run has fetched all that the set holds
	}
	if w.Suspect && (t.Regressed > 0 || t.Unexplained > 0) || s.State.Doubted && t.Regressed > 0 {
		how := fmt.Sprintf("its history was rewritten, and %s older there than here", number(t.Regressed))
		if t.Regressed == 0 {
			how = fmt.Sprintf("its history was rewritten, and %s gone without a recorded deletion", number(t.Unexplained))
		}
		return WentBack(s.State.Name, how)
	}
	if s.State.Unselected {
		t.Unselected = t.Deleted
	}
	deleted, total := t.Deleted-t.Replaced, s.Run.Counts[s.State.Number]
	empties := deleted >= total
	if p := s.Push; p != nil && t.Deleted > 0 && !(s.Compared && w.Complete) && !s.State.Unselected {
		// Earlier deletions count as well: otherwise a Source could empty the mirror
		// in small portions, even with a pull between any two of them.
		deleted, total = p.AddLoss(deleted, total, temporary)
	}
	return s.Run.guard(s.State.Name, deleted, total, t.Unselected, empties)
}

// checkSelection returns a [report.SelectionError] if a selection that matches nothing of what
// the set lists would empty it, whatever was agreed to: patterns that match nothing in any set
// are most likely mistyped.
func (s *Set) checkSelection(ctx context.Context, t *planner.Tally) error {
	st, r := s.State, s.Run
	if !st.Planned || st.Matched > 0 || st.Listed == 0 || t.Unselected == 0 || st.Unselected || r.Past || !r.Selects.Restricts() {
		return nil
	}
	var m saved.Mirror
	if _, err := saved.Load(ctx, r.Mirror.Journal, saved.DocMirror, &m); err != nil {
		return err
	}
	for _, n := range m.Numbers {
		var other saved.Set
		if _, err := saved.Load(ctx, r.Mirror.Journal, saved.DocSet(n), &other); err != nil {
			return err
		}
		if n != st.Number && other.Selection == r.Selects.Key && other.Matched > 0 {
			return nil
		}
	}
	return &report.SelectionError{Listed: st.Listed}
}

// guard refuses to delete more than was agreed to (RS-DST-04): deleted out of
// the total that a set holds, some of them for being no longer selected; and to
// empty a set, however small.
func (c *Settings) guard(set string, deleted, total, unselected int64, empties bool) error {
	if deleted <= 0 || c.MaxDelete >= 100 {
		return nil
	}
	if !empties && (deleted <= freeDeletes || deleted*100 <= total*int64(c.MaxDelete)) {
		return nil
	}
	percent := int64(100)
	if total > 0 {
		percent = (deleted*100 + total - 1) / total
	}
	why := ""
	consent := fmt.Sprintf("--max-delete %d", min(max(percent, 1), 100))
	hint := "if that is right, run again with " + consent
	if unselected > 0 {
		why = fmt.Sprintf("; of these %d because the selection shrank", unselected)
		hint += "; to keep what is not selected any more, with --delete keep"
	}
	return &report.RefusedError{
		Reason: fmt.Sprintf("set %s: would delete %d%% of the mirror (%d of %d resources%s)", set, percent, deleted, total, why),
		Hint:   hint, Consent: consent,
	}
}

// number returns a number of resources and the verb.
func number(n int64) string {
	if n == 1 {
		return "1 resource is"
	}
	return wording.Plural(n, "resource") + " are"
}

// WentBack returns the error for a set whose Source returned to an earlier state.
func WentBack(set, how string) error {
	return &report.RefusedError{
		Reason: fmt.Sprintf("set %s: the Source went back in time: %s; the newer copies were kept", set, how),
		Hint:   "if the mirror is to go back too, run sync with --baseline", Consent: "--baseline",
	}
}
