package destination

import (
	"context"
	"errors"
	"fmt"

	"lockstep/blob"
	"lockstep/destination/internal/audit"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/wording"
)

// compareFile compares the file of a resource in a plain directory with what
// the Source says.
func (s *setAudit) compareFile(ctx context.Context, act *plan.Action) (audit.Verdict, error) {
	f := s.checker.Verdict(act, audit.Missing, "no file of it is here").Finding
	if p, err := s.paths.Path(act.URI); err == nil {
		f.Path = p
	}
	for path := range s.d.filesOf(s.paths, act.URI) {
		l, err := lookAt(ctx, &s.sums, s.d.store, path, &act.Resource)
		var wrong *content.Error
		switch {
		case ctx.Err() != nil:
			return audit.Verdict{}, ctx.Err()
		case err == nil:
			return audit.Verdict{Verified: l.verified, Read: l.length}, nil
		case errors.Is(err, blob.ErrNotExist):
			continue
		case audit.IsShortage(err):
			return audit.Verdict{}, err
		}
		f.Path, f.Found = path, &audit.Facts{Hash: wording.Hashes(l.hashes), Length: &l.length, Lastmod: l.modified}
		switch {
		case errors.As(err, &wrong):
			f.Kind, f.Cause = audit.Stale, fmt.Sprintf("its %s is %s, the Source states %s", wrong.What, wrong.Got, wrong.Want)
		case errors.Is(err, errNoTelling):
			f.Kind, f.Cause = audit.Unverifiable, err.Error()
		default:
			f.Kind, f.Cause, f.Found = audit.Missing, err.Error(), nil
		}
	}
	return audit.Verdict{Finding: f}, nil
}
