package apply

import (
	"errors"

	"lockstep/destination/internal/transfer"
)

// doubts are contents by URI whose commit has failed, and may have taken effect all the same: the answer
// of the store was lost, or another process has ended that was to commit it. Each intent names
// them, until they are fetched again, or the mirror has a row without hashes for the file.
type doubts map[string]*ending

// note notes how the commit of a content has ended. One that has a place was fetched again because it
// was in doubt, and still is, also if this time its commit was not tried.
func (d *doubts) note(e *ending) {
	tried := !e.together
	if e.err == nil || e.Action.Place == "" && !(tried && (errors.Is(e.err, transfer.ErrGone) || isDown(e.err))) {
		return
	}
	if *d == nil {
		*d = doubts{}
	}
	(*d)[e.Held.URI] = e
}
