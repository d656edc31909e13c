package reclaim

import (
	"context"
	"fmt"

	"lockstep/destination/internal/counting"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/sets"
	"lockstep/internal/extsort"
	"lockstep/internal/fetch"
)

// Lists are the Resource Lists of the sets that a mirror follows. They are read before
// the run that reports them.
type Lists struct {
	Sets *sets.Mirror

	// NewReader returns a reader of a set's documents. It calls fail for each document
	// that could not be read.
	NewReader func(set *sets.State, fail func()) *entries.Reader
}

// Add adds the URIs of all resources that are listed. It reports whether all lists could
// be read.
func (l *Lists) Add(ctx context.Context, to *extsort.Sorter) (all bool, err error) {
	m := *l.Sets
	m.Report = &counting.Report{}
	chosen, err := m.Choose(m.State.Found)
	if err != nil {
		return false, err
	}
	for _, f := range chosen {
		if f.Err != nil {
			return false, nil
		}
		set, err := m.Load(ctx, f)
		if err != nil {
			return false, err
		}
		if all, err := l.addSet(ctx, set, to); err != nil || !all {
			return false, err
		}
	}
	return true, nil
}

// addSet adds the URIs of the resources of one set.
func (l *Lists) addSet(ctx context.Context, set *sets.State, to *extsort.Sorter) (all bool, err error) {
	if set.Lists == "" {
		return false, nil
	}
	all = true
	r := l.NewReader(set, func() { all = false })
	defer r.Release(ctx, &err)
	if _, err := r.ReadList(ctx, set.Lists); err != nil {
		return false, fmt.Errorf("read what %s lists: %w", fetch.Printable(set.URI), err)
	}
	err = AddStaged(ctx, r.Stage, to)
	return all, err
}
