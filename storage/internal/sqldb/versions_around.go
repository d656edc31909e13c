package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"math"
	"time"

	"lockstep/memento"
)

// A lifeRow is a row of memento_resource.
type lifeRow struct {
	set, no  int64
	dropped  time.Time
	selected memento.Version // latest up to the instant asked for; zero: none
}

// lives returns the rows of the URI, in the order of the sets.
func (v *Versions) lives(ctx context.Context, tx *sql.Tx, uri string, until int64) ([]lifeRow, error) {
	const upto = `FROM memento_version v WHERE v.set_id = r.set_id AND v.no = r.no AND v.at <= $2 ORDER BY v.at DESC LIMIT 1`
	const query = `SELECT r.set_id, r.no, r.dropped, (SELECT v.at ` + upto + `), (SELECT v.version ` + upto + `)
		FROM memento_set s CROSS JOIN memento_resource r WHERE r.set_id = s.id AND r.uri = $1 ORDER BY s.id`
	find, err := v.db.prepare(ctx, tx, query)
	if err != nil {
		return nil, err
	}
	rows, err := find.QueryContext(ctx, uri, until)
	return collect(rows, err, "resource", nil, func(l *lifeRow) error {
		var dropped, at sql.NullInt64
		var packed sql.RawBytes
		if err := rows.Scan(&l.set, &l.no, &dropped, &at, &packed); err != nil {
			return err
		}
		l.dropped = timeOf(dropped)
		if !at.Valid {
			return nil
		}
		l.selected.URI = uri
		return parseVersion(at.Int64, packed, &l.selected)
	})
}

// Around implements [memento.Store].
func (v *Versions) Around(ctx context.Context, uri string, at time.Time) (memento.Around, error) {
	var a memento.Around
	err := v.reading(ctx, func(tx *sql.Tx) error {
		a = memento.Around{} // the reading may be repeated
		lives, err := v.lives(ctx, tx, uri, memento.Until(at))
		if err != nil {
			return err
		}
		for i := range lives {
			a.Known = true
			if lives[i].dropped.After(a.Dropped) {
				a.Dropped = lives[i].dropped
			}
			a.Select(lives[i].selected)
		}
		for i := range lives {
			if err := v.neighbours(ctx, tx, uri, &lives[i], &a); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return memento.Around{}, fmt.Errorf("read versions of %s around %s: %w", uri, at.Format(time.RFC3339), err)
	}
	return a, nil
}

// neighbours puts into a what of the resource in one set lies around Selected.
func (v *Versions) neighbours(ctx context.Context, tx *sql.Tx, uri string, l *lifeRow, a *memento.Around) error {
	const of = `, at, version FROM memento_version WHERE set_id = $1 AND no = $2 AND gone = 0`
	const query = `SELECT * FROM (SELECT 1` + of + ` ORDER BY at LIMIT 1) AS a
		UNION ALL SELECT * FROM (SELECT 2` + of + ` AND at < $3 ORDER BY at DESC LIMIT 1) AS b
		UNION ALL SELECT * FROM (SELECT 3` + of + ` AND at > $3 ORDER BY at LIMIT 1) AS c
		UNION ALL SELECT * FROM (SELECT 4` + of + ` ORDER BY at DESC LIMIT 1) AS d`
	selected := int64(math.MinInt64)
	if !a.Selected.IsZero() {
		selected = a.Selected.At.UnixMicro()
	}
	find, err := v.db.prepare(ctx, tx, query)
	if err != nil {
		return err
	}
	rows, err := find.QueryContext(ctx, l.set, l.no, selected)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var which int
		var at int64
		var packed sql.RawBytes
		if err := rows.Scan(&which, &at, &packed); err != nil {
			return err
		}
		n := memento.Version{URI: uri}
		if err := parseVersion(at, packed, &n); err != nil {
			return err
		}
		switch which {
		case 1:
			earliest(&a.First, n)
		case 2:
			latest(&a.Prev, n)
		case 3:
			earliest(&a.Next, n)
		case 4:
			latest(&a.Last, n)
		}
	}
	return rows.Err()
}

func earliest(v *memento.Version, n memento.Version) {
	if v.IsZero() || n.At.Before(v.At) {
		*v = n
	}
}

func latest(v *memento.Version, n memento.Version) {
	if n.At.After(v.At) {
		*v = n
	}
}

// List implements [memento.Store]. Readings go by pages, so that a long one
// neither stops the log from being reused nor occupies a connection.
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
	var lives []lifeRow
	err := v.reading(ctx, func(tx *sql.Tx) (err error) {
		lives, err = v.lives(ctx, tx, uri, math.MinInt64)
		return err
	})
	if err != nil {
		return func(yield func(memento.Version, error) bool) { yield(memento.Version{}, err) }
	}
	all := make([]iter.Seq2[memento.Version, error], len(lives))
	for i := range lives {
		all[i] = v.life(ctx, uri, &lives[i], after.UnixMicro())
	}
	return mergeVersions(all)
}

// mergeVersions yields what is in any of all, each of which is in order. Of
// versions with the same At one is yielded, which is not Gone if possible.
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

// A versionHead is the version that a reading has come to.
type versionHead struct {
	memento.Version
	err  error
	ok   bool
	next func() (memento.Version, error, bool)
}

func (h *versionHead) step() { h.Version, h.err, h.ok = h.next() }

// life yields the versions of the resource in one set that are later than after.
func (v *Versions) life(ctx context.Context, uri string, l *lifeRow, after int64) iter.Seq2[memento.Version, error] {
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
				return parseVersion(at, packed, n)
			})
		})
}

// A walked is a version, and where the walk is with it.
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
// A page goes where the one before was.
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
		return parseVersion(at, packed, &w.Version)
	})
}

// rest yields the versions of the same resource after last.
func (v *Versions) rest(ctx context.Context, set int64, last walked) iter.Seq2[memento.Version, error] {
	return v.life(ctx, last.URI, &lifeRow{set: set, no: last.no}, last.At.UnixMicro())
}
