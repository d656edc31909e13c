package source

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"lockstep/catalog"
	"lockstep/source/internal/archive"
	"lockstep/source/internal/names"
)

// Listed returns what the published documents of a set, those in archives
// included, cover: every change above floor, which is 0 if that is not known,
// and the set as it was at each of the snapshots (ME-RET-01): for every
// Resource List and Resource Dump that is published, archived, or replaced within
// Options.Grace the newest change it is known to cover and its at. Of Resource
// Lists that replaced one another in quick succession this is the first: changes
// above floor lead to the others. It may wait for a Publish.
func (s *Source) Listed(ctx context.Context, set string) (floor catalog.Seq, snapshots []catalog.Mark, err error) {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	floor, snapshots, ok, err := s.lists.Listed(ctx, set)
	if err != nil {
		return 0, nil, err
	}
	after, changes, dumps, err := s.dumps.Listed(ctx, set)
	if err != nil || !ok {
		return 0, nil, err // what was published is not known, or not settled
	}
	if snapshots = append(snapshots, dumps...); changes {
		floor = min(floor, after)
	}
	pointers, err := pointersOf(ctx, s.archives, s.opts.Sets, set)
	if err != nil {
		return 0, nil, fmt.Errorf("read archive: %w", err)
	}
	for _, p := range pointers {
		switch {
		case p.Seq < 0:
			return 0, nil, nil
		case p.At.IsZero():
			floor = min(floor, p.Seq)
		default:
			snapshots = append(snapshots, catalog.Mark{Seq: p.Seq, At: p.At})
		}
	}
	slices.SortStableFunc(snapshots, func(a, b catalog.Mark) int { return cmp.Or(cmp.Compare(a.Seq, b.Seq), a.At.Compare(b.At)) })
	return floor, slices.Compact(snapshots), nil
}

// pointersOf returns what all archives of a set name.
func pointersOf(ctx context.Context, archives *archive.Archives, sets []Set, set string) (all []archive.Pointer, err error) {
	for i := range sets {
		if sets[i].Name != set {
			continue
		}
		for _, c := range names.Archivable {
			if sets[i].Archive.of(c) == nil {
				continue
			}
			pointers, err := archives.Pointers(ctx, set, c)
			if err != nil {
				return nil, err
			}
			all = append(all, pointers...)
		}
	}
	return all, nil
}
