package lists

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"lockstep/resourcesync"
	"lockstep/source/internal/names"
)

const (
	// patchesEvery is how often patches are looked for that no change names: to
	// find them, all there are must be listed.
	patchesEvery = time.Hour

	// patchesAtOnce bounds how many are compared with the changes at a time.
	patchesAtOnce = 10_000
)

// tidyPatches removes the patches that no kept change of the set names. It looks
// at those only that are older than all that are kept; but as event times may
// run ahead of the clock that named them, the changes themselves decide.
func (s *Lists) tidyPatches(ctx context.Context, set string) error {
	now := s.opts.Docs.Now()
	if last, done := s.patchesTidied[set]; done && now.Sub(last) < patchesEvery && !now.Before(last) {
		return nil
	}
	st, err := s.opts.Catalog.Status(ctx, s.opts.Docs.CapabilityList(set))
	if err != nil {
		return err
	}
	floor := st.Kept.At
	if grace := now.Add(-s.opts.Grace); grace.Before(floor) {
		floor = grace
	}
	old := make(map[string]string) // URI to name
	for info, err := range s.opts.Docs.List(ctx, names.Set(set).PatchDir()) {
		if err != nil {
			return fmt.Errorf("look for old patches: %w", err)
		}
		at, ok := names.Set(set).ParsePatch(info.Name)
		if !ok {
			continue
		}
		if at.After(floor) {
			break // they come in the order of their instants
		}
		if old[s.opts.Docs.Base.URI(info.Name)] = info.Name; len(old) == patchesAtOnce {
			if err := s.removePatches(ctx, set, old); err != nil {
				return err
			}
			clear(old)
		}
	}
	if err := s.removePatches(ctx, set, old); err != nil {
		return err
	}
	s.patchesTidied[set] = now
	return nil
}

// removePatches removes those patches that no kept change names.
func (s *Lists) removePatches(ctx context.Context, set string, old map[string]string) error {
	if len(old) == 0 {
		return nil
	}
	for c, err := range s.opts.Catalog.Changes(ctx, s.opts.Docs.CapabilityList(set), 0) {
		if err != nil {
			return fmt.Errorf("look for old patches: %w", err)
		}
		for i := range c.Links {
			if c.Links[i].Rel == resourcesync.RelPatch {
				delete(old, c.Links[i].Href)
			}
		}
	}
	docNames := make([]string, 0, len(old))
	for _, name := range old {
		docNames = append(docNames, name)
	}
	if err := s.opts.Docs.Remove(ctx, docNames...); err != nil {
		return fmt.Errorf("remove old patches: %w", err)
	}
	s.opts.Docs.Log.DebugContext(ctx, "removed old patches", slog.String("set", set), slog.Int("entries", len(docNames)))
	return nil
}
