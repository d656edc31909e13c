package apply

import "lockstep/destination/internal/transfer"

// MovedOn counts resources whose content came from a memento.
type MovedOn struct {
	Count int64
	First string // URI of one
	Cause error  // why its own address failed
}

// add counts the outcome of an action.
func (m *MovedOn) add(o *transfer.Outcome) {
	if o.AddressErr == nil {
		return
	}
	if m.Count++; m.Count == 1 {
		m.First, m.Cause = o.Action.URI, o.AddressErr
	}
}

// Merge adds what another set of actions found.
func (m *MovedOn) Merge(o *MovedOn) {
	if m.Count += o.Count; m.Cause == nil {
		m.First, m.Cause = o.First, o.Cause
	}
}
