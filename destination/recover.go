package destination

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"lockstep/blob"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/intent"
	"lockstep/destination/internal/places"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/destination/report"
	"lockstep/resourcesync"
)

// recoverIntent repairs the inconsistency between the files and the Journal that a
// killed run left: its last batch may have been committed in part.
func (s *session) recoverIntent(ctx context.Context) error {
	m := killedRun(s.d)
	rows, before, found, err := m.Settle(ctx)
	if err != nil || !found {
		return err
	}
	noted, err := s.out.Noted(ctx)
	if err != nil {
		return err
	}
	for i := range rows {
		s.recovered(noted, &rows[i], &before[i])
		for _, set := range rows[i].Sets {
			if !plan.HasSet(before[i].Sets, set) {
				s.counts[set]++
			}
		}
	}
	b := journal.Batch{Put: rows, Save: map[string][]byte{saved.DocIntent: nil}}
	s.out.ForgetNoted(b.Save)
	return s.recordRecovered(ctx, b, "settle intent")
}

// killedRun describes the mirror of a run that may have been killed.
func killedRun(d *Destination) *intent.Mirror {
	return &intent.Mirror{Journal: d.journal, Files: d.store, Forgetful: d.isForgetful(), In: d.inDest()}
}

// recoverPlaces finishes the change of places that a run was killed in.
func (s *session) recoverPlaces(ctx context.Context) error {
	m := places.Mirror{Journal: s.d.journal, Files: s.d.store, Counts: s.counts, In: s.d.inDest(), Applied: s.reportRow,
		Stops: func(err error) bool { return isFatal(err) || isFull(err) || errors.Is(err, blob.ErrUnavailable) }}
	b, found, err := m.Settle(ctx)
	if err != nil || !found {
		return err
	}
	return s.recordRecovered(ctx, b, "settle a change of places")
}

// recordRecovered records the result of a recovery, with the changes that have to
// be delivered.
func (s *session) recordRecovered(ctx context.Context, b journal.Batch, what string) error {
	b.Save[saved.DocCounts] = saved.Encode(s.counts)
	left := s.out.Take()
	s.out.Save(b.Save, left)
	if err := s.d.journal.Record(ctx, b); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	s.out.Keep(left)
	return nil
}

// recovered reports a change that a killed run applied and did not report: row
// replaced before. A row in doubt is no change yet.
func (s *session) recovered(noted []Change, row, before *journal.Held) {
	if len(row.Hashes) == 0 {
		return
	}
	if i := slices.IndexFunc(noted, func(c Change) bool { return c.URI == row.URI }); i >= 0 {
		s.out.AddNoted(noted[i]) // even if this run has no consumer
		s.d.emit(report.AppliedEvent(&noted[i]))
		return
	}
	kind := resourcesync.Created
	if before.URI != "" {
		kind = resourcesync.Updated
	}
	s.reportRow(kind, row)
}

// reportRow reports a change of a resource whose row is now h.
func (s *session) reportRow(kind resourcesync.Change, h *journal.Held) {
	c := Change{URI: h.URI, Kind: kind, Path: h.Path, Length: h.Length, Hashes: h.Hashes, Lastmod: h.Lastmod}
	s.out.Add(c)
	s.d.emit(report.AppliedEvent(&c))
}

// moveHome moves files with marked names to places that have become free.
func (s *session) moveHome(ctx context.Context) error {
	store, ok := s.d.store.(interface {
		blob.Store
		blob.Mover
	})
	if !ok || s.d.opts.DryRun || s.mirror.Origin == "" {
		return nil
	}
	paths, err := s.paths()
	if err != nil {
		return err
	}
	m := places.Mover{Journal: s.d.journal, Files: store, Paths: paths, In: s.d.inDest(), Begin: s.begin, Warn: s.warn,
		Record: func(ctx context.Context, b journal.Batch) error {
			return s.recordRows(ctx, b, "record which files moved", func() { s.report.Moved += int64(len(b.Put)) })
		},
		Stops: func(err error) bool { return isFatal(&content.LocalError{Err: err}) },
		Moved: func(h *journal.Held) { s.reportRow(resourcesync.Updated, h) }}
	return m.MoveHome(ctx, &s.placed, s.report.Deleted > 0)
}

// recordRows records rows with their past and the changes that have to be delivered;
// recorded is called before these are delivered.
func (s *session) recordRows(ctx context.Context, b journal.Batch, what string, recorded func()) error {
	if err := s.keep.AddPast(ctx, &b); err != nil {
		return err
	}
	changes := s.out.Take()
	s.out.Save(b.Save, changes)
	if err := s.keep.Record(ctx, s.d.journal, b); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	recorded()
	return s.out.Saved(ctx, changes)
}
