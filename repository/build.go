package repository

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"lockstep/catalog"
	"lockstep/resourcesync"
)

// follow processes the changes after the cursor.
func (x *index) follow(ctx context.Context) error {
	b := newBatch(x)
	for c, err := range x.catalog.Changes(ctx, x.Catalog, x.cur.Seq) {
		if err != nil {
			return err
		}
		at := spot{At: c.EventTime.UnixMicro()}
		if c.Change == resourcesync.Deleted {
			err = b.remove(ctx, c.URI, at)
		} else {
			err = b.put(ctx, &c.Record, at)
		}
		if err != nil {
			return err
		}
		if x.cur.Seq = c.Seq; len(b.rows) >= batchItems {
			if err := b.flush(ctx); err != nil {
				return err
			}
		}
	}
	return b.flush(ctx)
}

// build compares everything, a range of URIs at a time, so that neither memory
// nor a transaction grows with the set. Changes made meanwhile come after the
// cursor, and are processed afterwards.
func (x *index) build(ctx context.Context) error {
	began := time.Now()
	past, err := hex.DecodeString(x.cur.Past)
	if err != nil {
		return fmt.Errorf("how far it is: %w", err)
	}
	for last := string(past); x.cur.Building; {
		b := newBatch(x)
		if last, err = x.stretch(ctx, b, last); err != nil {
			return err
		}
		x.cur.Past = hex.EncodeToString([]byte(last))
		x.cur.Building = last != ""
		if err := b.flush(ctx); err != nil {
			return err
		}
	}
	x.opts.Logger.InfoContext(ctx, "indexed for harvesters", slog.String("set", x.Name), slog.Int64("entries", x.cur.Items), slog.Duration("dur", time.Since(began)))
	return nil
}

// stretch compares the resources after the URI past, up to batchItems of them,
// with the index, and returns the last URI it reached; "" at the end.
func (x *index) stretch(ctx context.Context, b *batch, past string) (next string, err error) {
	from := past
	if past != "" {
		from += "\x01" // no URI has a NUL byte
	}
	var recs []catalog.Record
	for r, err := range x.catalog.Resources(ctx, x.Catalog, catalog.Range{From: from}) {
		if err != nil {
			return "", err
		}
		if recs = append(recs, r); len(recs) == batchItems {
			next = r.URI
			break
		}
	}
	to := keyEnd
	if next != "" {
		to = keyURI + next + "\x01"
	}
	rest := recs
	for r, err := range x.catalog.Resources(ctx, x.name, catalog.Range{From: keyURI + from, To: to}) {
		if err != nil {
			return "", err
		}
		uri := r.URI[len(keyURI):]
		is, err := parseRow(uri, r.Token)
		if err != nil {
			return "", err
		}
		for len(rest) > 0 && rest[0].URI < uri {
			if err := b.add(ctx, &rest[0], nil, timeOf(&rest[0])); err != nil {
				return "", err
			}
			rest = rest[1:]
		}
		if len(rest) > 0 && rest[0].URI == uri {
			now := &rest[0]
			if rest = rest[1:]; x.cur.Reformat || !is.isOf(now) {
				err = b.add(ctx, now, is, timeOf(now))
			}
		} else if !is.Deleted {
			x.cur.Gone++ // numbers start at 1: a change may have exactly the time of the Mark
			err = b.removed(ctx, uri, is, spot{At: x.cur.Since, Number: x.cur.Gone})
		}
		if err == nil && len(b.rows) >= 2*batchItems { // many were deleted: commit what is done
			err = b.flush(ctx)
		}
		if err != nil {
			return "", err
		}
	}
	for i := range rest {
		if err := b.add(ctx, &rest[i], nil, timeOf(&rest[i])); err != nil {
			return "", err
		}
	}
	return next, nil
}

func timeOf(r *catalog.Record) spot { return spot{At: r.EventTime.UnixMicro()} }

// A batch is changes of the index that are written in one transaction, with the
// cursor.
type batch struct {
	x       *index
	updates []catalog.Update
	rows    map[string]*row   // the new state of changed items
	owners  map[string]string // the URIs of items whose identifiers have changed owners; "" means none
	known   map[string]bool   // specs of collections that the index has
}

func newBatch(x *index) *batch {
	return &batch{x: x, rows: make(map[string]*row), owners: make(map[string]string), known: make(map[string]bool)}
}

// put processes a resource in the state after a change.
func (b *batch) put(ctx context.Context, r *catalog.Record, at spot) error {
	old, err := b.row(ctx, r.URI)
	if err != nil || old != nil && old.isOf(r) {
		return err
	}
	return b.add(ctx, r, old, at)
}

// remove processes a deletion. A resource that was never an item is ignored.
func (b *batch) remove(ctx context.Context, uri string, at spot) error {
	old, err := b.row(ctx, uri)
	if err != nil || old == nil || old.Deleted && old.Spot == at {
		return err
	}
	return b.removed(ctx, uri, old, at)
}

func (b *batch) row(ctx context.Context, uri string) (*row, error) {
	if r := b.rows[uri]; r != nil {
		return r, nil
	}
	return b.x.row(ctx, uri)
}

// add makes an item of a resource; old is its previous state, or nil.
func (b *batch) add(ctx context.Context, r *catalog.Record, old *row, at spot) error {
	now, unread, err := b.item(ctx, r, old)
	if err != nil {
		return err
	}
	if unread != nil {
		b.x.opts.Logger.WarnContext(ctx, "cannot be read now for harvesters", slog.String("set", b.x.Name), slog.String("uri", r.URI), slog.Any("err", unread))
		b.set(keyUnread+r.URI, "")
	}
	now.date(at)
	return b.replace(ctx, r.URI, old, now)
}

// item returns the item of a resource; unread says why its content cannot be read at
// present.
func (b *batch) item(ctx context.Context, r *catalog.Record, old *row) (now *row, unread, err error) {
	now = &row{Spot: timeOf(r), Seq: r.Seq}
	if now.Identifier, err = b.identify(ctx, r); err != nil {
		return nil, nil, err
	}
	if unread, err = b.format(ctx, r, old, now); err != nil {
		return nil, nil, err
	}
	if b.x.Collections {
		if now.Collections, err = b.collections(ctx, r); err != nil {
			return nil, nil, err
		}
	}
	return now, unread, nil
}

// removed makes a deleted item of a former one.
func (b *batch) removed(ctx context.Context, uri string, old *row, at spot) error {
	return b.replace(ctx, uri, old, &row{Spot: at, Deleted: true, Identifier: old.Identifier, Collections: old.Collections})
}

// replace replaces the state old of an item by now.
func (b *batch) replace(ctx context.Context, uri string, old, now *row) error {
	if old == nil {
		b.x.cur.Items++
		old = &row{}
	} else {
		for _, c := range slices.Concat([]string{""}, old.Collections, old.Left) {
			for _, f := range slices.Concat([]string{""}, old.Formats, old.Former) {
				b.drop(keyList + family(c, f) + familyEnd + old.Spot.String())
			}
		}
	}
	for _, c := range slices.Concat(old.Collections, old.Left) {
		if !slices.Contains(now.Collections, c) && len(now.Left) < itemCollections {
			now.Left = append(now.Left, c)
		}
	}
	for _, f := range slices.Concat(old.Formats, old.Former) {
		if !slices.Contains(now.Formats, f) && len(now.Former) < itemFormats {
			now.Former = append(now.Former, f)
		}
	}
	item := listed{spot: now.Spot, uri: uri, identifier: now.Identifier, gone: now.Deleted, dublinCore: now.DublinCore, collections: now.Collections}
	for _, c := range slices.Concat([]string{""}, now.Collections) {
		b.list(c, now, item)
	}
	item.gone = true
	for _, c := range now.Left { // it is reported as deleted from the set
		item.collections = []string{c}
		b.list(c, now, item)
	}
	if err := b.own(ctx, uri, old.Identifier, now); err != nil {
		return err
	}
	b.setJSON(keyURI+uri, now)
	b.rows[uri] = now
	return nil
}

// own makes the identifier of an item its own, in place of the former one, which may
// be that of another item since this one was deleted.
func (b *batch) own(ctx context.Context, uri, former string, now *row) error {
	if former != now.Identifier && former != "" {
		owner, err := b.owner(ctx, former)
		if err != nil {
			return err
		}
		if owner == uri {
			b.drop(keyIdentifier + former)
			b.owners[former] = ""
		}
	}
	if now.Identifier == "" {
		return nil
	}
	if now.Deleted {
		if owner, err := b.owner(ctx, now.Identifier); err != nil || owner != uri && owner != "" {
			return err
		}
	}
	b.set(keyIdentifier+now.Identifier, uri)
	b.owners[now.Identifier] = uri
	return nil
}

// owner returns the URI of the item with an identifier that is not its URI, or "".
func (b *batch) owner(ctx context.Context, identifier string) (uri string, err error) {
	if uri, ok := b.owners[identifier]; ok {
		return uri, nil
	}
	uri, _, err = b.x.get(ctx, keyIdentifier+identifier)
	return uri, err
}

// list adds an item to the lists of a collection, or with "" to those of all items.
func (b *batch) list(collection string, now *row, item listed) {
	put := func(format string) {
		b.set(keyList+family(collection, format)+familyEnd+now.Spot.String(), item.value())
	}
	put("")
	for _, f := range now.Formats {
		put(f)
	}
	item.gone = true
	for _, f := range now.Former {
		put(f)
	}
}

// identify returns the identifier of an item if its URI is not the identifier.
// It returns none that identifies another item.
func (b *batch) identify(ctx context.Context, r *catalog.Record) (string, error) {
	id := recordID(r)
	if id == "" {
		return escapedURI(r.URI), nil
	}
	owner, err := b.owner(ctx, id)
	if err != nil {
		return "", err
	}
	if owner != "" && owner != r.URI {
		other, err := b.row(ctx, owner)
		if err != nil {
			return "", err
		}
		if other != nil && !other.Deleted && other.Identifier == id {
			return escapedURI(r.URI), nil
		}
	}
	if other, err := b.row(ctx, id); err != nil || other != nil {
		return escapedURI(r.URI), err // it is the URI of another resource
	}
	return id, nil
}

func (b *batch) drop(key string) {
	b.updates = append(b.updates, catalog.Update{Record: catalog.Record{URI: key}, Deleted: true})
}

func (b *batch) set(key, value string) {
	b.updates = append(b.updates, catalog.Update{Record: catalog.Record{URI: key, Length: -1, Token: value}})
}

func (b *batch) setJSON(key string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // unreachable: structs of strings and numbers
	}
	b.set(key, string(text))
}

// flush writes the batch and the cursor.
func (b *batch) flush(ctx context.Context) error {
	b.setJSON(keyCursor, b.x.cur)
	_, err := b.x.catalog.Apply(ctx, b.x.name, b.updates)
	b.updates = b.updates[:0]
	clear(b.rows)
	clear(b.owners)
	clear(b.known)
	return err
}
