package repository

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"lockstep/catalog"
	"lockstep/oaipmh"
)

// errUnreadable reports content that differs from what was indexed; the
// condition may be temporary.
var errUnreadable = errors.New("the published content can no longer be read")

// header returns the header of an item's record.
func (p *place) header() oaipmh.Record {
	return oaipmh.Record{
		Identifier: identifierOf(p.uri, p.identifier), Datestamp: spot{At: p.date}.time(), Sets: p.specs, Deleted: p.gone,
	}
}

// look reads the resources of items whose records are needed, by set and URI.
func (a *answer) look(ctx context.Context, l *listing, items []place) (map[*index]map[string]*catalog.Record, error) {
	if l.Verb != oaipmh.VerbListRecords {
		return nil, nil
	}
	uris := make(map[*index][]string)
	for i := range items {
		if p := &items[i]; !p.gone && !p.elsewhere {
			uris[p.index] = append(uris[p.index], p.uri)
		}
	}
	there := make(map[*index]map[string]*catalog.Record)
	for x, wanted := range uris {
		slices.Sort(wanted)
		var err error
		if there[x], err = among(ctx, x.catalog, x.Catalog, wanted); err != nil {
			return nil, err
		}
	}
	return there, nil
}

// amongSkip is how many other resources are read over before searching for the
// next one is cheaper.
const amongSkip = 32

// among returns the resources of a catalog set with the given URIs, which are in
// order. Those of a list are mostly adjacent: a read for each would take longer
// than everything else.
func among(ctx context.Context, c catalog.Catalog, set string, uris []string) (map[string]*catalog.Record, error) {
	there := make(map[string]*catalog.Record, len(uris))
	for len(uris) > 0 {
		skipped := 0
		// No URI has a NUL byte, so there is none between the last and the bound.
		for r, err := range c.Resources(ctx, set, catalog.Range{From: uris[0], To: uris[len(uris)-1] + "\x01"}) {
			if err != nil {
				return nil, err
			}
			for len(uris) > 0 && uris[0] < r.URI {
				uris = uris[1:] // it does not exist
			}
			if len(uris) > 0 && uris[0] == r.URI {
				there[r.URI] = &r
				uris, skipped = uris[1:], 0
			} else {
				skipped++
			}
			if len(uris) == 0 || skipped > amongSkip {
				break
			}
		}
		if skipped <= amongSkip {
			break // the iteration is complete
		}
	}
	return there, nil
}

// record returns the record of an item in a format; r is its resource, nil if it
// was deleted.
func (p *place) record(ctx context.Context, prefix string, r *catalog.Record) (oaipmh.Record, error) {
	rec := p.header()
	if rec.Deleted = rec.Deleted || r == nil; rec.Deleted {
		return rec, nil
	}
	if prefix != dublinCore || p.dublinCore {
		m, err := p.index.document(ctx, r)
		switch {
		case ctx.Err() != nil:
			return rec, ctx.Err()
		case err == nil && p.index.prefixOf(m.Namespace) == prefix:
			rec.Metadata, rec.Namespace = m.Document, m.Namespace
			return rec, nil
		case err == nil:
			return rec, fmt.Errorf("%w: its root is now in the namespace %s", errUnreadable, m.Namespace)
		case errors.Is(err, fs.ErrNotExist):
			return rec, fmt.Errorf("%w: it is gone", errUnreadable)
		default:
			return rec, fmt.Errorf("%w: %w", errUnreadable, err)
		}
	}
	rec.Metadata, rec.Namespace = describe(r, rec.Identifier), oaipmh.DublinCoreNamespace
	return rec, nil
}

// in returns the entry of the item in the format's list, if there is one.
func (is *row) in(uri, prefix string) (listed, bool) {
	item := listed{spot: is.Spot, uri: uri, identifier: is.Identifier, gone: is.Deleted, dublinCore: is.DublinCore, collections: is.Collections}
	if prefix == dublinCore || slices.Contains(is.Formats, prefix) {
		return item, true
	}
	item.gone = true
	return item, slices.Contains(is.Former, prefix)
}
