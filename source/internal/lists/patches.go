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
	// patchesEvery is how often unused patches are looked for, which requires listing
	// all patches.
	patchesEvery = time.Hour

	// patchesAtOnce limits how many patches are compared with the changes at a time.
	patchesAtOnce = 10_000
)

// tidyPatches removes the patches that no stored change of the set names. Candidates are
// those older than all stored changes; but because event times may be ahead of the clock
// that named the patches, the changes themselves are checked.
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
			break // names are in the order of time
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

// removePatches removes those patches that no stored change names.
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
