package source

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"time"

	"lockstep/resourcesync"
	"lockstep/source/internal/names"
)

const (
	// patchesEvery is how often patches are looked for that nobody needs: to
	// find them, all there are must be listed.
	patchesEvery = time.Hour

	// patchesAtOnce bounds how many are compared with the changes at a time.
	patchesAtOnce = 10_000
)

// PutPatch publishes a patch, of type application/json-patch+json or
// application/vnd.lockstep.dcz, and returns its URI. It is durable then, and its
// bytes never change. It stays as long as the catalog keeps a change of the set
// that names it, and at least for the grace period, in which that change is to
// be applied. It may be called while Publish runs.
func (s *Source) PutPatch(ctx context.Context, set, mediaType string, patch []byte) (uri string, err error) {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	name, ok := names.Patch(set, mediaType, s.docs.Now(), hex.EncodeToString(random[:]))
	if !ok {
		return "", fmt.Errorf("publish patch: no name for the type %q", mediaType)
	}
	if err := s.docs.CommitBlob(ctx, name, patch, time.Time{}); err != nil {
		return "", fmt.Errorf("publish patch: %w", err)
	}
	return s.docs.Base.URI(name), nil
}

// tidyPatches removes the patches that no kept change of the set names. It looks
// at those only that are older than all that are kept; but as event times may
// run ahead of the clock that named them, the changes themselves decide.
func (p *publication) tidyPatches(ctx context.Context) error {
	now := p.docs.Now()
	if last, done := p.patchesTidied[p.set.Name]; done && now.Sub(last) < patchesEvery && !now.Before(last) {
		return nil
	}
	st, err := p.catalog.Status(ctx, p.docs.CapabilityList(p.set.Name))
	if err != nil {
		return err
	}
	floor := st.Kept.At
	if grace := now.Add(-p.opts.Grace); grace.Before(floor) {
		floor = grace
	}
	old := make(map[string]string) // URI to name
	for info, err := range p.docs.List(ctx, names.PatchDir(p.set.Name)) {
		if err != nil {
			return fmt.Errorf("look for old patches: %w", err)
		}
		at, ok := names.ParsePatch(p.set.Name, info.Name)
		if !ok {
			continue
		}
		if at.After(floor) {
			break // they come in the order of their instants
		}
		if old[p.docs.Base.URI(info.Name)] = info.Name; len(old) == patchesAtOnce {
			if err := p.removePatches(ctx, old); err != nil {
				return err
			}
			clear(old)
		}
	}
	if err := p.removePatches(ctx, old); err != nil {
		return err
	}
	p.patchesTidied[p.set.Name] = now
	return nil
}

// removePatches removes those patches that no kept change names.
func (p *publication) removePatches(ctx context.Context, old map[string]string) error {
	if len(old) == 0 {
		return nil
	}
	for c, err := range p.catalog.Changes(ctx, p.docs.CapabilityList(p.set.Name), 0) {
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
	if err := p.docs.Remove(ctx, docNames...); err != nil {
		return fmt.Errorf("remove old patches: %w", err)
	}
	p.docs.Log.DebugContext(ctx, "removed old patches", slog.String("set", p.set.Name), slog.Int("entries", len(docNames)))
	return nil
}
