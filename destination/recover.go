package destination

import (
	"context"

	"lockstep/blob"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/failure"
	"lockstep/destination/internal/intent"
	"lockstep/destination/internal/places"
	"lockstep/destination/internal/rows"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// killedRun describes the mirror of a run that may have been killed.
func killedRun(d *Destination) intent.Mirror {
	return intent.Mirror{Journal: d.journal, Files: d.store, Forgetful: d.isForgetful(), In: d.inDest()}
}

// rowsOf returns what records rows and reports changes in a session.
func rowsOf(s *session) rows.Recorder {
	return rows.Recorder{Journal: s.d.journal, Keep: s.keep, Out: s.out, Emit: s.d.emit}
}

// moveHome moves files with marked names to places that have become free.
func moveHome(ctx context.Context, s *session) error {
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
	out := rowsOf(s)
	m := places.Mover{Journal: s.d.journal, Files: store, Paths: paths, In: s.d.inDest(), Begin: s.begin, Warn: s.warn,
		Record: func(ctx context.Context, b journal.Batch) error {
			return out.Record(ctx, b, "record which files moved", func() { s.report.Moved += int64(len(b.Put)) })
		},
		Stops: func(err error) bool { return failure.IsFatal(&content.LocalError{Err: err}) },
		Moved: func(h *journal.Held) { out.Report(resourcesync.Updated, h) }}
	return m.MoveHome(ctx, &s.placed, s.report.Deleted > 0)
}
