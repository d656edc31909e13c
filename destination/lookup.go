package destination

import (
	"context"
	"fmt"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/stage"
	"lockstep/resourcesync"
)

// isConfirmed reports whether w is a deletion that was confirmed by asking, and
// has not been carried out yet.
func isConfirmed(w *desired.Resource) bool {
	return w.Class == desired.Pending && w.Gone && w.Change == resourcesync.UnknownChange
}

// removeConfirmed removes what this run found to be gone.
func (r *setRun) removeConfirmed(ctx context.Context, w *work) (err error) {
	before := r.stage
	r.stage = stage.New(r.d.journal)
	defer func() {
		if cerr := r.stage.Close(context.WithoutCancel(ctx)); err == nil {
			err = cerr
		}
		r.stage = before
	}()
	for o, err := range r.d.journal.Owed(ctx, r.set.Number) {
		if err != nil {
			return err
		}
		gone, _, err := desired.Decode(o.URI, string(o.Entry))
		if err != nil {
			return err
		}
		if !isConfirmed(&gone) {
			continue
		}
		if err := r.stage.Add(ctx, gone); err != nil {
			return fmt.Errorf("stage what is gone: %w", err)
		}
	}
	_, err = r.carryOut(ctx, work{mode: w.mode, via: w.via, complete: true})
	return err
}
