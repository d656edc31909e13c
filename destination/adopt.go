package destination

import (
	"context"

	"lockstep/destination/filename"
	"lockstep/destination/internal/adopt"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/planner"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/destination/report"
)

// adopt makes the files that are right of the resources that p would fetch part of
// the mirror.
func (r *setRun) adopt(ctx context.Context, p *planner.Planner, paths *filename.Mapping) (adopt.Adopted, error) {
	o := &r.d.opts
	if !o.DryRun {
		if err := r.begin(ctx); err != nil {
			return adopt.Adopted{}, err
		}
	}
	by := &r.report.By
	m := adopt.Mirror{Files: r.d.store, Journal: r.d.journal, Paths: paths, Counts: r.counts, Set: r.set.Number, In: r.d.inDest(),
		Any: o.Adopt, Replace: o.Replace, DryRun: o.DryRun, Stops: isFatal,
		Record: func(ctx context.Context, rows []journal.Held) error {
			b := journal.Batch{Put: rows, Save: map[string][]byte{saved.DocCounts: saved.Encode(r.counts)}}
			return r.recordRows(ctx, b, "record what is taken over", func() {})
		},
		Count: func(byTime bool) {
			if by.Adopted++; byTime {
				by.AdoptedByTime++
			}
		},
		Report: func(a *plan.Action, row *journal.Held) {
			c := Change{
				Set: r.set.Name, URI: a.URI, Kind: plan.KindOf(a), Path: row.Path, Length: row.Length, Type: a.Type,
				Hashes: row.Hashes, Lastmod: a.Lastmod.Time(), Datetime: a.Event.Time(),
			}
			r.out.Add(c)
			r.d.emit(report.AppliedEvent(&c))
		}}
	return m.Run(ctx, p.Actions(ctx, r.stage))
}

// withoutAdopted removes from a plan what a dry run would have adopted.
func withoutAdopted(t *planner.Tally, found *adopt.Adopted) {
	t.Created -= found.Files
	t.Unchanged += found.Files
	t.Bytes -= found.Bytes
}
