package repository

import (
	"context"
	"slices"

	"lockstep/catalog"
)

// An identifier is that of one item. A resource whose record has the identifier of
// another item is an item by its URI, and claims the identifier: it gets it when the
// other item is deleted, or has another identifier. So a record that moves from one
// resource to another is not reported as deleted, in whichever order the two change.
//
// An identifier that no item has any more is that of a deleted item, whose URI is
// tombstoneURI followed by the identifier.
const tombstoneURI = "\x02"

// owner returns the item with an identifier; is is nil if there is none.
func (b *batch) owner(ctx context.Context, identifier string) (uri string, is *row, err error) {
	uri, ok := b.owners[identifier]
	if !ok {
		if uri, _, err = b.x.get(ctx, keyIdentifier+identifier); err != nil {
			return "", nil, err
		}
		b.owners[identifier] = uri
	}
	if uri == "" {
		uri = identifier
	}
	if is, err = b.row(ctx, uri); err != nil || is == nil || identifierOf(uri, is.Identifier) != identifier {
		return "", nil, err
	}
	return uri, is, nil
}

// prepare reads the owners of the identifiers of some resources together: one read for
// each would take longer than everything else.
func (b *batch) prepare(ctx context.Context, recs []catalog.Record) error {
	var ids []string
	for i := range recs {
		ids = append(ids, identifierOf(recs[i].URI, escapedURI(recs[i].URI)))
		if id := recordID(&recs[i]); id != "" {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	uris, err := b.x.named(ctx, ids)
	for _, id := range ids {
		b.owners[id] = uris[id]
	}
	return err
}

// identify determines the identifier of a resource's item, or what it claims. former is
// the item that had the identifier until now.
func (b *batch) identify(ctx context.Context, r *catalog.Record, now *row) (former *row, err error) {
	id := recordID(r)
	now.Identifier, now.Claim = escapedURI(r.URI), ""
	if id == "" {
		return nil, nil
	}
	uri, owner, err := b.owner(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case owner == nil:
		if other, err := b.row(ctx, id); err != nil || other != nil && !other.Deleted {
			now.Claim = id // it is the URI of another resource
			return nil, err
		}
	case uri != r.URI && !owner.Deleted:
		if stays, err := b.stays(ctx, uri, owner, id); err != nil || stays {
			now.Claim = id
			return nil, err
		}
	}
	now.Identifier = id
	return owner, nil
}

// stays reports whether an item retains its identifier: its resource has not been
// deleted or changed to another record, by a change that follows.
func (b *batch) stays(ctx context.Context, uri string, is *row, id string) (bool, error) {
	r, ok, err := catalog.Find(ctx, b.x.catalog, b.x.Catalog, uri)
	if err != nil || !ok {
		return false, err
	}
	own := recordID(&r)
	return r.Seq == is.Seq || own == id || own == "" && identifierOf(uri, escapedURI(uri)) == id, nil
}

// displace makes room for the item now at a URI, if another item has its identifier.
// It returns false if the identifier is not available to a deleted item.
func (b *batch) displace(ctx context.Context, uri string, now *row) (bool, error) {
	id := identifierOf(uri, now.Identifier)
	at, other, err := b.owner(ctx, id)
	if err != nil || other == nil || at == uri {
		return err == nil, err
	}
	if now.Deleted {
		return false, nil
	}
	now.inherit(other)
	own := escapedURI(at)
	if other.Deleted || now.Identifier != escapedURI(uri) || identifierOf(at, own) == id {
		return true, b.withdraw(ctx, at, other)
	}
	// A resource has the identifier that is its URI, whatever claims it.
	moved := other.clone()
	moved.Identifier, moved.Claim = own, id
	moved.date(b.fresh())
	return true, b.swap(ctx, at, other, moved)
}

// release handles the identifier that the item at a URI had before it became now: an
// item that claims it gets it, otherwise it is that of a deleted item.
func (b *batch) release(ctx context.Context, uri string, old, now *row) error {
	id := identifierOf(uri, old.Identifier)
	if id != identifierOf(uri, now.Identifier) {
		if err := b.addTombstone(ctx, id, old); err != nil {
			return err
		}
	} else if !now.Deleted {
		return nil
	}
	if err := b.handOver(ctx, id); err != nil || !now.Deleted || id == uri {
		return err
	}
	return b.handOver(ctx, uri)
}

// addTombstone makes a deleted item of an identifier that no item has any more.
func (b *batch) addTombstone(ctx context.Context, id string, old *row) error {
	if _, owner, err := b.owner(ctx, id); err != nil || owner != nil {
		return err
	}
	tombstone := &row{Spot: old.Spot, Deleted: true, Identifier: id, Collections: old.Collections}
	if !old.Deleted {
		tombstone.Spot = b.fresh()
	}
	tombstone.inherit(old)
	return b.swap(ctx, tombstoneURI+id, nil, tombstone)
}

// handOver gives an identifier to an item that claims it, unless another has it.
func (b *batch) handOver(ctx context.Context, id string) error {
	if _, owner, err := b.owner(ctx, id); err != nil || owner != nil && !owner.Deleted {
		return err
	}
	uri, is, err := b.claimant(ctx, id)
	if err != nil || is == nil {
		return err
	}
	now := is.clone()
	now.Identifier, now.Claim = id, ""
	now.date(b.fresh())
	return b.replace(ctx, uri, is, now)
}

// claimant returns the first item that claims an identifier; is is nil if there is none.
func (b *batch) claimant(ctx context.Context, id string) (uri string, is *row, err error) {
	begin := keyClaim + id + claimEnd
	check := func(uri string) (bool, error) {
		r, err := b.row(ctx, uri)
		if err == nil && r != nil && !r.Deleted && r.Claim == id {
			is = r
		}
		return is != nil, err
	}
	for r, err := range b.x.catalog.Resources(ctx, b.x.name, catalog.Range{From: begin, To: keyClaim + id + "\x02"}) {
		if err != nil {
			return "", nil, err
		}
		uri = r.URI[len(begin):]
		if found, err := check(uri); err != nil || found {
			return uri, is, err
		}
	}
	for _, uri := range b.claims[id] {
		if found, err := check(uri); err != nil || found {
			return uri, is, err
		}
	}
	return "", nil, nil
}

// mend repairs the identifier of an item in an index of an earlier version, which lost
// the owners of identifiers that had changed hands, and knew no claims. r is the item's
// resource, nil if there is none.
func (b *batch) mend(ctx context.Context, uri string, is *row, r *catalog.Record) error {
	if is.Identifier != "" {
		owner, other, err := b.owner(ctx, is.Identifier)
		switch {
		case err != nil:
			return err
		case other == nil:
			b.own(uri, is)
		case owner != uri && is.Deleted:
			return b.withdraw(ctx, uri, is)
		}
	}
	if r == nil || is.Deleted {
		return nil
	}
	now := is.clone()
	if _, err := b.identify(ctx, r, now); err != nil || now.Identifier == is.Identifier && now.Claim == is.Claim {
		return err
	}
	if now.Identifier != is.Identifier {
		now.date(b.fresh())
	}
	return b.replace(ctx, uri, is, now)
}

// own records the identifier of an item, and what it claims.
func (b *batch) own(uri string, is *row) {
	if is.Identifier != "" {
		b.updates.set(keyIdentifier+is.Identifier, uri)
		b.owners[is.Identifier] = uri
	}
	if is.Claim != "" {
		b.updates.set(keyClaim+is.Claim+claimEnd+uri, "")
		b.claims[is.Claim] = append(b.claims[is.Claim], uri)
	}
}

// disown removes what own has recorded. The identifier may be that of another item
// since this one was deleted.
func (b *batch) disown(ctx context.Context, uri string, is *row) error {
	if is.Claim != "" {
		b.updates.drop(keyClaim + is.Claim + claimEnd + uri)
	}
	if is.Identifier == "" {
		return nil
	}
	owner, _, err := b.owner(ctx, is.Identifier)
	if err == nil && owner == uri {
		b.updates.drop(keyIdentifier + is.Identifier)
		b.owners[is.Identifier] = ""
	}
	return err
}
