package destination

import (
	"context"

	"lockstep/destination/internal/stage"
)

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
	gone := pendingOf(r.d, r.set.Number)
	if err := gone.StageConfirmed(ctx, r.stage); err != nil {
		return err
	}
	_, err = r.carryOut(ctx, work{mode: w.mode, via: w.via, complete: true})
	return err
}
