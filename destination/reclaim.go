package destination

import (
	"context"
	"fmt"

	"lockstep/destination/filename"
	"lockstep/destination/internal/counting"
	"lockstep/destination/internal/reclaim"
	"lockstep/destination/internal/stage"
	"lockstep/internal/extsort"
	"lockstep/internal/fetch"
)

// reclaims reports whether a run adopts files of a set before it fetches.
func (r *setRun) reclaims() bool {
	return r.state.Own.Ours && !r.set.Unselected && (!r.set.Complete || r.damaged[r.set.Number])
}

// directory is where the mirror has its files.
func (d *Destination) directory() reclaim.Directory {
	return reclaim.Directory{Files: d.store, Journal: d.journal, In: d.inDest()}
}

// decideOwnership finds out whether the files in DEST are the mirror's own although
// the Journal is new. For a harvested set that is found out later: see
// decideHarvestOwnership.
func decideOwnership(ctx context.Context, s *session) error {
	if s.state.Source.Found == nil || s.state.Source.Found.Foreign != nil {
		return nil
	}
	return s.state.Own.Decide(ctx, s.d.directory(), s.knownPaths, func(ctx context.Context, to *extsort.Sorter) (bool, error) { return addListed(ctx, s, to) })
}

// decideHarvestOwnership does so when all resources of a harvested set are staged.
func decideHarvestOwnership(ctx context.Context, r *setRun) error {
	return r.state.Own.Decide(ctx, r.d.directory(), func(ctx context.Context) (*filename.Mapping, error) {
		if err := findOrigin(ctx, r.session, r.stage); err != nil {
			return nil, err
		}
		return r.knownPaths(ctx)
	}, func(ctx context.Context, to *extsort.Sorter) (bool, error) {
		return true, reclaim.AddStaged(ctx, r.stage, to)
	})
}

// knownPaths returns the names of the mirror's files, or nil if its origin is unknown.
func (s *session) knownPaths(context.Context) (*filename.Mapping, error) {
	paths, err := s.state.Paths()
	if s.state.Source.Origin == "" {
		paths = nil
	}
	return paths, err
}

// addListed adds the URIs of all resources of the sets that are followed. It reports
// whether all of them could be read.
func addListed(ctx context.Context, s *session, to *extsort.Sorter) (bool, error) {
	m := setsOf(s)
	m.Report = &counting.Report{} // the run that follows reports the sets
	chosen, err := m.Choose(s.state.Source.Found)
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
		if known, err := addListedOf(ctx, s, set, to); err != nil || !known {
			return false, err
		}
	}
	return true, nil
}

// addListedOf adds the URIs of the resources of one set.
func addListedOf(ctx context.Context, s *session, set *setState, to *extsort.Sorter) (known bool, err error) {
	if set.Lists == "" {
		return false, nil
	}
	known = true
	staged := stage.New(s.d.journal)
	reader := newSetReader(s.d, set, s.home, s.file, staged, func(string, string) {},
		func(string, error) { known = false }) // the run that follows reports them
	defer reader.Release(ctx, &err)
	if _, err := reader.ReadList(ctx, set.Lists); err != nil {
		return false, fmt.Errorf("read what %s lists: %w", fetch.Printable(set.URI), err)
	}
	err = reclaim.AddStaged(ctx, staged, to)
	return known, err
}
