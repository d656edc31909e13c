package bitstream

import (
	"context"
	"slices"

	"lockstep/catalog"
)

// Updates come in the order of their URIs more often than not, and many at once:
// then reading the stretch of the catalog they are in takes a fraction of asking
// for each. lookAheadLeast is from how many updates on that is tried, and
// lookAheadMost for how many resources read per update it goes on.
const (
	lookAheadLeast = 16
	lookAheadMost  = 4
)

// presents are resources as the catalog has them.
type presents struct {
	found map[string]*catalog.Record
	from  string // none that is not found lies from here on, ...
	to    string // ... up to here; empty: nothing is known
}

// lookAhead reads the resources a batch is about, if they lie close together.
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

// stretch reads resources whose URIs are in order, if they lie close together.
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

// present returns what the catalog holds of a resource of the batch, or nil.
func (b *batch) present(ctx context.Context, uri string) (*catalog.Record, error) {
	return b.find(ctx, &b.before, uri)
}

// find returns what the catalog holds of a resource, or nil: out of p, if that
// tells.
func (r *recorder) find(ctx context.Context, p *presents, uri string) (*catalog.Record, error) {
	if p.from <= uri && uri < p.to {
		return p.found[uri], nil
	}
	return r.present(ctx, uri)
}

// present returns what the catalog holds of a resource, or nil.
func (r *recorder) present(ctx context.Context, uri string) (*catalog.Record, error) {
	// No URI has a NUL in it, so there is none but uri itself in between.
	for rec, err := range r.Catalog.Resources(ctx, r.set, catalog.Range{From: uri, To: after(uri)}) {
		if err != nil {
			return nil, err
		}
		return &rec, nil
	}
	return nil, nil
}
