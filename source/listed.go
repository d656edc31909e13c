package source

import (
	"context"

	"lockstep/catalog"
)

// Listed returns what the published documents of a set, those in archives
// included, tell of: of every change above floor, which is 0 if that cannot be
// told, and of the set as it was at each of the snapshots, which are the numbers
// of the last change before it (ME-RET-01). It may wait for a Publish.
func (s *Source) Listed(ctx context.Context, set string) (floor catalog.Seq, snapshots []catalog.Seq, err error) {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	st, err := s.load(ctx, set, s.capabilityList(set))
	if err != nil {
		return 0, nil, err
	}
	if st.Changes == nil || st.List == nil || st.Switching {
		return 0, nil, nil
	}
	dumps, err := s.loadDumps(ctx, set)
	if err != nil {
		return 0, nil, err
	}
	floor, snapshots = st.Changes.After, []catalog.Seq{st.List.Seq}
	for _, r := range []*resourceDumpState{dumps.Resources, dumps.Next} {
		if r != nil {
			snapshots = append(snapshots, r.Seq)
		}
	}
	for _, c := range []*changeDumpState{dumps.Changes, dumps.NextChanges} {
		if c != nil {
			floor = min(floor, c.After)
		}
	}
	return floor, snapshots, nil
}
