package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"time"

	"lockstep/memento"
	"lockstep/storage/internal/column"
)

// aroundQuery reads, for each set that has the resource $1, its latest version
// up to $2, and the versions around the one of these that is Selected. It is one
// statement, so that it sees one state and takes one round trip.
//
// The columns are the time of the latest dropped version, and then, of each of
// five versions, At and the rest; both are NULL if there is none.
const (
	aroundQuery = `WITH r AS (
		SELECT r.set_id AS set_id, r.no AS no, r.dropped AS dropped,
			(SELECT MAX(v.at) FROM memento_version v WHERE v.set_id = r.set_id AND v.no = r.no AND v.at <= $2) AS at
		FROM memento_set s CROSS JOIN memento_resource r WHERE r.set_id = s.id AND r.uri = $1
	), selected AS (
		SELECT v.at AS at FROM r CROSS JOIN memento_version v WHERE v.set_id = r.set_id AND v.no = r.no AND v.at = r.at
		ORDER BY v.gone, v.at DESC LIMIT 1
	) SELECT r.dropped,
		r.at, (SELECT v.version FROM memento_version v WHERE v.set_id = r.set_id AND v.no = r.no AND v.at = r.at),
		(SELECT v.at` + firstMemento + `), (SELECT v.version` + firstMemento + `),
		(SELECT v.at` + prevMemento + `), (SELECT v.version` + prevMemento + `),
		(SELECT v.at` + nextMemento + `), (SELECT v.version` + nextMemento + `),
		(SELECT v.at` + lastMemento + `), (SELECT v.version` + lastMemento + `)
	FROM r ORDER BY r.set_id`

	mementos     = ` FROM memento_version v WHERE v.set_id = r.set_id AND v.no = r.no AND v.gone = 0`
	firstMemento = mementos + ` ORDER BY v.at LIMIT 1`
	prevMemento  = mementos + ` AND v.at < (SELECT at FROM selected) ORDER BY v.at DESC LIMIT 1`
	nextMemento  = mementos + ` AND v.at > COALESCE((SELECT at FROM selected), -9223372036854775807) ORDER BY v.at LIMIT 1`
	lastMemento  = mementos + ` ORDER BY v.at DESC LIMIT 1`
)

// Around implements [memento.Store].
func (v *Versions) Around(ctx context.Context, uri string, at time.Time) (memento.Around, error) {
	rows, err := v.db.queryPrepared(ctx, aroundQuery, uri, memento.Until(at))
	found, err := collect(rows, err, "resource", nil, func(f *memento.Around) error { return scanAround(rows, uri, f) })
	if err != nil {
		return memento.Around{}, fmt.Errorf("read versions of %s around %s: %w", uri, at.Format(time.RFC3339), err)
	}
	a := memento.Around{Known: len(found) > 0}
	for i := range found {
		f := &found[i]
		a.Select(f.Selected)
		earliest(&a.First, &f.First)
		latest(&a.Prev, &f.Prev)
		earliest(&a.Next, &f.Next)
		latest(&a.Last, &f.Last)
		if f.Dropped.After(a.Dropped) {
			a.Dropped = f.Dropped
		}
	}
	return a, nil
}

// scanAround reads a row of aroundQuery: the versions of one set.
func scanAround(rows *sql.Rows, uri string, a *memento.Around) error {
	var dropped sql.NullInt64
	var at [5]sql.NullInt64
	var packed [5]sql.RawBytes
	into := []any{&dropped}
	for i := range at {
		into = append(into, &at[i], &packed[i])
	}
	if err := rows.Scan(into...); err != nil {
		return err
	}
	a.Dropped = timeOf(dropped)
	for i, v := range []*memento.Version{&a.Selected, &a.First, &a.Prev, &a.Next, &a.Last} {
		if !at[i].Valid {
			continue
		}
		v.URI = uri
		if err := column.ParseVersion(at[i].Int64, packed[i], v); err != nil {
			return err
		}
	}
	return nil
}

func earliest(v, n *memento.Version) {
	if !n.IsZero() && (v.IsZero() || n.At.Before(v.At)) {
		*v = *n
	}
}

func latest(v, n *memento.Version) {
	if n.At.After(v.At) {
		*v = *n
	}
}

// List implements [memento.Store]. Reads are paged, so that a long one neither
// keeps the write-ahead log from being reused nor occupies a connection.
func (v *Versions) List(ctx context.Context, uri string, after time.Time) iter.Seq2[memento.Version, error] {
	return func(yield func(memento.Version, error) bool) {
		for n, err := range v.list(ctx, uri, after) {
			if err != nil {
				yield(memento.Version{}, fmt.Errorf("list versions of %s: %w", uri, err))
				return
			}
			if !yield(n, nil) {
				return
			}
		}
	}
}

func (v *Versions) list(ctx context.Context, uri string, after time.Time) iter.Seq2[memento.Version, error] {
	const query = `SELECT r.set_id, r.no FROM memento_set s CROSS JOIN memento_resource r
		WHERE r.set_id = s.id AND r.uri = $1 ORDER BY s.id`
	rows, err := v.db.query(ctx, query, uri)
	lives, err := collect(rows, err, "resource", nil, func(l *lifeKey) error { return rows.Scan(&l.set, &l.no) })
	if err != nil {
		return func(yield func(memento.Version, error) bool) { yield(memento.Version{}, err) }
	}
	all := make([]iter.Seq2[memento.Version, error], len(lives))
	for i, l := range lives {
		all[i] = v.life(ctx, uri, l, after.UnixMicro())
	}
	return mergeVersions(all)
}

// A lifeKey identifies a resource in one set.
type lifeKey struct{ set, no int64 }

// mergeVersions merges ordered sequences. Of versions with the same At it
// yields one, if possible one that is not Gone.
func mergeVersions(all []iter.Seq2[memento.Version, error]) iter.Seq2[memento.Version, error] {
	if len(all) == 1 {
		return all[0]
	}
	return func(yield func(memento.Version, error) bool) {
		heads := make([]versionHead, len(all))
		for i := range all {
			next, stop := iter.Pull2(all[i])
			defer stop()
			heads[i].next = next
			heads[i].step()
		}
		for {
			var first *versionHead
			for i := range heads {
				h := &heads[i]
				if h.err != nil {
					yield(memento.Version{}, h.err)
					return
				}
				if h.ok && (first == nil || h.At.Before(first.At) || h.At.Equal(first.At) && first.Gone && !h.Gone) {
					first = h
				}
			}
			if first == nil {
				return
			}
			v := first.Version
			if !yield(v, nil) {
				return
			}
			for i := range heads {
				if h := &heads[i]; h.ok && h.At.Equal(v.At) {
					h.step()
				}
			}
		}
	}
}

// A versionHead is the next version of a sequence.
type versionHead struct {
	memento.Version
	err  error
	ok   bool
	next func() (memento.Version, error, bool)
}

func (h *versionHead) step() { h.Version, h.err, h.ok = h.next() }

// life yields the versions of the resource in one set that are later than after.
func (v *Versions) life(ctx context.Context, uri string, l lifeKey, after int64) iter.Seq2[memento.Version, error] {
	const query = `SELECT at, version FROM memento_version WHERE set_id = $1 AND no = $2 AND at > $3 ORDER BY at LIMIT $4`
	return pagesFrom(after, func(n memento.Version) int64 { return n.At.UnixMicro() },
		func(after int64, page []memento.Version) ([]memento.Version, error) {
			rows, err := v.db.query(ctx, query, l.set, l.no, after, journalPage)
			return collect(rows, err, "versions", page, func(n *memento.Version) error {
				var at int64
				var packed sql.RawBytes
				if err := rows.Scan(&at, &packed); err != nil {
					return err
				}
				n.URI = uri
				return column.ParseVersion(at, packed, n)
			})
		})
}

// A walked is a version, and its position in the walk.
type walked struct {
	memento.Version
	no int64
}

// Walk implements [memento.Store].
func (v *Versions) Walk(ctx context.Context, set, from string) iter.Seq2[memento.Version, error] {
	return func(yield func(memento.Version, error) bool) {
		var id int64
		err := v.reading(ctx, func(tx *sql.Tx) (err error) {
			id, err = setID(ctx, tx, set)
			return err
		})
		if id == 0 && err == nil {
			return
		}
		last := walked{Version: memento.Version{URI: from}}
		for page := []walked(nil); err == nil; {
			page, err = v.walkPage(ctx, id, last, page[:0])
			if err != nil {
				break
			}
			for _, w := range page {
				if !yield(w.Version, nil) {
					return
				}
			}
			if len(page) < journalPage {
				return
			}
			last = page[len(page)-1]
		}
		yield(memento.Version{}, fmt.Errorf("walk the versions of %s: %w", set, err))
	}
}

// walkPage appends what follows last: the rest of its resource, and then others.
// Each page reuses the memory of the previous one.
func (v *Versions) walkPage(ctx context.Context, set int64, last walked, page []walked) ([]walked, error) {
	above := `r.uri >= $2` // the first page
	if last.no > 0 {
		above = `r.uri > $2`
		for n, err := range v.rest(ctx, set, last) {
			if err != nil {
				return nil, err
			}
			if page = append(page, walked{n, last.no}); len(page) == journalPage {
				return page, nil
			}
		}
	}
	query := `SELECT r.uri, r.no, v.at, v.version FROM memento_resource r CROSS JOIN memento_version v
		WHERE r.set_id = $1 AND ` + above + ` AND v.set_id = r.set_id AND v.no = r.no ORDER BY r.uri, v.at LIMIT $3`
	rows, err := v.db.query(ctx, query, set, last.URI, journalPage-len(page))
	return collect(rows, err, "versions", page, func(w *walked) error {
		var at int64
		var packed sql.RawBytes
		if err := rows.Scan(&w.URI, &w.no, &at, &packed); err != nil {
			return err
		}
		return column.ParseVersion(at, packed, &w.Version)
	})
}

// rest yields the versions of the same resource after last.
func (v *Versions) rest(ctx context.Context, set int64, last walked) iter.Seq2[memento.Version, error] {
	return v.life(ctx, last.URI, lifeKey{set, last.no}, last.At.UnixMicro())
}
