package bitstream

import (
	"context"
	"slices"

	"lockstep/catalog"
)

// Updates usually come in the order of their URIs, and many at once: then
// reading the range of the catalog that contains them takes a fraction of the
// time of single lookups. lookAheadLeast is the number of updates from which
// that is tried, and lookAheadMost the number of resources read per update up to
// which it continues.
const (
	lookAheadLeast = 16
	lookAheadMost  = 4
)

// presents are resources as recorded in the catalog.
type presents struct {
	found map[string]*catalog.Record
	from  string // every resource from here on, ...
	to    string // ... up to here, was found; empty: none
}

// lookAhead reads the current resources of a batch, if they are close together.
func (b *batch) lookAhead(ctx context.Context) (err error) {
	var uris []string
	for i := range b.updates {
		if !b.updates[i].Deleted {
			uris = append(uris, b.updates[i].URI)
		}
	}
	slices.Sort(uris)
	b.before, err = b.stretch(ctx, uris)
	return err
}

// stretch reads resources whose URIs are in order, if they are close together.
func (r *recorder) stretch(ctx context.Context, uris []string) (p presents, err error) {
	if len(uris) < lookAheadLeast {
		return p, nil
	}
	p = presents{found: make(map[string]*catalog.Record), from: uris[0], to: after(uris[len(uris)-1])}
	read := 0
	for rec, err := range r.Catalog.Resources(ctx, r.set, catalog.Range{From: p.from, To: p.to}) {
		if err != nil {
			return p, err
		}
		if read++; read > lookAheadMost*len(uris) {
			p.to = rec.URI
			break
		}
		if _, asked := slices.BinarySearch(uris, rec.URI); asked {
			p.found[rec.URI] = &rec
		}
	}
	return p, nil
}

// present returns the catalog's record of a resource of the batch, or nil.
func (b *batch) present(ctx context.Context, uri string) (*catalog.Record, error) {
	return b.find(ctx, &b.before, uri)
}

// find returns the catalog's record of a resource, or nil: from p, if p covers
// it.
func (r *recorder) find(ctx context.Context, p *presents, uri string) (*catalog.Record, error) {
	if p.from <= uri && uri < p.to {
		return p.found[uri], nil
	}
	return r.present(ctx, uri)
}

// present returns the catalog's record of a resource, or nil.
func (r *recorder) present(ctx context.Context, uri string) (*catalog.Record, error) {
	// No URI has a NUL in it, so the range contains only uri itself.
	for rec, err := range r.Catalog.Resources(ctx, r.set, catalog.Range{From: uri, To: after(uri)}) {
		if err != nil {
			return nil, err
		}
		return &rec, nil
	}
	return nil, nil
}
