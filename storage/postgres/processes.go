package postgres

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sort"
	"time"

	"lockstep/destination/share"
)

// Processes are the tables through which the processes of a shared mirror communicate:
//
//	share_process(id, name, run, divisor, open, pauses, seen, until)
//		one row for each process, written by itself; it is there until until
//	share_message(recipient, sender, number, run, kind, body)
//		written by the sender, removed by the recipient
//
// All times are those of the server, in microseconds since 1970; pauses are counted from
// seen. The coordinator is the owner of the database. Neither table is fenced: the reader of
// a message compares its run.
type Processes struct {
	name        string
	read, write *sql.DB
}

var _ share.Table = (*Processes)(nil)

// Processes returns the processes that share the mirror whose state is in the database. It
// is to be closed before db.
func (db *DB) Processes() *Processes {
	p := &Processes{name: db.name, write: pool(db.config, setUp), read: pool(db.config, setUp)}
	p.read.SetMaxOpenConns(1)
	p.write.SetMaxOpenConns(2)
	return p
}

// Close ends the connections.
func (t *Processes) Close() error {
	err := t.read.Close()
	if werr := t.write.Close(); err == nil {
		err = werr
	}
	return err
}

func (t *Processes) fail(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s of the shared mirror in %s: %w", what, t.name, dialect{}.Explain(err))
}

// Renew implements [share.Table].
func (t *Processes) Renew(ctx context.Context, p share.Process, lease time.Duration) (share.View, error) {
	v, err := t.renew(ctx, p, lease)
	return v, t.fail("renew the lease of a process", err)
}

func (t *Processes) renew(ctx context.Context, p share.Process, lease time.Duration) (v share.View, err error) {
	pauses, err := json.Marshal(p.Pauses)
	if err != nil {
		return v, err
	}
	const put = `INSERT INTO share_process (id, name, run, divisor, open, pauses, seen, until)
		VALUES ($1, $2, $3, $4, $5, $6, ` + microseconds + `, ` + microseconds + ` + $7)
		ON CONFLICT (id) DO UPDATE SET run = excluded.run, divisor = excluded.divisor, open = excluded.open, pauses = excluded.pauses, seen = excluded.seen, until = GREATEST(share_process.until, excluded.until)`
	// One statement, so that a lease can be kept if an answer takes seconds. What it writes it does not read.
	const query = `WITH own AS (` + put + `) SELECT l.token, l.until, ` + microseconds + `, p.id, p.name, p.run, p.divisor, p.open, p.pauses, p.seen, p.until
		FROM lease l LEFT JOIN share_process p ON p.id <> $1 ORDER BY p.id`
	rows, err := t.read.QueryContext(ctx, query, oneTrip, []byte(p.ID), []byte(p.Name), p.Run, p.Divisor, p.Open, pauses, lease.Microseconds())
	if err != nil {
		return v, err
	}
	defer rows.Close()
	maps.DeleteFunc(p.Pauses, func(_ string, left time.Duration) bool { return left <= 0 })
	v.Alive = []share.Process{p}
	known, ended := false, false
	for rows.Next() {
		known = true
		var end, now int64
		var id, name, pauses []byte
		var run, divisor, open, seen, until sql.NullInt64
		if err := rows.Scan(&v.Run, &end, &now, &id, &name, &run, &divisor, &open, &pauses, &seen, &until); err != nil {
			return v, err
		}
		v.Present = end > now
		if id == nil {
			break // there are no others
		}
		if until.Int64 <= now {
			ended = true
			continue
		}
		o := share.Process{ID: string(id), Name: string(name), Run: run.Int64, Divisor: int(divisor.Int64), Open: int(open.Int64)}
		if err := json.Unmarshal(pauses, &o.Pauses); err != nil {
			return v, fmt.Errorf("pauses: %w", err)
		}
		for host, left := range o.Pauses {
			if left -= time.Duration(now-seen.Int64) * time.Microsecond; left > 0 {
				o.Pauses[host] = left
			} else {
				delete(o.Pauses, host)
			}
		}
		v.Alive = append(v.Alive, o)
	}
	if err := rows.Err(); err != nil {
		return v, err
	}
	if !known {
		return v, errors.New("the table lease is empty")
	}
	sort.SliceStable(v.Alive, func(i, j int) bool { return v.Alive[i].ID < v.Alive[j].ID })
	if ended { // rows of processes that ended more than an hour ago
		const forget = `DELETE FROM share_process WHERE until < ` + microseconds + ` - 3600000000`
		_, err = t.read.ExecContext(ctx, forget)
	}
	return v, err
}

// Leave implements [share.Table].
func (t *Processes) Leave(ctx context.Context, id string) error {
	_, err := t.write.ExecContext(ctx, `DELETE FROM share_process WHERE id = $1`, id)
	return t.fail("remove a process", err)
}

// Send implements [share.Table].
func (t *Processes) Send(ctx context.Context, ms []share.Message) error {
	if len(ms) == 0 {
		return nil
	}
	to, from, bodies := make([][]byte, len(ms)), make([][]byte, len(ms)), make([][]byte, len(ms))
	numbers, runs, kinds := make([]int64, len(ms)), make([]int64, len(ms)), make([]int64, len(ms))
	for i := range ms {
		m := &ms[i]
		to[i], from[i], numbers[i], runs[i], kinds[i], bodies[i] = []byte(m.To), []byte(m.From), m.Number, m.Run, int64(m.Kind), m.Body
	}
	const put = `INSERT INTO share_message (recipient, sender, number, run, kind, body)
		SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bytea[]) ON CONFLICT DO NOTHING`
	_, err := t.write.ExecContext(ctx, put, to, from, numbers, runs, kinds, bodies)
	return t.fail("send messages", err)
}

// Receive implements [share.Table].
func (t *Processes) Receive(ctx context.Context, to string, received []share.Message) ([]share.Message, error) {
	ms, err := t.receive(ctx, to, received)
	return ms, t.fail("receive messages", err)
}

func (t *Processes) receive(ctx context.Context, to string, received []share.Message) (ms []share.Message, err error) {
	if len(received) > 0 {
		from, numbers := make([][]byte, len(received)), make([]int64, len(received))
		for i := range received {
			from[i], numbers[i] = []byte(received[i].From), received[i].Number
		}
		const drop = `DELETE FROM share_message m USING unnest($2::bytea[], $3::bigint[]) AS r(sender, number)
			WHERE m.recipient = $1 AND m.sender = r.sender AND m.number = r.number`
		if _, err := t.write.ExecContext(ctx, drop, to, from, numbers); err != nil {
			return nil, err
		}
	}
	const query = `SELECT sender, number, run, kind, body FROM share_message WHERE recipient = $1 ORDER BY sender, number`
	rows, err := t.write.QueryContext(ctx, query, to)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		m := share.Message{To: to}
		var kind int64
		if err := rows.Scan(&m.From, &m.Number, &m.Run, &kind, &m.Body); err != nil {
			return nil, err
		}
		m.Kind = share.Kind(kind)
		ms = append(ms, m)
	}
	return ms, rows.Err()
}

// Clear implements [share.Table].
func (t *Processes) Clear(ctx context.Context, run int64) error {
	_, err := t.write.ExecContext(ctx, `DELETE FROM share_message WHERE run < $1`, run)
	return t.fail("remove messages", err)
}
