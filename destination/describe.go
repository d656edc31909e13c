package destination

import (
	"context"
	"fmt"

	"lockstep/destination/internal/describe"
	"lockstep/destination/internal/stage"
	"lockstep/destination/internal/wording"
)

// describeListed completes the rows of a set that an earlier version of the program
// recorded, from its documents. If the run is busy, that may wait for the next.
func describeListed(ctx context.Context, r *setRun, busy bool) error {
	return describeSet(ctx, r, busy, func(ctx context.Context, st *stage.Stage) (bool, error) {
		failed := false
		reader := newSetReader(r.d, r.set, r.home, r.file, st, func(string, string) {}, func(string, error) { failed = true }) // warnings were reported before
		defer reader.Packages.Shelf.Clear()
		reader.Future.Limit = r.reader.Future.Limit
		st.Future = reader.Future.Has
		complete, err := describe.ReadDocuments(ctx, &r.set.Set, reader)
		return complete && !failed, err
	})
}

// describeHarvested does the same from the memory of the set's Origin, which is open.
func describeHarvested(ctx context.Context, r *setRun, busy bool) error {
	return describeSet(ctx, r, busy, func(ctx context.Context, st *stage.Stage) (bool, error) {
		return true, newHarvest(r).StageAll(ctx, st)
	})
}

func describeSet(ctx context.Context, r *setRun, busy bool, read func(context.Context, *stage.Stage) (complete bool, err error)) (err error) {
	if r.failed.Count > 0 || r.d.opts.DryRun || r.past != nil || r.d.compare || r.set.Unselected || !describe.IsDue(&r.set.Set) {
		return nil
	}
	st := stage.New(r.d.journal)
	st.Companions = r.d.selects.Companions
	defer func() {
		if cerr := st.Close(context.WithoutCancel(ctx)); err == nil {
			err = cerr
		}
	}()
	p := newPlanner(r.d, r.set.Number)
	p.Stage, p.Settled, p.Dated, p.Refuse = st, !r.reselects(), r.set.Foreign != nil, r.reader.Refuse
	c := &describe.Completion{Journal: r.d.journal, Set: &r.set.Set, Stage: st, Planner: p, Busy: busy,
		Read: func(ctx context.Context) (bool, error) { return read(ctx, st) }}
	rows, err := c.Run(ctx)
	if rows > 0 {
		r.report.AddPlan(fmt.Sprintf("set %s: an earlier version kept no media types and links; those of %s were recorded now", r.set.Name, wording.Plural(rows, "resource")))
	}
	return err
}

// changesOf returns how many resources the run has changed so far.
func changesOf(r *setRun) int64 { return r.report.Created + r.report.Updated + r.report.Deleted }
