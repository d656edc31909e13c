package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"

	"lockstep/hub/hubstore"
	"lockstep/storage/internal/column"
)

// A topicRow is a row of hub_topic, without the hub's state.
type topicRow struct {
	id, first, last, bytes int64
}

// size returns the approximate size of a message, at least 1.
func (t *topicRow) size() int64 { return max(t.bytes/max(t.last-t.first+1, 1), 1) }

// Append implements [hubstore.Store]. It locks rows in the order of their URLs, so
// that no two Appends deadlock.
func (h *Hub) Append(ctx context.Context, messages []hubstore.Message) ([]int64, error) {
	if err := hubstore.CheckMessages(messages); err != nil {
		return nil, fmt.Errorf("append messages: %w", err)
	}
	seqs := make([]int64, len(messages))
	if len(messages) == 0 {
		return seqs, ctx.Err()
	}
	h.db.often.compile(ctx, h.db.write)
	err := h.db.Update(ctx, func(tx *sql.Tx) error {
		topics, err := h.lockTopics(ctx, tx, messages)
		if err != nil {
			return fmt.Errorf("lock topics: %w", err)
		}
		if err := h.putMessages(ctx, tx, topics, messages, seqs); err != nil {
			return fmt.Errorf("write messages: %w", err)
		}
		if err := h.putTopics(ctx, tx, topics); err != nil {
			return fmt.Errorf("write topics: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, h.wrap(err, "append %d messages", len(messages))
	}
	return seqs, nil
}

// lockTopics returns the rows of the messages' topics, and creates missing
// ones.
func (h *Hub) lockTopics(ctx context.Context, tx *sql.Tx, messages []hubstore.Message) (map[string]*topicRow, error) {
	topics := make(map[string]*topicRow)
	for i := range messages {
		topics[messages[i].Topic] = nil
	}
	urls := slices.Sorted(maps.Keys(topics))
	find := h.db.bulkIn(tx, `SELECT url, id, first, last, bytes FROM hub_topic WHERE url IN`).often(&h.db.often)
	find.tail = ` ORDER BY url` + h.db.dialect.ForUpdate()
	row := func(rows *sql.Rows) error {
		var url string
		t := new(topicRow)
		if err := rows.Scan(&url, &t.id, &t.first, &t.last, &t.bytes); err != nil {
			return err
		}
		topics[url] = t
		return nil
	}
	for _, url := range urls {
		if err := find.query(ctx, row, url); err != nil {
			return nil, err
		}
	}
	if err := find.flushQuery(ctx, row); err != nil {
		return nil, err
	}
	put := h.db.bulk(tx, insertTopic, 7, ``)
	var id int64
	for _, url := range urls {
		if topics[url] != nil {
			continue
		}
		if id == 0 {
			var err error
			if id, err = nextID(ctx, tx, "hub_topic"); err != nil {
				return nil, err
			}
		}
		topics[url] = &topicRow{id: id, first: 1}
		if err := put.exec(ctx, id, url, 1, 0, 0, nil, 0); err != nil {
			return nil, err
		}
		id++
	}
	return topics, put.flush(ctx)
}

const insertTopic = `INSERT INTO hub_topic (id, url, first, last, bytes, state, mark) VALUES`

// putMessages writes the messages and records their numbers in seqs and in the
// topics.
func (h *Hub) putMessages(ctx context.Context, tx *sql.Tx, topics map[string]*topicRow, messages []hubstore.Message, seqs []int64) error {
	put := h.db.bulk(tx, `INSERT INTO hub_message (topic_id, seq, id, at, content_type, links, whole, body) VALUES`, 8, ``).often(&h.db.often)
	for i := range messages {
		m := &messages[i]
		t := topics[m.Topic]
		t.last++
		t.bytes += int64(len(m.Body))
		seqs[i] = t.last
		body, whole := m.Body, 0
		if body == nil {
			body = []byte{} // nil is NULL
		}
		if m.Whole {
			whole = 1
		}
		err := put.exec(ctx, t.id, t.last, m.ID, micros(m.At), m.ContentType, column.EncodeStrings(m.Links), whole, body)
		if err != nil {
			return err
		}
	}
	return put.flush(ctx)
}

// putTopics writes the changed columns of the rows, with the number of the
// Append. It is the last step of the transaction.
func (h *Hub) putTopics(ctx context.Context, tx *sql.Tx, topics map[string]*topicRow) error {
	var mark int64
	const next = `UPDATE hub_mark SET mark = mark + 1 WHERE id = 1 RETURNING mark`
	raise, err := h.db.often.within(ctx, tx, next)
	if err != nil {
		return err
	}
	if err := raise.QueryRowContext(ctx).Scan(&mark); err != nil {
		return err
	}
	put := h.db.bulkUpdate(tx, `UPDATE hub_topic SET last = v.column2, bytes = v.column3, mark = v.column4`, `hub_topic.id`,
		"BIGINT", "BIGINT", "BIGINT", "BIGINT").often(&h.db.often)
	for _, t := range topics {
		if err := put.exec(ctx, t.id, t.last, t.bytes, mark); err != nil {
			return err
		}
	}
	return put.flush(ctx)
}

// A step of Trim deletes at most this much, so that other writers get their
// turn: this many messages, or fewer if they are large.
const (
	trimMessages = 1000
	trimBytes    = 16 << 20
)

// Trim implements [hubstore.Store].
func (h *Hub) Trim(ctx context.Context, topic string, upto int64) error {
	for more := true; more; {
		err := h.db.Update(ctx, func(tx *sql.Tx) (err error) {
			more, err = h.trim(ctx, tx, topic, upto)
			return err
		})
		if err != nil {
			return h.wrap(err, "trim log of %s up to %d", topic, upto)
		}
	}
	return nil
}

// trim does one step, and reports whether more are needed.
func (h *Hub) trim(ctx context.Context, tx *sql.Tx, topic string, upto int64) (more bool, err error) {
	const find = `SELECT id, first, last, bytes FROM hub_topic WHERE url = $1`
	var t topicRow
	err = tx.QueryRowContext(ctx, find+h.db.dialect.ForUpdate(), topic).Scan(&t.id, &t.first, &t.last, &t.bytes)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("lock topic: %w", err)
	}
	end := min(upto, t.last)
	if end < t.first {
		return false, nil
	}
	step := min(t.first-1+min(max(trimBytes/t.size(), 1), trimMessages), end)
	const sum = `SELECT COALESCE(SUM(LENGTH(body)), 0) FROM hub_message WHERE topic_id = $1 AND seq <= $2`
	var bytes int64
	if err := tx.QueryRowContext(ctx, sum, t.id, step).Scan(&bytes); err != nil {
		return false, fmt.Errorf("sum up messages: %w", err)
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM hub_message WHERE topic_id = $1 AND seq <= $2`, t.id, step); err != nil {
		return false, fmt.Errorf("delete messages: %w", err)
	}
	const put = `UPDATE hub_topic SET first = $2, bytes = $3 WHERE id = $1`
	if _, err := tx.ExecContext(ctx, put, t.id, step+1, t.bytes-bytes); err != nil {
		return false, fmt.Errorf("write topic: %w", err)
	}
	return step < end, nil
}
