package description

import (
	"bytes"
	"context"

	"lockstep/source/internal/names"
)

// Refresh looks at what another process has published of these sets: what each of them offers, and
// whether the documents about the Source as a whole are those of its present sets.
func (s *Documents) Refresh(ctx context.Context, sets []string) error {
	var every, public []Set
	for _, name := range sets {
		set := s.sets[name]
		there, err := s.find(ctx, set, nil)
		if err != nil {
			return err
		}
		s.offer(name, there)
		every = append(every, set)
		if !set.Private {
			public = append(public, set)
		}
	}
	_, want, err := s.encodeDescription(public)
	if err != nil {
		return err
	}
	there, _, err := s.docs.ReadBlob(ctx, names.WellKnown)
	if err != nil {
		return err
	}
	s.offering.Lock()
	defer s.offering.Unlock()
	s.published = nil
	if bytes.Equal(there, want) {
		s.published = every
	}
	return nil
}
