package repository

import (
	"context"
	"slices"

	"lockstep/catalog"
)

// An item that is in several sets is one record, which names them all; it is
// deleted when it has left the last (OAI-PMH 2.0, 2.6). Every set has an index of
// its own, so for each part of a list the other indexes are searched for its
// items: these are adjacent there, and cost a read or two in each set.

// A standing is the state of an item in a set.
type standing struct {
	*index
	uri string
	row *row
}

// standings returns the states of items in the sets, by identifier, in the
// order of the sets. It sorts the identifiers.
func (a *answer) standings(ctx context.Context, identifiers []string) (map[string][]standing, error) {
	slices.Sort(identifiers)
	identifiers = slices.Compact(identifiers)
	all := make(map[string][]standing, len(identifiers))
	for _, x := range a.sets {
		uris, err := x.named(ctx, identifiers)
		if err != nil {
			return nil, err
		}
		uriOf := func(id string) string {
			if uri, ok := uris[id]; ok {
				return uri
			}
			return id
		}
		keys := make([]string, 0, len(identifiers))
		for _, id := range identifiers {
			keys = append(keys, keyURI+uriOf(id))
		}
		slices.Sort(keys)
		found, err := among(ctx, x.catalog, x.name, keys)
		if err != nil {
			return nil, err
		}
		for _, id := range identifiers {
			uri := uriOf(id)
			r := found[keyURI+uri]
			if r == nil {
				continue
			}
			is, err := parseRow(uri, r.Token)
			if err != nil {
				return nil, err
			}
			if identifierOf(uri, is.Identifier) == id {
				all[id] = append(all[id], standing{x, uri, is})
			}
		}
	}
	return all, nil
}

// named returns the URIs of items that differ from their identifiers, which are in order.
func (x *index) named(ctx context.Context, identifiers []string) (map[string]string, error) {
	keys := make([]string, len(identifiers))
	for i, id := range identifiers {
		keys[i] = keyIdentifier + id
	}
	found, err := among(ctx, x.catalog, x.name, keys)
	if err != nil {
		return nil, err
	}
	uris := make(map[string]string, len(found))
	for key, r := range found {
		uris[key[len(keyIdentifier):]] = r.Token
	}
	return uris, nil
}

// A place is an item at its position in a list, with the data of its record.
type place struct {
	index     *index // the set that provides the record, ...
	listed           // ... and its entry there
	in        string // the set whose list it is in, ...
	at        spot   // ... and its position
	date      int64  // datestamp in microseconds
	specs     []string
	elsewhere bool // another set of the list provides it
}

// merge determines the records of items in view of all sets.
func (a *answer) merge(ctx context.Context, l *listing, sets []*index, items []place) error {
	if len(a.sets) == 1 {
		return nil
	}
	identifiers := make([]string, len(items))
	for i := range items {
		identifiers[i] = identifierOf(items[i].uri, items[i].identifier)
	}
	all, err := a.standings(ctx, slices.Clone(identifiers))
	if err != nil {
		return err
	}
	for i := range items {
		items[i].merge(l, sets, all[identifiers[i]])
	}
	return nil
}

func (p *place) merge(l *listing, sets []*index, all []standing) {
	own := slices.Index(sets, p.index)
	var within, holding []string
	for _, s := range all {
		if !s.row.Deleted {
			holding = append(holding, specs(s.Name, s.row.Collections)...)
		}
		i := slices.Index(sets, s.index)
		if i < 0 {
			continue
		}
		if i != own {
			within = append(within, specs(s.Name, s.row.Collections)...)
		} else {
			within = append(within, p.specs...) // also those that it has left
		}
		other, ok := s.row.in(s.uri, l.Prefix)
		if i == own || !ok {
			continue
		}
		if other.spot.At <= l.Until {
			p.date = max(p.date, other.spot.At)
		}
		// Items that changed since the list began may have been missed: a duplicate is
		// better than a missing item.
		if i < own && other.spot.after(l.From) && other.spot.At <= min(l.Until, l.Began) {
			p.elsewhere = true
		}
		if p.gone && !other.gone {
			p.index, p.listed = s.index, other
		}
	}
	if p.gone {
		p.specs = within
	} else {
		p.specs = holding
	}
}

// place returns the item of a GetRecord request in the requested format; ok is
// false if it is not available in it, known reports whether the item exists.
func (a *answer) place(ctx context.Context) (p place, known, ok bool, err error) {
	all, err := a.standings(ctx, []string{a.q.Identifier})
	if err != nil {
		return p, false, false, err
	}
	var date int64
	for _, s := range all[a.q.Identifier] {
		item, is := s.row.in(s.uri, a.q.MetadataPrefix)
		if !is {
			continue
		}
		date = max(date, item.spot.At)
		if !ok || p.gone && !item.gone {
			p, ok = newPlace(s.index, item), true
		}
	}
	l := &listing{Prefix: a.q.MetadataPrefix, Until: farAway}
	if ok {
		p.merge(l, a.sets, all[a.q.Identifier])
		p.date = date
	}
	return p, len(all) > 0, ok, nil
}

func newPlace(x *index, item listed) place {
	return place{index: x, listed: item, in: x.Name, at: item.spot, date: item.spot.At, specs: specs(x.Name, item.collections)}
}

// resource returns the resource of an item, nil if it was deleted.
func (p *place) resource(ctx context.Context, a *answer) (*catalog.Record, error) {
	r, ok, err := catalog.Find(ctx, p.index.catalog, p.index.Catalog, p.uri)
	if err != nil || !ok {
		return nil, err
	}
	return &r, nil
}
