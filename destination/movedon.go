package destination

import "lockstep/destination/internal/reconcile"

// reportMoved reports the resources that came from mementos.
func (r *setRun) reportMoved() {
	if m := &r.movedOn; m.Count > 0 {
		r.docs.Replace(reconcile.FallbackFor(m))
	}
}
