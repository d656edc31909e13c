package destination

import (
	"context"
	"errors"
)

// deferringDocuments does something and then records which documents must not be
// requested yet, also if it failed.
func deferringDocuments(ctx context.Context, s *session, do func() error) error {
	err := do()
	if s.d.opts.DryRun || s.d.compare {
		return err
	}
	if serr := s.deferred.Save(ctx, s.d.journal, s.d.client); err == nil || errors.Is(err, ErrIncomplete) && serr != nil {
		err = serr
	}
	return err
}
