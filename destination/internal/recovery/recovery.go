// Package recovery repairs the inconsistencies between the files of a mirror and its
// Journal that a killed run left.
package recovery

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"lockstep/blob"
	"lockstep/destination/filename"
	"lockstep/destination/internal/failure"
	"lockstep/destination/internal/intent"
	"lockstep/destination/internal/places"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/rows"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/destination/report"
	"lockstep/resourcesync"
)

// A Mirror is a mirror whose last run may have been killed.
type Mirror struct {
	Intent intent.Mirror
	Counts saved.Counts  // resources of each set; Recover changes them
	Rows   rows.Recorder // reports the changes that were applied and not reported
}

// Recover finishes the exchange of files in which the run was killed, and then
// settles which part of its last batch was committed. Changes that were applied but
// not yet reported are reported, and remain to be delivered.
func (m *Mirror) Recover(ctx context.Context) error {
	if err := m.finishMoves(ctx); err != nil {
		return err
	}
	return m.settleIntent(ctx)
}

// finishMoves finishes the exchange of files.
func (m *Mirror) finishMoves(ctx context.Context) error {
	p := places.Mirror{Journal: m.Intent.Journal, Files: m.Intent.Files, Counts: m.Counts, In: m.Intent.In, Applied: m.Rows.Report,
		Stops: func(err error) bool {
			return failure.IsFatal(err) || failure.IsFull(err) || errors.Is(err, blob.ErrUnavailable)
		}}
	b, found, err := p.Settle(ctx)
	if err != nil || !found {
		return err
	}
	return m.record(ctx, b, "settle a change of places")
}

// settleIntent records which part of the last batch was committed.
func (m *Mirror) settleIntent(ctx context.Context) error {
	held, before, found, err := m.Intent.Settle(ctx)
	if err != nil || !found {
		return err
	}
	noted, err := m.Rows.Out.Noted(ctx)
	if err != nil {
		return err
	}
	for i := range held {
		m.report(noted, &held[i], &before[i])
		for _, set := range held[i].Sets {
			if !plan.HasSet(before[i].Sets, set) {
				m.Counts[set]++
			}
		}
	}
	b := journal.Batch{Put: held, Save: map[string][]byte{saved.DocIntent: nil}}
	m.Rows.Out.ForgetNoted(b.Save)
	return m.record(ctx, b, "settle intent")
}

// record records the result of a recovery, with the changes that have to be delivered.
func (m *Mirror) record(ctx context.Context, b journal.Batch, what string) error {
	b.Save[saved.DocCounts] = saved.Encode(m.Counts)
	left := m.Rows.Out.Take()
	m.Rows.Out.Save(b.Save, left)
	err := m.Rows.Journal.Record(ctx, b)
	if failure.IsFull(err) {
		DropUnfinished(ctx, m.Intent.Files)
		err = m.Rows.Journal.Record(ctx, b)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	m.Rows.Out.Keep(left)
	return nil
}

// report reports a change that was applied and not reported: row replaced before. A
// row without hashes is in doubt, and no change yet.
func (m *Mirror) report(noted []report.Change, row, before *journal.Held) {
	if len(row.Hashes) == 0 {
		return
	}
	if i := slices.IndexFunc(noted, func(c report.Change) bool { return c.URI == row.URI }); i >= 0 {
		m.Rows.Out.AddNoted(noted[i]) // even if this run has no consumer
		m.Rows.Emit(report.AppliedEvent(&noted[i]))
		return
	}
	kind := resourcesync.Created
	if before.URI != "" {
		kind = resourcesync.Updated
	}
	m.Rows.Report(kind, row)
}

// DropUnfinished removes the unfinished downloads that no transfer of this run uses: those that ended when the disk was
// full may have taken the last of the room.
func DropUnfinished(ctx context.Context, store blob.Store) {
	if s, ok := store.(blob.Sweeper); ok {
		_, _ = s.Sweep(ctx, func(func(string) bool) {}) // what is left is reported by what finds no room
	}
}

// Sweep removes unfinished downloads, except those of resources that are pending in
// the numbered sets.
func Sweep(ctx context.Context, j journal.Journal, sweeper blob.Sweeper, paths *filename.Mapping, sets iter.Seq[int]) error {
	var failed error
	_, err := sweeper.Sweep(ctx, func(yield func(string) bool) {
		for n := range sets {
			for o, err := range j.Owed(ctx, n) {
				if err != nil {
					failed = err
					return
				}
				if path, err := paths.Path(o.URI); err == nil && !yield(path) {
					return
				}
			}
		}
	})
	return errors.Join(failed, err)
}
