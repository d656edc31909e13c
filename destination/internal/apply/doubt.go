package apply

import (
	"context"
	"errors"

	"lockstep/blob"
	"lockstep/destination/internal/transfer"
	"lockstep/destination/journal"
)

// doubts are contents by URI whose commit has failed, and may have taken effect all the same: the answer
// of the store was lost, or another process has ended that was to commit it. Each intent names
// them, until they are fetched again, or the mirror has a row without hashes for the file.
type doubts map[string]transfer.Outcome

// note notes how the commit of a content has ended.
func (d *doubts) note(e *ending) {
	switch {
	case e.err == nil:
		delete(*d, e.Held.URI)
	case !e.together && (errors.Is(e.err, transfer.ErrGone) || isDown(e.err)): // together: it was not tried
		if *d == nil {
			*d = doubts{}
		}
		(*d)[e.Held.URI] = e.Outcome
	}
}

// without returns the rows of doubts, except those of a batch.
func (d doubts) without(batch []transfer.Outcome) (rows []journal.Held) {
	if len(d) == 0 {
		return nil
	}
	again := map[string]bool{}
	for i := range batch {
		again[batch[i].Held.URI] = true
	}
	for uri, o := range d {
		if !again[uri] {
			rows = append(rows, o.Held)
		}
	}
	return rows
}

// settleDoubts records that files belong to the mirror that were not fetched again: their
// content is unknown. See intent.Mirror.Settle, which does that after a kill.
func (p *Applier) settleDoubts(ctx context.Context) error {
	if len(p.doubts) == 0 {
		return nil
	}
	if err := p.record(ctx, true); err != nil { // it may have other rows for them
		return err
	}
	for _, o := range p.doubts {
		h := o.Held
		if before := &o.Action.Held; o.Action.IsHeld() && before.Path == h.Path {
			h = *before
		} else if _, err := p.mirror.Store.Stat(ctx, h.Path); errors.Is(err, blob.ErrNotExist) && !IsForgetful(p.mirror.Store) {
			continue
		}
		h.Hashes, h.ETag, h.Modified = nil, "", ""
		p.Recorder.doubted(o.Action, &h)
	}
	p.doubts, p.intent = nil, true
	return p.record(ctx, false)
}
