package repository

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"lockstep/catalog"
	"lockstep/resourcesync"
)

// follow processes the changes after the cursor.
func (x *index) follow(ctx context.Context) error {
	b := newBatch(x, 0)
	for c, err := range x.catalog.Changes(ctx, x.Catalog, x.cur.Seq) {
		if err != nil {
			return err
		}
		at := spot{At: c.EventTime.UnixMicro()}
		b.at = at.At
		if c.Change == resourcesync.Deleted {
			err = b.remove(ctx, c.URI, at)
		} else {
			err = b.put(ctx, &c.Record, at)
		}
		if err != nil {
			return err
		}
		if x.cur.Seq = c.Seq; b.full() {
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
		b := newBatch(x, x.cur.Since)
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
	if err := b.prepare(ctx, recs); err != nil {
		return "", err
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
			if err := b.compare(ctx, rest[0].URI, nil, &rest[0]); err != nil {
				return "", err
			}
			rest = rest[1:]
		}
		var now *catalog.Record
		if len(rest) > 0 && rest[0].URI == uri {
			now, rest = &rest[0], rest[1:]
		}
		if err := b.compare(ctx, uri, is, now); err != nil {
			return "", err
		}
		if uri != next && b.full() { // many were deleted: commit what is done
			return uri, nil
		}
	}
	for i := range rest {
		if err := b.compare(ctx, rest[i].URI, nil, &rest[i]); err != nil {
			return "", err
		}
		if i+1 < len(rest) && b.full() {
			return rest[i].URI, nil
		}
	}
	return next, nil
}

// compare brings an item up to date with its resource, nil if there is none.
func (b *batch) compare(ctx context.Context, uri string, is *row, r *catalog.Record) error {
	if changed, ok := b.rows[uri]; ok {
		is = changed // in this batch, as the owner of an identifier
	}
	b.loaded[uri] = is
	if b.x.cur.Mend && is != nil {
		if err := b.mend(ctx, uri, is, r); err != nil {
			return err
		}
		var err error
		if is, err = b.row(ctx, uri); err != nil {
			return err
		}
	}
	cur := b.x.cur
	switch {
	case r == nil && (is == nil || is.Deleted && !cur.Renew):
		return nil
	case r == nil && !is.Deleted:
		return b.removed(ctx, uri, is, b.fresh())
	case r != nil && (is == nil || !is.isOf(r)):
		at := timeOf(r)
		if cur.Renew {
			at = b.fresh()
		}
		return b.add(ctx, r, is, at)
	}
	now := is.clone()
	if cur.Reformat && r != nil {
		var err error
		if now, err = b.read(ctx, r, is); err != nil {
			return err
		}
	}
	switch {
	case cur.Renew || !now.isLike(is):
		now.date(b.fresh())
	case !cur.Reformat:
		return nil
	default:
		now.date(is.Spot)
	}
	return b.replace(ctx, uri, is, now)
}

func timeOf(r *catalog.Record) spot { return spot{At: r.EventTime.UnixMicro()} }

// A batch is changes of the index that are written in one transaction, with the
// cursor.
type batch struct {
	x       *index
	began   time.Time
	updates updates
	at      int64               // when the changes were made or noticed, in microseconds
	rows    map[string]*row     // the new state of changed items; nil: there is none any more
	loaded  map[string]*row     // that of others; likewise
	owners  map[string]string   // the URIs of items, by identifier, as far as known; "" means none that differs from it
	claims  map[string][]string // the URIs of items, by the identifiers that they claim now
	known   map[string]bool     // specs of collections that the index has
}

// newBatch returns an empty batch of changes that were made or noticed at a time.
func newBatch(x *index, at int64) *batch {
	return &batch{
		x: x, at: at, began: time.Now(), updates: make(updates),
		rows: make(map[string]*row), loaded: make(map[string]*row), owners: make(map[string]string), claims: make(map[string][]string), known: make(map[string]bool),
	}
}

// fresh returns a spot for an item that changes although its resource does not, after
// all that has been listed before.
func (b *batch) fresh() spot {
	b.x.cur.Gone++ // numbers start at 1: a change may have exactly this time
	return spot{At: b.at, Number: b.x.cur.Gone}
}

// batchTime is how long a batch may take: a request that waits for the index ends it after some
// seconds, and what is not recorded then is done again.
const batchTime = 2 * time.Second

// full reports whether the batch is large enough for a transaction, or for memory, or has
// taken long enough.
func (b *batch) full() bool {
	return len(b.rows) >= batchItems || len(b.loaded) >= 8*batchItems || time.Since(b.began) >= batchTime
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
	if r, ok := b.rows[uri]; ok {
		return r, nil
	}
	if r, ok := b.loaded[uri]; ok {
		return r, nil
	}
	r, err := b.x.row(ctx, uri)
	if err == nil {
		b.loaded[uri] = r
	}
	return r, err
}

// add makes an item of a resource; old is its previous state, or nil.
func (b *batch) add(ctx context.Context, r *catalog.Record, old *row, at spot) error {
	now, err := b.read(ctx, r, old)
	if err != nil {
		return err
	}
	now.date(at)
	return b.replace(ctx, r.URI, old, now)
}

// read returns the item of a resource, which is recorded if its content cannot be read at
// present.
func (b *batch) read(ctx context.Context, r *catalog.Record, old *row) (*row, error) {
	now, unread, err := b.item(ctx, r, old)
	if unread != nil {
		b.x.opts.Logger.WarnContext(ctx, "cannot be read now for harvesters", slog.String("set", b.x.Name), slog.String("uri", r.URI), slog.Any("err", unread))
		b.updates.set(keyUnread+r.URI, "")
	}
	return now, err
}

// item returns the item of a resource; unread says why its content cannot be read at
// present.
func (b *batch) item(ctx context.Context, r *catalog.Record, old *row) (now *row, unread, err error) {
	now = &row{Spot: timeOf(r), Seq: r.Seq}
	former, err := b.identify(ctx, r, now)
	if err != nil {
		return nil, nil, err
	}
	if old == nil || old.Deleted {
		old = former // the record has moved
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
	if err := b.swap(ctx, uri, old, now); err != nil || old == nil {
		return err
	}
	return b.release(ctx, uri, old, now)
}

// swap replaces the state old of an item by now, but leaves its former identifier to no
// item.
func (b *batch) swap(ctx context.Context, uri string, old, now *row) error {
	if old != nil {
		if err := b.withdraw(ctx, uri, old); err != nil {
			return err
		}
		now.inherit(old)
	}
	if ok, err := b.displace(ctx, uri, now); err != nil || !ok {
		return err
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
	b.own(uri, now)
	b.updates.setJSON(keyURI+uri, now)
	b.rows[uri] = now
	b.x.cur.Items++
	return nil
}

// withdraw removes an item without a trace.
func (b *batch) withdraw(ctx context.Context, uri string, is *row) error {
	if err := b.disown(ctx, uri, is); err != nil {
		return err
	}
	for _, c := range slices.Concat([]string{""}, is.Collections, is.Left) {
		for _, f := range slices.Concat([]string{""}, is.Formats, is.Former) {
			b.updates.drop(keyList + family(c, f) + familyEnd + is.Spot.String())
		}
	}
	b.updates.drop(keyURI + uri)
	b.rows[uri] = nil
	b.x.cur.Items--
	return nil
}

// list adds an item to the lists of a collection, or with "" to those of all items.
func (b *batch) list(collection string, now *row, item listed) {
	put := func(format string) {
		b.updates.set(keyList+family(collection, format)+familyEnd+now.Spot.String(), item.value())
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

// flush writes the batch and the cursor.
func (b *batch) flush(ctx context.Context) error {
	b.updates.setJSON(keyCursor, b.x.cur)
	_, err := b.x.catalog.Apply(ctx, b.x.name, b.updates.sorted())
	clear(b.updates)
	clear(b.rows)
	clear(b.loaded)
	clear(b.owners)
	clear(b.claims)
	clear(b.known)
	b.began = time.Now()
	return err
}

// updates are changes of the index, by key.
type updates map[string]catalog.Update

func (u updates) sorted() []catalog.Update {
	list := make([]catalog.Update, 0, len(u))
	for _, key := range slices.Sorted(maps.Keys(u)) {
		list = append(list, u[key])
	}
	return list
}

func (u updates) drop(key string) {
	u[key] = catalog.Update{Record: catalog.Record{URI: key}, Deleted: true}
}

func (u updates) set(key, value string) {
	u[key] = catalog.Update{Record: catalog.Record{URI: key, Length: -1, Token: value}}
}

func (u updates) setJSON(key string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // unreachable: structs of strings and numbers
	}
	u.set(key, string(text))
}
