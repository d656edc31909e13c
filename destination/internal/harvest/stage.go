package harvest

import (
	"context"
	"iter"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/representation"
	"lockstep/destination/internal/stage"
	"lockstep/resourcesync"
)

// stageAll stages the entries that an Origin yields. The first done of them were
// applied earlier in this run, or by one that was interrupted.
func stageAll(ctx context.Context, to *stage.Stage, c *representation.Chooser, from iter.Seq2[resourcesync.Entry, error], class desired.Class, done int64) error {
	n := to.AddDocument()
	to.Documents[n].Dated, to.Documents[n].Rising = true, true
	pos := int64(0)
	for e, err := range from {
		if err != nil {
			return err
		}
		at := desired.Rank{Class: class, Doc: n, Pos: pos, Event: e.Datetime}
		if err := stageEntry(ctx, to, c, &e, at, pos < done); err != nil {
			return err
		}
		if pos++; pos%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// stageEntry stages the desired state of a resource and, if the entry is a change, of
// the other representations of its record.
func stageEntry(ctx context.Context, to *stage.Stage, c *representation.Chooser, e *resourcesync.Entry, at desired.Rank, applied bool) error {
	add := func(w desired.Resource, err error) error {
		if err != nil {
			return err
		}
		w.Rank, w.Applied = at, applied
		return to.Add(ctx, w)
	}
	switch {
	case e.Change == resourcesync.Deleted:
		return add(c.Reader.Resource(e), nil)
	case at.Class == desired.Listed:
		return add(c.Settle(ctx, e, true))
	}
	if err := add(c.Settle(ctx, e, false)); err != nil || entries.CanonicalOf(e) == "" && !representation.HasAlternates(e) {
		return err
	}
	others, err := c.Relatives(ctx, e)
	if err != nil {
		return err
	}
	for i := range others {
		others[i].Change = resourcesync.Updated
		if err := add(c.Settle(ctx, &others[i], true)); err != nil {
			return err
		}
	}
	return nil
}

// deletions yields the changes that are deletions. A resource that exists again is
// among the current entries.
func deletions(changes iter.Seq2[resourcesync.Entry, error]) iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		for e, err := range changes {
			if (err != nil || e.Change == resourcesync.Deleted) && !yield(e, err) {
				return
			}
		}
	}
}
