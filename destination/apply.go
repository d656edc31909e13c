package destination

import (
	"lockstep/destination/internal/apply"
	"lockstep/destination/internal/history"
	"lockstep/destination/internal/outbox"
)

// applyMirror is the mirror that an Applier changes.
func (d *Destination) applyMirror(keep *history.Keeper, out *outbox.Box[Change]) apply.Mirror {
	return apply.Mirror{Store: d.store, Journal: d.journal, Keep: keep, Out: out, In: d.inDest(), Jobs: d.jobs, Open: d.open}
}

// inDest names the mirror in the middle of a sentence.
func (d *Destination) inDest() string {
	if d.opts.Dest == "" {
		return ""
	}
	return " in " + d.opts.Dest
}
