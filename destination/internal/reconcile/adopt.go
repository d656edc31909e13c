package reconcile

import (
	"context"

	"lockstep/destination/filename"
	"lockstep/destination/internal/adopt"
	"lockstep/destination/internal/failure"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/planner"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/destination/report"
)

// adopt makes the files that match resources which p would fetch part of the mirror.
func (s *Set) adopt(ctx context.Context, p *planner.Planner, paths *filename.Mapping) (adopt.Adopted, error) {
	r := s.Run
	if !r.DryRun {
		if err := r.Begin(ctx); err != nil {
			return adopt.Adopted{}, err
		}
	}
	by := &r.Report.By
	m := adopt.Mirror{Files: r.Mirror.Store, Journal: r.Mirror.Journal, Paths: paths, Counts: r.Counts, Set: s.State.Number, In: r.Mirror.In,
		Any: r.Adopt, Replace: r.Replace, Restored: s.State.Restored, DryRun: r.DryRun, All: r.VerifyAll, Stops: failure.IsFatal,
		Record: func(ctx context.Context, rows []journal.Held) error {
			b := journal.Batch{Put: rows, Save: map[string][]byte{saved.DocCounts: saved.Encode(r.Counts)}}
			return r.Record(ctx, b, "record what is taken over", nil)
		},
		Count: func(byTime bool) {
			if by.Adopted++; byTime {
				by.AdoptedByTime++
			}
		},
		Report: func(a *plan.Action, row *journal.Held) {
			c := report.Change{
				Set: s.State.Name, URI: a.URI, Kind: plan.KindOf(a), Path: row.Path, Length: row.Length, Type: row.Type,
				Hashes: row.Hashes, Lastmod: a.Lastmod.Time(), Datetime: a.Event.Time(), Links: row.Links, Stated: row.Stated,
			}
			r.Mirror.Out.Add(c)
			r.Emit(report.AppliedEvent(&c))
		}}
	return m.Run(ctx, p.Actions(ctx, s.Stage))
}

// withoutAdopted removes from a plan what a dry run would have adopted.
func withoutAdopted(t *planner.Tally, found *adopt.Adopted) {
	t.Created -= found.Files
	t.Unchanged += found.Files
	t.Bytes -= found.Bytes
}
