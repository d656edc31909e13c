package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"time"

	"lockstep/hub/hubstore"
	"lockstep/storage/internal/column"
)

// The hub's tables (migrations/hub). Only methods of Hub write them, each in its
// transaction; the last three only methods of [hubstore.Sharer], which engines have that
// several hubs can use at a time.
//
//	hub_topic		one row for each topic
//		id			identifies the topic in the rows of its messages
//		url			the topic
//		first, last		numbers of the oldest stored message and the newest ever
//		bytes			of the stored bodies
//		state			the hub's
//		mark			number of the Append that added the newest message; 0: none
//
//	hub_mark		one row: number of the newest Append
//		mark			is raised last in a transaction and blocks other Appends from
//				then on, so that a reader that sees a number sees all
//				smaller ones
//
//	hub_message		the logs
//		topic_id, seq		the key. SQLite appends the rows side by side and finds them by an
//				index: in a table without rowid a row of more than 1,000 bytes
//				would take a page of its own
//
//	hub_subscription	one row for each subscription: the constant part
//	hub_progress		one row for each subscription: the part that every delivery changes. It
//				is a separate table because a batch of cursors, whose keys are in
//				no order, modifies as many pages as there are rows, up to all
//				pages: narrow rows need a fifth of the pages
//
//	hub_request		one row for each request that is not verified, and for each topic of
//				which another hub has accepted a ping
//
//	hub_owner		one row for each hub; until: when its claims end
//	hub_claim		one row for each shard that is claimed, or was
//
//	hub_replay		one row for each signed publication that was accepted, for as long as
//				it could be replayed; until: when its date is too old
//
// The keys of a shard begin with the same two digits. Times are microseconds since
// 1970, NULL for the zero Time.

// A Hub is a [hubstore.Store] in a [DB].
type Hub struct {
	db *DB
}

var (
	_ hubstore.Store   = (*Hub)(nil)
	_ hubstore.Checker = (*Hub)(nil)
)

// Hub returns the hub's store in the database.
func (db *DB) Hub() *Hub { return &Hub{db} }

// Check implements [hubstore.Checker].
func (h *Hub) Check(ctx context.Context) error { return h.db.Check(ctx) }

// One query returns this many messages, or fewer if they are large: a caller
// that stops early still has to read the rest of the page.
const (
	logMessages = 100
	logBytes    = 4 << 20
)

// Log implements [hubstore.Store].
func (h *Hub) Log(ctx context.Context, topic string, after int64) iter.Seq2[hubstore.Message, error] {
	return func(yield func(hubstore.Message, error) bool) {
		err := h.log(ctx, topic, after, func(m hubstore.Message) bool { return yield(m, nil) })
		if err != nil {
			yield(hubstore.Message{}, h.wrap(err, "read log of %s", topic))
		}
	}
}

func (h *Hub) log(ctx context.Context, topic string, after int64, yield func(hubstore.Message) bool) error {
	// Two steps instead of a join: without statistics the engine would join in the
	// wrong order.
	var t topicRow
	const find = `SELECT id, first, last, bytes FROM hub_topic WHERE url = $1`
	err := h.db.Each(ctx, find, []any{topic}, func(rows *sql.Rows) (bool, error) {
		return true, rows.Scan(&t.id, &t.first, &t.last, &t.bytes)
	})
	if err != nil || t.id == 0 {
		return err
	}
	page := min(max(logBytes/t.size(), 1), logMessages)
	const query = `SELECT seq, id, at, content_type, links, whole, body FROM hub_message
		WHERE topic_id = $1 AND seq > $2 ORDER BY seq LIMIT $3`
	for n, more := page, true; more && n == page; {
		n = 0
		err := h.db.Each(ctx, query, []any{t.id, after, page}, func(rows *sql.Rows) (bool, error) {
			m, err := scanMessage(rows)
			if err != nil {
				return false, err
			}
			m.Topic = topic
			after, n = m.Seq, n+1
			more = yield(m)
			return more, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func scanMessage(rows *sql.Rows) (hubstore.Message, error) {
	var m hubstore.Message
	var at sql.NullInt64
	var links sql.RawBytes
	var whole int
	err := rows.Scan(&m.Seq, &m.ID, &at, &m.ContentType, &links, &whole, &m.Body)
	if err != nil {
		return m, err
	}
	m.At, m.Whole = timeOf(at), whole != 0
	if m.Links, err = column.DecodeStrings(links); err != nil {
		return m, fmt.Errorf("message %d: %w", m.Seq, err)
	}
	return m, nil
}

// Topics implements [hubstore.Store].
func (h *Hub) Topics(ctx context.Context) iter.Seq2[hubstore.Topic, error] {
	const query = `SELECT url, first, last, bytes, state FROM hub_topic WHERE url > $1 ORDER BY url LIMIT $2`
	return hubPages(h, "topics", "", func(t *hubstore.Topic) string { return t.URL },
		func(after string, ts []hubstore.Topic) ([]hubstore.Topic, error) {
			rows, err := h.db.query(ctx, query, after, journalPage)
			return collect(rows, err, "topics", ts, func(t *hubstore.Topic) error {
				return rows.Scan(&t.URL, &t.First, &t.Last, &t.Bytes, &t.State)
			})
		})
}

// Subscriptions implements [hubstore.Store].
func (h *Hub) Subscriptions(ctx context.Context, shard int) iter.Seq2[hubstore.Subscription, error] {
	const query = `SELECT s.key, s.topic, s.callback, s.secret, s.created, s.expires,
		p.cursor, p.attempts, p.next, p.failing, p.last_error, p.last_taken, p.taken, p.given_up
		FROM hub_subscription s JOIN hub_progress p ON p.key = s.key
		WHERE s.key > $1 AND s.key < $2 ORDER BY s.key LIMIT $3`
	from, to := keyRange(shard)
	return hubPages(h, "subscriptions", from, func(s *hubstore.Subscription) string { return string(s.Key) },
		func(after string, ss []hubstore.Subscription) ([]hubstore.Subscription, error) {
			rows, err := h.db.query(ctx, query, after, to, journalPage)
			return collect(rows, err, "subscriptions", ss, func(s *hubstore.Subscription) error {
				p := &s.Progress
				var created, expires, next, failing, taken sql.NullInt64
				err := rows.Scan(&s.Key, &s.Topic, &s.Callback, &s.Secret, &created, &expires,
					&p.Cursor, &p.Attempts, &next, &failing, &p.LastError, &taken, &p.Taken, &p.GivenUp)
				s.Created, s.Expires = timeOf(created), timeOf(expires)
				p.Next, p.Failing, p.LastTaken = timeOf(next), timeOf(failing), timeOf(taken)
				return err
			})
		})
}

// Requests implements [hubstore.Store].
func (h *Hub) Requests(ctx context.Context, shard int) iter.Seq2[hubstore.Request, error] {
	const query = `SELECT key, mode, topic, callback, secret, lease, verify_token, at, attempts, next
		FROM hub_request WHERE key > $1 AND key < $2 ORDER BY key LIMIT $3`
	from, to := keyRange(shard)
	return hubPages(h, "requests", from, func(r *hubstore.Request) string { return string(r.Key) },
		func(after string, rs []hubstore.Request) ([]hubstore.Request, error) {
			rows, err := h.db.query(ctx, query, after, to, journalPage)
			return collect(rows, err, "requests", rs, func(r *hubstore.Request) error {
				var lease int64
				var at, next sql.NullInt64
				err := rows.Scan(&r.Key, &r.Mode, &r.Topic, &r.Callback, &r.Secret, &lease, &r.VerifyToken, &at, &r.Attempts, &next)
				r.Lease, r.At, r.Next = time.Duration(lease)*time.Microsecond, timeOf(at), timeOf(next)
				return err
			})
		})
}

// keyRange returns the bounds of the keys of a shard, or of all shards.
func keyRange(shard int) (from, to string) {
	if shard < 0 {
		return "", "g"
	}
	from = fmt.Sprintf("%02x", shard)
	return from, from + "g"
}

// hubPages is [pages] for a Hub.
func hubPages[T any](h *Hub, what, from string, key func(*T) string, page func(string, []T) ([]T, error)) iter.Seq2[T, error] {
	all := pages(from, func(t T) string { return key(&t) }, page)
	return func(yield func(T, error) bool) {
		for t, err := range all {
			if err != nil {
				err = h.wrap(err, "read %s", what)
			}
			if !yield(t, err) {
				return
			}
		}
	}
}

// wrap adds the operation to an error, and converts that of a closed database.
func (h *Hub) wrap(err error, format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	if h.db.closed.Load() {
		return fmt.Errorf("%s: %w: %w", what, hubstore.ErrStore, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
