package source

import (
	"context"
	"fmt"

	"lockstep/blob"
	"lockstep/source/internal/names"
	"lockstep/source/internal/variant"
)

// Compressed returns a Store that keeps a compressed variant NAME.xml.gz beside
// every document NAME.xml, and such of archives of feeds, for web servers that
// serve such files to those who ask for gzip. Whatever else is written to it goes to docs as it is.
//
// A variant is visible before its document, so that a document that is up to
// date has one that is. It goes with its document. A Source that is given such
// a Store also sees to variants that are missing, and one that is not given one
// any more removes those it made, before they can grow stale.
//
// Bytes are compressed as they are written; nothing is held.
func Compressed(docs blob.Store) blob.Store { return variant.New(docs) }

// variants makes up for compressed variants that are missing, and removes those
// of a time when there were some: they would grow stale.
func (p *publication) variants(ctx context.Context) error {
	store, compressing := p.docs.Store.(*variant.Store)
	var stale []string
	for name := range p.there {
		_, there := p.there[name+names.GzipSuffix]
		switch {
		case !variant.Possible(name) || !names.IsDocument(p.set.Name, name):
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
	if err := p.save(ctx, p.set.Name, &st); err != nil {
		return err
	}
	p.state = &st
	return nil
}
