package destination

import (
	"fmt"

	"lockstep/destination/internal/planner"
	"lockstep/destination/internal/wording"
)

// A SelectionError reports a selection that matches nothing of what the Source
// lists. It is an [ErrIncomplete]: nothing was deleted for it.
type SelectionError struct {
	Listed int64 // resources that the Source lists
}

func (e *SelectionError) Error() string {
	return fmt.Sprintf("0 of %s selected: --include, --exclude and --type match none of the resources that the Source lists", wording.Grouped(e.Listed))
}

// Is makes a SelectionError an [ErrIncomplete].
func (e *SelectionError) Is(target error) bool { return target == ErrIncomplete }

// nothingSelected returns a [SelectionError] if the sets list resources, and the
// selection matches none of them. A set that was not compared in this run counts
// as it was when it was.
func (s *session) nothingSelected(sets []*setState) error {
	if s.past != nil || !s.d.selects.Restricts() {
		return nil
	}
	var listed int64
	for _, set := range sets {
		if set.Unselected {
			continue
		}
		if set.Matched > 0 || !set.Planned && s.counts[set.Number] > 0 {
			return nil
		}
		listed += set.Listed
	}
	if listed == 0 {
		return nil
	}
	return &SelectionError{Listed: listed}
}

// noteSelection notes how much of what a set lists is selected.
func (st *setState) noteSelection(t *planner.Tally) {
	st.Planned, st.Matched = true, t.Created+t.Updated+t.Unchanged+t.Touched+t.Refused
	st.Listed = st.Matched + t.Passed + t.Unselected
}
