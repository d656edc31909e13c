package destination

import "context"

// saveOutages records what failed in this run.
func saveOutages(ctx context.Context, r *setRun) error {
	o := r.docs.Outages
	if !o.HasFailed(FallbackLoc) {
		o.Works(FallbackLoc)
	}
	if r.d.opts.DryRun || r.d.compare {
		return nil
	}
	return o.Save(ctx, r.d.journal, r.set.Number)
}
