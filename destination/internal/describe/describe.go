// Package describe completes the rows of a set that an earlier version of the program
// recorded: it adds the media type and links that the Source's documents state.
package describe

import (
	"context"
	"fmt"
	"time"

	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/planner"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/stage"
	"lockstep/destination/journal"
)

const (
	// maxTries is the number of runs that read the documents, or left it to the next.
	// After that, the next comparison of everything completes the rows: a list of
	// which one part is always broken must not be read in every run.
	maxTries = 4

	// batchRows is the number of rows that one transaction completes.
	batchRows = 1000
)

// A Completion completes the rows of a set. It requests no content, and changes
// nothing but what rows say of the Source's statements.
type Completion struct {
	Journal journal.Journal
	Set     *saved.Set
	Stage   *stage.Stage     // empty
	Planner *planner.Planner // of Stage
	Busy    bool             // the run had changes to apply

	Read func(context.Context) (complete bool, err error) // stages what the Source states
}

// IsDue reports whether rows of a set may be incomplete, and its list or Origin can
// complete them: no comparison of everything has ended since the program keeps
// descriptions.
func IsDue(st *saved.Set) bool {
	return st.Complete && !st.Described && (st.Lists != "" || st.Foreign != nil)
}

// Run completes the rows whose content the documents may describe, and returns how
// many. The first run, if it had changes to apply, leaves it to the second: a mirror
// continues after an upgrade as it would have without.
func (c *Completion) Run(ctx context.Context) (rows int64, err error) {
	if c.Busy && c.Set.DescribeTries == 0 {
		return 0, c.note(ctx, false)
	}
	complete, err := c.Read(ctx)
	if err != nil {
		return 0, err
	}
	if rows, err = c.complete(ctx); err != nil {
		return rows, err
	}
	return rows, c.note(ctx, complete)
}

// ReadDocuments stages the list of a set and the changes since then, as far as they
// can be read.
func ReadDocuments(ctx context.Context, st *saved.Set, r *entries.Reader) (complete bool, err error) {
	snap, err := r.ReadList(ctx, st.Lists)
	if err != nil || st.Changes == "" {
		return snap.Complete, err
	}
	fresh := *st
	fresh.Cursor, fresh.Seen, fresh.SeenTime, fresh.History = saved.Cursor{}, nil, time.Time{}, time.Time{}
	changes, err := r.ReadChanges(ctx, snap.At, &fresh, false)
	return snap.Complete && changes.Complete, err
}

// complete adds what is staged to the rows that say nothing.
func (c *Completion) complete(ctx context.Context) (rows int64, err error) {
	var b journal.Batch
	record := func() error {
		if len(b.Put) == 0 {
			return nil
		}
		if err := c.Journal.Record(ctx, b); err != nil {
			return fmt.Errorf("record what the Source states: %w", err)
		}
		rows += int64(len(b.Put))
		b.Put = nil
		return nil
	}
	for a, err := range c.Planner.Actions(ctx, c.Stage) {
		if err != nil {
			return rows, err
		}
		if !describes(&a) {
			continue
		}
		h := a.Held
		plan.Describe(&h, &a, c.Set.Number)
		if b.Put = append(b.Put, h); len(b.Put) < batchRows {
			continue
		}
		if err := record(); err != nil {
			return rows, err
		}
	}
	return rows, record()
}

// describes reports whether a describes the content of a row that says nothing of it.
// What is known to differ is left to the run that fetches it.
func describes(a *plan.Action) bool {
	if !a.IsHeld() || a.Held.Stated != nil || a.Undescribed {
		return false
	}
	return a.Verb == plan.InStep || a.Verb == plan.Touch || a.Verb == plan.Fetch && a.Conditional
}

// note records that the set is complete, or that one more run has tried. Only that
// changes in the saved state of the set.
func (c *Completion) note(ctx context.Context, complete bool) error {
	return saved.UpdateSet(ctx, c.Journal, c.Set.Number, func(st *saved.Set) {
		st.DescribeTries++
		st.Described = complete || st.DescribeTries >= maxTries
		c.Set.Described, c.Set.DescribeTries = st.Described, st.DescribeTries
	})
}
