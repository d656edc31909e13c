package destination

import (
	"context"

	"lockstep/destination/internal/sets"
	"lockstep/discover"
)

// A setState is the state of one set in a run.
type setState = sets.State

// setsOf returns what finds the sets of a session.
func setsOf(s *session) *sets.Mirror {
	o := &s.d.opts
	return &sets.Mirror{Client: s.d.client, Journal: s.d.journal, State: &s.state.Source, Counts: s.state.Counts, Follow: o.Sets, Baseline: o.Baseline, DryRun: o.DryRun,
		Report: &s.report, Emit: s.d.emit, Warn: s.warn, Fail: s.problem}
}

// locate finds the Source's sets, and returns the states of those to follow.
func (s *session) locate(ctx context.Context, address string) ([]*setState, error) {
	found, changed, err := setsOf(s).Find(ctx, address)
	if err != nil {
		return nil, err
	}
	return s.takeOver(ctx, address, found, changed)
}

// takeOver makes what was found at an address that of the mirror, and returns the
// states of the sets to follow.
func (s *session) takeOver(ctx context.Context, address string, found *discover.Found, changed bool) ([]*setState, error) {
	s.home, s.file = sets.Home(address)
	taken, err := setsOf(s).Take(ctx, address, found, changed)
	s.state.Own.Ours = s.state.Own.Ours || taken.Known
	for n := range taken.Withdrawn {
		if s.withdrawn == nil {
			s.withdrawn = map[int]bool{}
		}
		s.withdrawn[n] = true
	}
	if err != nil {
		return nil, err
	}
	return taken.Sets, nil
}

// unselected returns the sets that the Source offers and the mirror holds, and that
// are no longer to be followed.
func unselected(ctx context.Context, s *session, followed []*setState) ([]*setState, error) {
	if s.d.compare {
		return nil, nil
	}
	return setsOf(s).Unselected(ctx, followed)
}

// nothingSelected returns a [SelectionError] if the selection matches none of the
// resources that the sets list.
func nothingSelected(s *session, all []*setState) error {
	if s.past != nil || !s.d.selects.Restricts() {
		return nil
	}
	return sets.NothingSelected(all, s.state.Counts)
}
