package destination

import (
	"context"
	"errors"
	"fmt"

	"lockstep/blob"
	"lockstep/destination/internal/planner"
	"lockstep/destination/journal"
)

// newPlanner returns a planner for a set of the mirror.
func newPlanner(d *Destination, set int) *planner.Planner {
	return &planner.Planner{Journal: d.journal, Selects: d.selects, OnDisk: d.onDisk, Set: set}
}

// onDisk reports whether the file of h exists, with the recorded length.
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
