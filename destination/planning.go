package destination

import (
	"context"
	"errors"
	"fmt"

	"lockstep/blob"
	"lockstep/destination/internal/planner"
	"lockstep/destination/internal/restore"
	"lockstep/destination/journal"
)

// freeDeletes is how many resources a run may delete whatever their share:
// a set of ten that loses six is no accident worth stopping for.
const freeDeletes = 5

// newPlanner returns a planner for a set of the mirror.
func newPlanner(d *Destination, set int) *planner.Planner {
	return &planner.Planner{Journal: d.journal, Selects: d.selects, OnDisk: d.onDisk, Set: set}
}

// pastOf returns what a planner needs to know of a past state.
func pastOf(st *restore.State) *planner.Past {
	if st == nil {
		return nil
	}
	return &planner.Past{AsOf: st.AsOf, During: st.During}
}

// guard refuses to delete more than was agreed to (RS-DST-04): deleted out of
// the total that a set holds, some of them for being no longer selected; and to
// empty a set, however small.
func (d *Destination) guard(set string, deleted, total, unselected int64, empties bool) error {
	if deleted <= 0 || d.opts.MaxDelete >= 100 {
		return nil
	}
	if !empties && (deleted <= freeDeletes || deleted*100 <= total*int64(d.opts.MaxDelete)) {
		return nil
	}
	percent := int64(100)
	if total > 0 {
		percent = (deleted*100 + total - 1) / total
	}
	why := ""
	hint := fmt.Sprintf("if that is right, run again with --max-delete %d", min(max(percent, 1), 100))
	if unselected > 0 {
		why = fmt.Sprintf("; of these %d because the selection shrank", unselected)
		hint += "; to keep what is not selected any more, with --delete keep"
	}
	return &RefusedError{
		Reason: fmt.Sprintf("set %s: would delete %d%% of the mirror (%d of %d resources%s)", set, percent, deleted, total, why),
		Hint:   hint,
	}
}

// OnDisk reports whether the file of h exists, with the recorded length.
// Anything else at its path is not our file.
func (d *Destination) onDisk(ctx context.Context, h *journal.Held) (bool, error) {
	if d.isForgetful() {
		return true, nil // where it went is not ours to look
	}
	info, err := d.store.Stat(ctx, h.Path)
	switch {
	case err == nil:
		return info.Size == h.Length, nil
	case ctx.Err() != nil:
		return false, err
	case errors.Is(err, blob.ErrUnavailable): // it says nothing about the file
		return false, fmt.Errorf("look at what is held%s: %w", d.inDest(), err)
	}
	return false, nil // fetching it again reports the error
}
