package reconcile

import (
	"context"
	"errors"

	"lockstep/destination/internal/adopt"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/planner"
	"lockstep/destination/report"
	"lockstep/resourcesync"
)

// namePlans emits an event for each resource that a dry run would change or refuse.
func (s *Set) namePlans(ctx context.Context, p *planner.Planner, deletes bool, found *adopt.Adopted) error {
	if !s.Run.NamePlans {
		return nil
	}
	for a, err := range p.Actions(ctx, s.Stage) {
		if err != nil {
			return err
		}
		e := report.Event{Kind: report.EventPlanned, Set: s.State.Name, URI: a.URI, Path: a.Held.Path, Length: a.Length, Type: a.Type}
		switch {
		case a.Verb == plan.Refuse:
			e.Err = errors.New(a.Refused)
		case a.Verb == plan.Fetch && !a.Rehash: // those are expected to be unchanged
			e.Change, e.Adopted = plan.KindOf(&a), found.Has(&a)
		case a.Verb == plan.Remove && deletes:
			e.Change, e.Length = resourcesync.Deleted, 0
		case a.Redescribed:
			e.Change, e.Content = resourcesync.Updated, report.ContentSame
		default:
			continue
		}
		s.Run.Emit(e)
	}
	return nil
}
