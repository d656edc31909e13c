package oaipmh

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"lockstep/internal/fetch"
	"lockstep/oaipmh"
	"lockstep/resourcesync"
)

const (
	maxLost      = 1000 // unreadable records that are requested one by one,
	maxLostAsked = 100  // and how many of these at the end of one harvest
)

// again requests the records that were not well-formed in a list, in this harvest and
// earlier ones: a harvest of changes would not list them again. A record that is still
// not well-formed is a Problem in each harvest until it is well-formed or gone.
func (v *harvest) again(ctx context.Context) error {
	m := &v.h.memory
	ids := slices.DeleteFunc(slices.Clone(m.Lost), func(id string) bool { return !v.lost[id] })
	for _, id := range v.at.Lost {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	ids = ids[:min(len(ids), maxLost)]
	if len(ids) == 0 && len(m.Lost) == 0 {
		return nil
	}
	asked := ids[:min(len(ids), maxLostAsked)]
	still := slices.Clone(ids[len(asked):])
	for _, id := range still {
		v.list.Unreadable(fetch.Printable(id), errors.New("not well-formed when it was listed; the record was not updated"))
	}
	at, sum := &piece{}, resourcesync.NewHasher(v.h.algs...)
	b := &batch{}
	for _, id := range asked {
		rec, err := v.alone(ctx, id)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case (errors.Is(err, fs.ErrNotExist) || oaipmh.HasCode(err, oaipmh.CodeIDDoesNotExist)) && !slices.Contains(v.at.Lost, id): // only a list shows deletions
			continue
		case err != nil: // this list, too, shows that the record exists
			still = append(still, id)
			v.list.Unreadable(fetch.Printable(id), err)
			continue
		}
		made, err := v.make(ctx, &rec, sum)
		if err != nil {
			return err
		}
		at.made = append(at.made[:0], made)
		if v.addTo(b, at); b.bytes < harvestBatchBytes {
			continue
		}
		if err := v.flush(ctx, b); err != nil {
			return err
		}
		b = &batch{}
	}
	if err := v.flush(ctx, b); err != nil {
		return err
	}
	v.at.Lost, m.Lost, v.dirty = nil, still, true
	return nil
}

// alone requests a single record.
func (v *harvest) alone(ctx context.Context, id string) (oaipmh.Record, error) {
	rec, err := v.h.getRecord(ctx, oaipmh.RecordURL(v.h.base, v.h.o.Prefix, id))
	switch {
	case err != nil && illegible(err):
		return rec, fmt.Errorf("not well-formed, so the record was not updated: %w", err)
	case err != nil:
		return rec, err
	case rec.Identifier != id:
		return rec, fmt.Errorf("not well-formed in the list, and GetRecord returns %s instead", fetch.Printable(rec.Identifier))
	}
	return rec, nil
}
