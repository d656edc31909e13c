package destination

import (
	"lockstep/destination/internal/apply"
	"lockstep/destination/internal/planner"
)

// newPlanner returns a planner for a set of the mirror.
func newPlanner(d *Destination, set int) *planner.Planner {
	return &planner.Planner{Journal: d.journal, Selects: d.selects, OnDisk: apply.OnDisk(d.store, d.inDest()), Set: set}
}
