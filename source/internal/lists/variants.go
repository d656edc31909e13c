package lists

import (
	"context"
	"fmt"

	"lockstep/source/internal/names"
	"lockstep/source/internal/variant"
)

// variants makes up for compressed variants that are missing, and removes those
// of a time when there were some: they would grow stale.
func (p *publication) variants(ctx context.Context) error {
	store, compressing := p.docs.Store.(*variant.Store)
	var stale []string
	for name := range p.there {
		_, there := p.there[name+names.GzipSuffix]
		switch {
		case !variant.Possible(name) || !names.Set(p.set.Name).IsDocument(name):
		case compressing && (!there || !p.state.Compressed):
			if err := store.Fill(ctx, name); err != nil {
				return err
			}
		case !compressing && there && p.state.Compressed:
			stale = append(stale, name+names.GzipSuffix)
		}
	}
	if len(stale) > 0 {
		if err := p.docs.Remove(ctx, stale...); err != nil {
			return fmt.Errorf("remove compressed documents: %w", err)
		}
	}
	if p.state.Compressed == compressing || p.state.Changes == nil {
		return nil
	}
	st := *p.state
	st.Compressed = compressing
	if err := p.owner.save(ctx, p.set.Name, &st); err != nil {
		return err
	}
	p.state = &st
	return nil
}
