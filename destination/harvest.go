package destination

import (
	"context"
	"errors"
	"fmt"

	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/failure"
	"lockstep/destination/internal/harvest"
	"lockstep/destination/internal/reconcile"
	"lockstep/internal/fetch"
)

// harvestSet brings a set without documents into step with the memory of its Origin,
// while the Origin brings that memory into step with the Source.
func harvestSet(ctx context.Context, r *setRun) error {
	return withOrigin(ctx, r, func() error {
		h, before := newHarvest(r), changesOf(r)
		err := h.Run(ctx)
		r.docs.Compared = h.Compared
		if err == nil {
			err = describeHarvested(ctx, r, changesOf(r) > before)
		}
		return err
	})
}

// expectedHarvest stages the resources of a set without documents.
func expectedHarvest(ctx context.Context, r *setRun) (snap entries.Snapshot, err error) {
	err = withOrigin(ctx, r, func() (err error) {
		snap, err = newHarvest(r).Expect(ctx, func() bool { return r.failed.Count > 0 })
		return err
	})
	return snap, err
}

// withOrigin calls do while the Origin of the set is open.
func withOrigin(ctx context.Context, r *setRun, do func() error) (err error) {
	if err := openOrigin(ctx, r); err != nil {
		return err
	}
	defer func() {
		if cerr := r.origin.Close(); err == nil {
			err = cerr
		}
	}()
	return do()
}

// openOrigin opens the Origin of the set.
func openOrigin(ctx context.Context, r *setRun) error {
	f, o := r.set.Foreign, &r.d.opts
	if o.Bridge == nil {
		return fmt.Errorf("read %s: %s, and harvesting is not configured", fetch.Printable(f.URI), f.What())
	}
	var err error
	if r.origin, err = o.Bridge(ctx, *f, BridgeOptions{ReadOnly: o.DryRun, Accept: o.Baseline}); err != nil {
		return err
	}
	r.state.Source.Maps = nil
	if m, ok := r.origin.(PathMapper); ok {
		r.state.Source.Maps = m.Maps()
	}
	return nil
}

// A harvestOrigin is an Origin as package harvest uses it.
type harvestOrigin struct{ Origin }

func (o harvestOrigin) Status(ctx context.Context) (harvest.Status, error) {
	s, err := o.Origin.Status(ctx)
	return harvest.Status(s), err
}

// newHarvest returns a run for a set whose Origin is open.
func newHarvest(r *setRun) *harvest.Run {
	o := &r.d.opts
	h := &harvest.Run{
		Set: &r.set.Set, Origin: harvestOrigin{r.origin}, Chooser: newChooser(r), Reader: r.reader, Stage: r.stage, Journal: r.d.journal, Report: &r.report,
		Baseline: o.Baseline, Compare: r.compares() || r.damaged[r.set.Number], DryRun: o.DryRun,
		AbsentIsGone: o.Delete == DeleteApply, Selection: r.d.selects.Key, Pending: pendingStager(r), Causes: causesOf,
		Stops: func(err error) bool {
			return errors.Is(err, ErrRefused) || errors.Is(err, ErrScratch) || failure.IsFull(err)
		},
		Undecided: func(ctx context.Context) (bool, error) { return r.state.Own.IsOpen(ctx, r.d.directory()) },
		Decide:    func(ctx context.Context) error { return decideHarvestOwnership(ctx, r) },
	}
	h.Apply = func(ctx context.Context, w reconcile.Work) (bool, error) {
		r.docs.Compared = h.Compared
		return reconciled(r).Apply(ctx, w)
	}
	return h
}

// causesOf returns the single causes of an error of [Origin.Update].
func causesOf(err error) []error {
	if many, ok := errors.AsType[Problems](err); ok {
		return many
	}
	return []error{err}
}
