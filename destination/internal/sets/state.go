package sets

import (
	"context"
	"time"

	"lockstep/destination/internal/push"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/destination/report"
)

// A State is the state of one set in a run.
type State struct {
	saved.Set
	Push *push.State `json:"-"` // what notifications brought; nil: not loaded
}

// SyncedUntil returns the instant up to which all changes are applied, according to
// the Source's documents or notifications.
func (st *State) SyncedUntil() time.Time {
	if st.Push == nil || st.Watermark.IsZero() {
		return st.Watermark
	}
	return saved.Latest(st.Watermark, st.Push.Until)
}

// load reads the saved state of the set with a number, without its push state.
func load(ctx context.Context, j journal.Journal, uri string, n int) (*State, error) {
	st := &State{}
	if _, err := saved.Load(ctx, j, saved.DocSet(n), st); err != nil {
		return nil, err
	}
	st.URI, st.Number = uri, n
	return st, nil
}

// NothingSelected returns a [report.SelectionError] if the sets list resources, and the
// selection matches none of them. A set that was not compared in this run counts as it
// was when it was compared last.
func NothingSelected(sets []*State, held saved.Counts) error {
	var listed int64
	for _, set := range sets {
		if set.Unselected {
			continue
		}
		if set.Matched > 0 || !set.Planned && held[set.Number] > 0 {
			return nil
		}
		listed += set.Listed
	}
	if listed == 0 {
		return nil
	}
	return &report.SelectionError{Listed: listed}
}
