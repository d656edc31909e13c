package destination

import (
	"errors"

	"lockstep/destination/internal/apply"
)

// noteMoved notes what an applier found of addresses that have other versions, or
// fail.
func (r *setRun) noteMoved(a *apply.Applier) {
	r.movedOn.Merge(&a.Recorder.Moved)
	if a.Fetch.Failing.Load() {
		r.outages.MayReplace(FallbackLoc, errAddresses)
	}
}

var errAddresses = errors.New("addresses of resources fail")

// reportMoved reports the resources that came from mementos.
func (r *setRun) reportMoved() {
	if m := &r.movedOn; m.Count > 0 {
		r.fallBack(Fallback{Missing: FallbackLoc, URI: m.First, Cause: m.Cause.Error(), Used: FallbackMemento, Count: m.Count,
			Unproven: "they are as the Source describes them, and may have changed since"})
	}
}
