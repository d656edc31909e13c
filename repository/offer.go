package repository

import (
	"context"
	"maps"
	"strings"

	"lockstep/catalog"
)

// Harvesters return with the date of their last harvest. The records of a set that is
// offered later than others, again, under another name, or to more harvesters therefore
// get a new datestamp, however old the resources are. To recognize such sets, the
// repository records which ones it offers, in the catalog set that has the key of tokens:
// keys are keyOffered, its address, offeredEnd, and the set's name in the catalog.
const (
	keyOffered = "s"
	offeredEnd = "\x01"
)

// noteSets records the offered sets, once in the life of a Repository. It marks those
// that are new before it records all: if it is stopped in between, it does so again.
func (r *Repository) noteSets(ctx context.Context) error {
	r.offering.Lock()
	defer r.offering.Unlock()
	if r.offered {
		return nil
	}
	recorded, err := r.recordedSets(ctx)
	if err != nil {
		return err
	}
	before := maps.Clone(recorded)
	if len(recorded) == 0 { // an earlier version has offered the sets that have an index
		if before, err = r.indexedSets(ctx); err != nil {
			return err
		}
	}
	changes := make(updates)
	for _, x := range r.sets {
		if len(before) > 0 && !before[x.Catalog] {
			if err := x.renewLater(ctx); err != nil {
				return err
			}
		}
		if !recorded[x.Catalog] {
			changes.set(r.offeredKey()+x.Catalog, "")
		}
		delete(recorded, x.Catalog)
	}
	for name := range recorded {
		changes.drop(r.offeredKey() + name) // it is new when it is offered again
	}
	if len(changes) > 0 {
		_, err = r.catalog.Apply(ctx, notesSet, changes.sorted())
	}
	r.offered = err == nil
	return err
}

func (r *Repository) offeredKey() string { return keyOffered + r.opts.BaseURL + offeredEnd }

// recordedSets returns the names of the sets that were offered last, in the catalog.
func (r *Repository) recordedSets(ctx context.Context) (map[string]bool, error) {
	names := make(map[string]bool)
	base := r.offeredKey()
	for rec, err := range r.catalog.Resources(ctx, notesSet, catalog.Range{From: base, To: strings.TrimSuffix(base, offeredEnd) + "\x02"}) {
		if err != nil {
			return nil, err
		}
		names[strings.TrimPrefix(rec.URI, base)] = true
	}
	return names, nil
}

// indexedSets returns the names of the sets that have an index, in the catalog.
func (r *Repository) indexedSets(ctx context.Context) (map[string]bool, error) {
	names := make(map[string]bool)
	for _, x := range r.sets {
		if _, ok, err := x.get(ctx, keyCursor); err != nil {
			return nil, err
		} else if ok {
			names[x.Catalog] = true
		}
	}
	return names, nil
}

// renewLater has all items of the index get a new datestamp when it is updated next.
func (x *index) renewLater(ctx context.Context) error {
	select {
	case x.turn <- struct{}{}:
		defer func() { <-x.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := x.load(ctx); err != nil || x.cur.Late {
		return err
	}
	x.cur.Late = true
	return x.save(ctx)
}

// save writes the cursor without other changes.
func (x *index) save(ctx context.Context) error {
	err := newBatch(x, 0).flush(ctx)
	if err != nil {
		x.cur, x.fmts = nil, nil
	}
	return err
}
