package destination

import (
	"context"

	"lockstep/destination/filename"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/reclaim"
	"lockstep/destination/internal/stage"
	"lockstep/internal/extsort"
)

// reclaims reports whether a run adopts files of a set before it fetches.
func (r *setRun) reclaims() bool {
	return r.state.Own.Ours && !r.set.Unselected && (!r.set.Complete || r.set.Restored || r.damaged[r.set.Number])
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
	lists := reclaim.Lists{Sets: setsOf(s), NewReader: func(set *setState, fail func()) *entries.Reader {
		return newSetReader(s.d, set, s.home, s.file, stage.New(s.d.journal), func(string, string) {}, func(string, error) { fail() })
	}}
	return s.state.Own.Decide(ctx, s.d.directory(), s.knownPaths, lists.Add)
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
