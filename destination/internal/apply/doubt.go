package apply

import (
	"context"
	"errors"
	"iter"

	"lockstep/blob"
	"lockstep/destination/internal/plan"
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

// settle yields the rows without hashes of files that belong to the mirror, with the actions that were to
// bring their content. See intent.Mirror.Settle, which does that after a kill.
func (d doubts) settle(ctx context.Context, store blob.Store) iter.Seq2[*plan.Action, journal.Held] {
	return func(yield func(*plan.Action, journal.Held) bool) {
		for _, o := range d {
			h := o.Held
			if before := &o.Action.Held; o.Action.IsHeld() && before.Path == h.Path {
				h = *before
			} else if _, err := store.Stat(ctx, h.Path); errors.Is(err, blob.ErrNotExist) && !IsForgetful(store) {
				continue
			}
			h.Hashes, h.ETag, h.Modified = nil, "", ""
			if !yield(o.Action, h) {
				return
			}
		}
	}
}
