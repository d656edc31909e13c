package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/storage/internal/column"
)

// applyChunk is how many updates of an Apply are processed at once. It bounds
// memory; the transaction spans them all.
const applyChunk = 4_000

// Apply implements [catalog.Catalog].
func (c *Catalog) Apply(ctx context.Context, set string, updates []catalog.Update) (catalog.Applied, error) {
	if err := catalog.Check(set, updates); err != nil {
		return catalog.Applied{}, err
	}
	var done catalog.Applied
	err := c.change(ctx, set, func(tx *sql.Tx, s *setRow) error {
		a := c.newApply(tx, s, len(updates))
		if err := a.highest(ctx); err != nil {
			return fmt.Errorf("look up resources: %w", err)
		}
		for chunk := range slices.Chunk(updates, applyChunk) {
			a.rest -= len(chunk)
			if err := a.chunk(ctx, chunk); err != nil {
				return err
			}
		}
		done = a.done
		if done.Created+done.Updated+done.Deleted == 0 && !a.refreshed {
			return nil
		}
		return s.save(ctx, tx)
	})
	if err != nil {
		return catalog.Applied{}, fmt.Errorf("apply %d updates to %s: %w", len(updates), set, err)
	}
	return done, nil
}

// An apply is the state of one Apply.
type apply struct {
	set  *setRow
	tx   *sql.Tx
	now  time.Time
	rest int    // number of updates after this chunk
	last string // the last URI of the set
	done catalog.Applied

	refreshed bool // some resources were

	find, put, remove, record, refresh *bulk

	// The current chunk:
	touched []touched // ordered by URI
	index   []int32   // index in touched of the i-th update's URI
	changes []change  // in the order of the updates

	packed []byte // encoded records, which a bulk refers to
}

// A touched is one URI of a chunk.
type touched struct {
	uri    string
	before bool           // it was in the set before
	is     bool           // it is in the set now
	write  bool           // its row must be written
	again  bool           // it was refreshed, as [catalog.Catalog].Refreshed says
	now    catalog.Record // valid if is
}

// A change is a change that results from the updates.
type change struct {
	change  resourcesync.Change
	touched int32
	record  *catalog.Record // of the update
}

func (c *Catalog) newApply(tx *sql.Tx, s *setRow, n int) *apply {
	return &apply{
		set: s, tx: tx, now: c.db.clock(), rest: n,
		find: c.db.bulkIn(tx, fmt.Sprintf(`SELECT uri, record FROM catalog_resource WHERE set_id = %d AND uri IN`, s.id)),
		put: c.db.bulk(tx, `INSERT INTO catalog_resource (set_id, uri, record) VALUES`, 3,
			` ON CONFLICT (set_id, uri) DO UPDATE SET record = excluded.record`),
		remove: c.db.bulkIn(tx, fmt.Sprintf(`DELETE FROM catalog_resource WHERE set_id = %d AND uri IN`, s.id)),
		record: c.db.bulk(tx, `INSERT INTO catalog_change (set_id, seq, event, change, uri, record) VALUES`, 6, ``),
		refresh: c.db.bulk(tx, `INSERT INTO catalog_refreshed (set_id, uri, at) VALUES`, 3,
			` ON CONFLICT (set_id, uri) DO UPDATE SET at = excluded.at`),
	}
}

// highest determines the last URI of the set: URIs beyond it need no lookup.
func (a *apply) highest(ctx context.Context) error {
	const query = `SELECT uri FROM catalog_resource WHERE set_id = $1 ORDER BY uri DESC LIMIT 1`
	err := a.tx.QueryRowContext(ctx, query, a.set.id).Scan(&a.last)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}

// chunk applies a part of the updates.
func (a *apply) chunk(ctx context.Context, updates []catalog.Update) error {
	a.sort(updates)
	if err := a.lookUp(ctx); err != nil {
		return fmt.Errorf("look up resources: %w", err)
	}
	a.compare(updates)
	a.number()
	if err := a.store(ctx); err != nil {
		return fmt.Errorf("write resources: %w", err)
	}
	return nil
}

// sort fills touched and index.
func (a *apply) sort(updates []catalog.Update) {
	order := make([]int32, len(updates))
	for i := range order {
		order[i] = int32(i)
	}
	byURI := func(i, j int32) int { return strings.Compare(updates[i].URI, updates[j].URI) }
	if !slices.IsSortedFunc(order, byURI) {
		slices.SortFunc(order, byURI)
	}
	a.touched = slices.Grow(a.touched[:0], len(updates))
	a.index = slices.Grow(a.index[:0], len(updates))[:len(updates)]
	for _, i := range order {
		if n := len(a.touched); n == 0 || a.touched[n-1].uri != updates[i].URI {
			a.touched = append(a.touched, touched{uri: updates[i].URI})
		}
		a.index[i] = int32(len(a.touched) - 1)
	}
}

// lookUp reads the current records of the URIs that are in the set.
func (a *apply) lookUp(ctx context.Context) error {
	var uri string
	var packed sql.RawBytes
	row := func(rows *sql.Rows) error {
		if err := rows.Scan(&uri, &packed); err != nil {
			return err
		}
		i, ok := slices.BinarySearchFunc(a.touched, uri, func(t touched, uri string) int { return strings.Compare(t.uri, uri) })
		if !ok {
			return fmt.Errorf("%q was not asked for", uri) // unreachable: the engine compares by bytes
		}
		t := &a.touched[i]
		t.before, t.is, t.now.URI = true, true, t.uri
		if err := column.ParseRecord(packed, &t.now); err != nil {
			return fmt.Errorf("resource %q: %w", uri, err)
		}
		return nil
	}
	for i := range a.touched {
		if a.touched[i].uri > a.last {
			a.last = a.touched[len(a.touched)-1].uri
			break
		}
		if err := a.find.query(ctx, row, a.touched[i].uri); err != nil {
			return err
		}
	}
	return a.find.flushQuery(ctx, row)
}

// compare determines the changes that result from the updates, and applies them
// to touched.
func (a *apply) compare(updates []catalog.Update) {
	a.changes = a.changes[:0]
	for i := range updates {
		u, t := &updates[i], &a.touched[a.index[i]]
		var kind resourcesync.Change
		switch {
		case u.Deleted && !t.is:
			a.done.Unchanged++
			continue
		case u.Deleted:
			a.done.Deleted++
			kind = resourcesync.Deleted
		case !t.is:
			a.done.Created++
			kind = resourcesync.Created
		case catalog.SameContent(&t.now, &u.Record):
			a.done.Unchanged++
			if was := t.now; catalog.Refresh(&t.now, &u.Record) {
				t.write, t.again = true, t.again || catalog.Restated(&was, &t.now)
			}
			continue
		default:
			a.done.Updated++
			kind = resourcesync.Updated
		}
		t.is, t.write, t.now = !u.Deleted, true, u.Record
		t.now.Links = catalog.Settle(t.now.Links)
		a.changes = append(a.changes, change{change: kind, touched: a.index[i], record: &u.Record})
	}
}

// number gives each change its Seq and event time.
func (a *apply) number() {
	event := catalog.FirstEvent(a.now, a.set.floor, len(a.changes)+a.rest)
	for i := range a.changes {
		a.set.lastSeq++
		a.set.lastEvent, a.set.floor = event+int64(i), event+int64(i)
		// A later change of the same URI overwrites this.
		now := &a.touched[a.changes[i].touched].now
		now.Seq, now.EventTime = a.set.lastSeq, time.UnixMicro(event+int64(i))
	}
}

// store writes the changed rows, in the order of their keys, and the changes if
// the set's history has begun.
func (a *apply) store(ctx context.Context) error {
	for i := range a.touched {
		t := &a.touched[i]
		var err error
		switch {
		case t.write && t.is:
			err = a.put.exec(ctx, a.set.id, t.uri, a.pack(a.put, &t.now))
		case t.write && t.before:
			err = a.remove.exec(ctx, t.uri)
		}
		if err != nil {
			return err
		}
		if t.is && !t.before {
			a.set.resources++
		} else if t.before && !t.is {
			a.set.resources--
		}
	}
	if err := errors.Join(a.put.flush(ctx), a.remove.flush(ctx)); err != nil {
		return err
	}
	if !a.set.keptAt.Valid {
		return nil
	}
	if err := a.storeRefreshed(ctx); err != nil || len(a.changes) == 0 {
		return err
	}
	seq := a.set.lastSeq - catalog.Seq(len(a.changes))
	event := a.set.lastEvent - int64(len(a.changes))
	for i := range a.changes {
		c := &a.changes[i]
		seq++
		event++
		var after catalog.Record // of a deletion
		if c.change != resourcesync.Deleted {
			after = *c.record
			after.Links = catalog.Settle(after.Links)
		}
		after.Seq, after.EventTime = seq, time.UnixMicro(event)
		err := a.record.exec(ctx, a.set.id, int64(seq), event, int64(c.change), a.touched[c.touched].uri, a.pack(a.record, &after))
		if err != nil {
			return err
		}
	}
	return a.record.flush(ctx)
}

// storeRefreshed records which resources of the chunk were refreshed, as an instant of
// its own.
func (a *apply) storeRefreshed(ctx context.Context) error {
	if !slices.ContainsFunc(a.touched, func(t touched) bool { return t.again }) {
		return nil
	}
	a.set.floor++
	a.refreshed = true
	for i := range a.touched {
		if t := &a.touched[i]; t.again {
			if err := a.refresh.exec(ctx, a.set.id, t.uri, a.set.floor); err != nil {
				return err
			}
		}
	}
	return a.refresh.flush(ctx)
}

// pack returns the encoded record, in memory that is valid until b has run.
func (a *apply) pack(b *bulk, r *catalog.Record) []byte {
	if b.empty() {
		a.packed = a.packed[:0]
	}
	start := len(a.packed)
	a.packed = column.AppendRecord(a.packed, r)
	return a.packed[start:len(a.packed):len(a.packed)]
}
