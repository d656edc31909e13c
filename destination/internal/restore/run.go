package restore

import (
	"context"
	"fmt"
	"time"

	"lockstep/destination/internal/counting"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/wording"
	"lockstep/destination/journal"
	"lockstep/destination/report"
	"lockstep/discover"
)

// A Run brings a set to its state at an instant.
type Run struct {
	At        time.Time
	Set       *saved.Set
	Reader    *entries.Reader
	Offline   bool            // the history is used alone, without requests to the Source
	History   journal.Journal // of the mirror whose history is used
	Selection string          // the rules that select resources
	DryRun    bool            // nothing is applied
	Report    *counting.Report

	// Apply applies the state that is staged, and then calls done. It reports whether
	// contents that were unavailable may be in packages that were not searched.
	Apply func(ctx context.Context, st *State, done func()) (again bool, err error)
}

// Run finds the state at the instant in what the Source has kept of its past, or else
// in the history of the mirror, and applies it (RA-DST-02). If the state is unknown, it
// returns a [report.NoPastError].
func (r *Run) Run(ctx context.Context) error {
	st, err := r.find(ctx)
	if err != nil {
		return err
	}
	done := func() {
		r.Set.RestoreTo(st.Watermark, saved.Time(st.At))
		// A mirror may have lacked then, up to its watermark, what had failed or was not selected.
		r.Set.Complete, r.Set.Selection = !st.Watermark.IsZero() && st.Via != report.ViaHistory, r.Selection
	}
	again, err := r.Apply(ctx, st, done)
	if again && err == nil && !st.Hinted && !r.DryRun {
		unchanged := r.Report.Unchanged // resources that are looked at twice are counted once
		st.Insist = true
		_, err = r.Apply(ctx, st, done)
		r.Report.Unchanged = unchanged
	}
	if err == nil {
		r.Set.AsOf = st.AsOf.UTC()
	}
	return err
}

// find stages the state.
func (r *Run) find(ctx context.Context) (st *State, err error) {
	none := &report.NoPastError{Set: r.Set.Name, At: r.At}
	number := r.Set.SourceNumber
	if !r.Offline {
		number = r.Set.Number
		if st, err = fromSource(ctx, r.Reader, r.At, none); err != nil || st != nil && st.Inexact == "" {
			return st, err
		}
	}
	own, err := fromMirror(ctx, r.Reader.Stage, r.History, number, r.At, none)
	switch {
	case err != nil:
		return nil, err
	case own != nil:
		if st != nil {
			r.Reader.Warn(r.Set.URI, fmt.Sprintf("set %s: the Source does not know its state then: %s; this is the state of the mirror", r.Set.Name, st.Inexact))
		}
		return own, nil
	case st == nil:
		return nil, none
	}
	r.Reader.Fail(r.Set.URI, fmt.Errorf("set %s: its state at %s is not known: %s; it is as of %s", r.Set.Name, wording.Time(r.At), st.Inexact, wording.Time(st.AsOf)))
	return st, nil
}

// maxAhead is how far the clock of a Source may be ahead of ours, if its present state
// is requested.
const maxAhead = time.Minute

// Exactly stages the state of a set at exactly an instant; zero means now, and the
// present state by the Source's documents.
func Exactly(ctx context.Context, r *entries.Reader, at time.Time, warn func(uri, text string)) (*State, error) {
	now := at.IsZero()
	if now {
		at = time.Now().Add(maxAhead)
	}
	none := &report.NoPastError{Set: r.Set.Name, At: at}
	st, err := fromSource(ctx, r, at, none)
	switch {
	case err != nil:
		return nil, err
	case st == nil:
		return nil, none
	case st.Inexact != "" && now:
		warn(r.Set.URI, fmt.Sprintf("set %s: its present state is known as of %s", r.Set.Name, wording.Time(st.AsOf)))
	case st.Inexact != "":
		none.Earliest, none.Err = st.AsOf, fmt.Errorf("%s; it is known for %s", st.Inexact, wording.Time(st.AsOf))
		return nil, none
	}
	return st, nil
}

// SetsOf returns the sets of a mirror, whose Journal is j, as a Source would offer
// them. It returns nil if the Journal has none.
func SetsOf(ctx context.Context, j journal.Journal) (*discover.Found, saved.Mirror, error) {
	var m saved.Mirror
	if known, err := saved.Load(ctx, j, saved.DocMirror, &m); err != nil || !known || len(m.Numbers) == 0 {
		return nil, m, err
	}
	found := &discover.Found{}
	for uri, n := range m.Numbers {
		var st saved.Set
		if _, err := saved.Load(ctx, j, saved.DocSet(n), &st); err != nil {
			return nil, m, err
		}
		found.Sets = append(found.Sets, discover.Set{CapabilityList: uri, Name: st.Name})
	}
	return found, m, nil
}
