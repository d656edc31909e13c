package destination

import (
	"errors"

	"lockstep/destination/internal/transfer"
)

// movedOn counts resources whose content came from a memento.
type movedOn struct {
	count int64
	first string // URI of one
	cause error  // why its address was of no use
}

func (m *movedOn) add(o *transfer.Outcome) {
	if o.AddressErr == nil {
		return
	}
	if m.count++; m.count == 1 {
		m.first, m.cause = o.Action.URI, o.AddressErr
	}
}

func (m *movedOn) merge(o *movedOn) {
	if m.count += o.count; m.cause == nil {
		m.first, m.cause = o.first, o.cause
	}
}

// noteMoved notes what an applier found of addresses that have other versions, or
// fail.
func (r *setRun) noteMoved(a *applier) {
	r.movedOn.merge(&a.moved)
	if a.fetch.Failing.Load() {
		mayReplace(r.outages, FallbackLoc, errAddresses)
	}
}

var errAddresses = errors.New("addresses of resources fail")

// reportMoved reports the resources that came from mementos.
func (r *setRun) reportMoved() {
	if m := &r.movedOn; m.count > 0 {
		r.fallBack(Fallback{Missing: FallbackLoc, URI: m.first, Cause: m.cause.Error(), Used: FallbackMemento, Count: m.count,
			Unproven: "they are as the Source describes them, and may have changed since"})
	}
}
