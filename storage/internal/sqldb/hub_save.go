package sqldb

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"lockstep/hub/hubstore"
)

// Save implements [hubstore.Store]. It writes rows in the order of their keys.
func (h *Hub) Save(ctx context.Context, c hubstore.Changes) error {
	if err := c.Check(); err != nil {
		return fmt.Errorf("save changes: %w", err)
	}
	h.db.often.compile(ctx, h.db.write)
	err := h.db.Update(ctx, func(tx *sql.Tx) error {
		for _, step := range []struct {
			name  string
			write func() error
		}{
			{"write topics", func() error { return h.putStates(ctx, tx, c.Topics) }},
			{"write subscriptions", func() error { return h.putSubscriptions(ctx, tx, c.Put) }},
			{"remove subscriptions", func() error { return h.removeSubscriptions(ctx, tx, c.Remove) }},
			{"write progress", func() error { return h.updateProgress(ctx, tx, c.Progress) }},
			{"write requests", func() error { return h.putRequests(ctx, tx, c.Ask) }},
			{"remove requests", func() error { return h.settle(ctx, tx, c.Settle) }},
		} {
			if err := step.write(); err != nil {
				return fmt.Errorf("%s: %w", step.name, err)
			}
		}
		return nil
	})
	if err != nil {
		return h.wrap(err, "save changes")
	}
	return nil
}

func (h *Hub) putStates(ctx context.Context, tx *sql.Tx, topics []hubstore.Topic) error {
	for i := range topics {
		t := &topics[i]
		res, err := tx.ExecContext(ctx, `UPDATE hub_topic SET state = $2 WHERE url = $1`, t.URL, t.State)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		if err != nil {
			return err
		}
		if n > 0 {
			continue
		}
		id, err := nextID(ctx, tx, "hub_topic")
		if err != nil {
			return err
		}
		const insert = insertTopic + ` ($1, $2, 1, 0, 0, $3, 0)`
		if _, err := tx.ExecContext(ctx, insert, id, t.URL, t.State); err != nil {
			return err
		}
	}
	return nil
}

// removeSubscriptions deletes the rows that the removals are for.
func (h *Hub) removeSubscriptions(ctx context.Context, tx *sql.Tx, removals []hubstore.Removal) error {
	byKey := make(map[hubstore.Key][]hubstore.Removal, len(removals))
	for _, r := range removals {
		byKey[r.Key] = append(byKey[r.Key], r)
	}
	return h.removeWhere(ctx, tx, slices.Sorted(maps.Keys(byKey)), "created, expires", func(k hubstore.Key, created, expires time.Time) bool {
		return slices.ContainsFunc(byKey[k], func(r hubstore.Removal) bool { return r.Matches(created, expires) })
	}, "hub_subscription", "hub_progress")
}

// progressColumns are the columns of hub_progress except the key.
const progressColumns = `cursor, attempts, next, failing, last_error, last_taken, taken, given_up`

func (h *Hub) putSubscriptions(ctx context.Context, tx *sql.Tx, subscriptions []hubstore.Subscription) error {
	put := h.db.bulk(tx, `INSERT INTO hub_subscription (key, topic, callback, secret, created, expires) VALUES`, 6,
		` ON CONFLICT (key) DO UPDATE SET topic = excluded.topic, callback = excluded.callback, secret = excluded.secret,
		created = excluded.created, expires = excluded.expires`)
	progress := h.db.bulk(tx, `INSERT INTO hub_progress (key, `+progressColumns+`) VALUES`, 9,
		` ON CONFLICT (key) DO UPDATE SET cursor = excluded.cursor, attempts = excluded.attempts, next = excluded.next,
		failing = excluded.failing, last_error = excluded.last_error, last_taken = excluded.last_taken, taken = excluded.taken,
		given_up = excluded.given_up`)
	for _, s := range lastByKey(subscriptions, func(s *hubstore.Subscription) hubstore.Key { return s.Key }) {
		if err := put.exec(ctx, string(s.Key), s.Topic, s.Callback, s.Secret, micros(s.Created), micros(s.Expires)); err != nil {
			return err
		}
	}
	if err := put.flush(ctx); err != nil {
		return err
	}
	for _, s := range lastByKey(subscriptions, func(s *hubstore.Subscription) hubstore.Key { return s.Key }) {
		if err := progress.exec(ctx, progressArgs(s.Key, &s.Progress)...); err != nil {
			return err
		}
	}
	return progress.flush(ctx)
}

// updateProgress updates existing rows.
func (h *Hub) updateProgress(ctx context.Context, tx *sql.Tx, progress map[hubstore.Key]hubstore.Progress) error {
	put := h.db.bulkUpdate(tx, `UPDATE hub_progress SET cursor = v.column2, attempts = v.column3, next = v.column4,
		failing = v.column5, last_error = v.column6, last_taken = v.column7, taken = v.column8, given_up = v.column9`, `hub_progress.key`,
		"TEXT", "BIGINT", "BIGINT", "BIGINT", "BIGINT", "TEXT", "BIGINT", "BIGINT", "BIGINT").often(&h.db.often)
	for _, k := range slices.Sorted(maps.Keys(progress)) {
		p := progress[k]
		if err := put.exec(ctx, progressArgs(k, &p)...); err != nil {
			return err
		}
	}
	return put.flush(ctx)
}

func progressArgs(k hubstore.Key, p *hubstore.Progress) []any {
	return []any{string(k), p.Cursor, p.Attempts, micros(p.Next), micros(p.Failing), p.LastError, micros(p.LastTaken), p.Taken, p.GivenUp}
}

func (h *Hub) putRequests(ctx context.Context, tx *sql.Tx, requests []hubstore.Request) error {
	put := h.db.bulk(tx, `INSERT INTO hub_request (key, mode, topic, callback, secret, lease, verify_token, at, attempts, next) VALUES`, 10,
		` ON CONFLICT (key) DO UPDATE SET mode = excluded.mode, topic = excluded.topic, callback = excluded.callback,
		secret = excluded.secret, lease = excluded.lease, verify_token = excluded.verify_token, at = excluded.at,
		attempts = excluded.attempts, next = excluded.next
		WHERE excluded.attempts = 0 OR COALESCE(hub_request.at, 0) = COALESCE(excluded.at, 0)`)
	for _, r := range lastByKey(requests, func(r *hubstore.Request) hubstore.Key { return r.Key }) {
		if err := put.exec(ctx, string(r.Key), r.Mode, r.Topic, r.Callback, r.Secret, int64(r.Lease/time.Microsecond),
			r.VerifyToken, micros(r.At), r.Attempts, micros(r.Next)); err != nil {
			return err
		}
	}
	return put.flush(ctx)
}

// settle deletes those of the requests that no other one has replaced.
func (h *Hub) settle(ctx context.Context, tx *sql.Tx, requests []hubstore.Request) error {
	type id struct{ key, at any }
	keys, settled := make(map[hubstore.Key]bool, len(requests)), make(map[id]bool, len(requests))
	for i := range requests {
		keys[requests[i].Key], settled[id{requests[i].Key, requests[i].At.UnixMicro()}] = true, true
	}
	return h.removeWhere(ctx, tx, slices.Sorted(maps.Keys(keys)), "at, at", func(k hubstore.Key, at, _ time.Time) bool {
		return settled[id{k, at.UnixMicro()}]
	}, "hub_request")
}

// removeWhere deletes those rows of the keys, which are in order, from tables whose two times in the first one match.
func (h *Hub) removeWhere(ctx context.Context, tx *sql.Tx, keys []hubstore.Key, times string, match func(hubstore.Key, time.Time, time.Time) bool, tables ...string) error {
	var matching []hubstore.Key
	find := h.db.bulkIn(tx, `SELECT key, `+times+` FROM `+tables[0]+` WHERE key IN`)
	find.tail = ` ORDER BY key` + h.db.dialect.ForUpdate()
	row := func(rows *sql.Rows) error {
		var key hubstore.Key
		var first, second sql.NullInt64
		err := rows.Scan(&key, &first, &second)
		if match(key, timeOf(first), timeOf(second)) {
			matching = append(matching, key)
		}
		return err
	}
	for _, k := range keys {
		if err := find.query(ctx, row, string(k)); err != nil {
			return err
		}
	}
	if err := find.flushQuery(ctx, row); err != nil {
		return err
	}
	for _, table := range tables {
		remove := h.db.bulkIn(tx, `DELETE FROM `+table+` WHERE key IN`)
		for _, k := range matching {
			if err := remove.exec(ctx, string(k)); err != nil {
				return err
			}
		}
		if err := remove.flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

// lastByKey returns the last value of each key, ordered by key: no statement
// may write a row twice.
func lastByKey[T any](values []T, key func(*T) hubstore.Key) []*T {
	last := make([]*T, len(values))
	for i := range values {
		last[i] = &values[i]
	}
	slices.SortStableFunc(last, func(a, b *T) int { return cmp.Compare(key(a), key(b)) })
	kept := last[:0]
	for i, v := range last {
		if i+1 == len(last) || key(last[i+1]) != key(v) {
			kept = append(kept, v)
		}
	}
	return kept
}
