package apply

import (
	"context"
	"fmt"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/transfer"
	"lockstep/internal/fetch"
)

// fetchPreferred carries out a Fetch, and where the preferred representation
// cannot be fetched, with the resource's own.
func fetchPreferred(ctx context.Context, f *transfer.Fetcher, a *plan.Action) transfer.Outcome {
	o := f.Do(ctx, a)
	if o.Err == nil || !a.Preferred || f.OfPast || ctx.Err() != nil || content.IsLocal(o.Err) || transfer.IsTaken(o.Err) {
		return o
	}
	return instead(ctx, f, a, o.Err)
}

// instead carries out a, whose preferred representation could not be fetched for
// err, with the resource's own. That is reported once: while the resource's own is
// held, nothing is said of it.
func instead(ctx context.Context, f *transfer.Fetcher, a *plan.Action, err error) transfer.Outcome {
	own := a.Own()
	if a.OwnFetched() && !a.FileMissing {
		h := a.Held
		h.Sets = plan.WithSet(h.Sets, f.Set)
		plan.Describe(&h, own, f.Set)
		return transfer.Outcome{Action: own, Held: h, Unchanged: true}
	}
	o := f.Do(ctx, own)
	if o.Err == nil && !o.Postponed {
		o.Warning = fmt.Sprintf("%s: the preferred representation could not be fetched, the resource's own is kept until it can: %v", fetch.Printable(a.URI), err)
	}
	return o
}
