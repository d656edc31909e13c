package source

import (
	"context"
	"errors"
	"fmt"
)

// Refresh is for a Source that serves what another process publishes from the same catalog to the
// same store, with the same Options, and publishes nothing itself. It learns from the documents what
// is shown on pages, and, if there are private sets, whether the documents about the Source as a whole
// can be shown already. The documents themselves are served as they are at each request.
func (s *Source) Refresh(ctx context.Context) error {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	var there []string
	var errs []error
	for i := range s.opts.Sets {
		set := &s.opts.Sets[i]
		published, err := set.isPublished(ctx, s.docs)
		if published {
			there = append(there, set.Name)
			err = s.lists.Refresh(ctx, set.Name)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("set %s: %w", set.Name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := s.description.Refresh(ctx, there); err != nil {
		return err
	}
	s.summarize()
	return nil
}
