package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"lockstep/hub/hubstore"
	"lockstep/storage/internal/sqldb"
)

// A Hub is a [hubstore.Store] that several hubs can use at a time.
type Hub struct {
	*sqldb.Hub
	db *sqldb.DB
}

var (
	_ hubstore.Store  = (*Hub)(nil)
	_ hubstore.Sharer = (*Hub)(nil)
)

// hubPause is how long a hub may do nothing within a transaction. Then the server ends the transaction, so that
// a hub that is paused, or whose machine has lost its power, does not keep others from writing: all of them write the
// row of hub_mark. A hub that goes on repeats the transaction.
const hubPause = 10 * time.Second

// Hub returns the store of hubs in the database.
func (db *DB) Hub() *Hub {
	if !db.hubs.Swap(true) {
		db.write.SetMaxIdleConns(0) // connections get their settings when they are made
		db.write.SetMaxIdleConns(writers)
	}
	return &Hub{db.DB.Hub(), db.DB}
}

// setUpWriter configures a new connection for write transactions.
func (db *DB) setUpWriter(ctx context.Context, c *pgx.Conn) error {
	if err := setUp(ctx, c); err != nil || !db.hubs.Load() {
		return err
	}
	const limit = `SELECT set_config('idle_in_transaction_session_timeout', CAST(CAST($1 AS BIGINT) AS TEXT), false)`
	_, err := c.Exec(ctx, limit, oneTrip, hubPause.Milliseconds())
	return err
}

// ErrHubs reports a database that hubs use.
var ErrHubs = errors.New("hubs use it")

// CheckHubs returns an error that wraps [ErrHubs] if the claims of a hub have not ended.
func (db *DB) CheckHubs(ctx context.Context) error {
	const query = `SELECT COUNT(*) FROM hub_owner WHERE until > ` + microseconds
	n := 0
	err := db.Each(ctx, query, nil, func(rows *sql.Rows) (bool, error) { return true, rows.Scan(&n) })
	if err == nil && n > 0 {
		err = fmt.Errorf("open database %s: %w", db.name, ErrHubs)
	}
	return err
}

// Claim implements [hubstore.Sharer]. It uses the server's clock, so that the clocks
// of the hubs need not agree. The row of an owner contains the end of its
// claims; the next Claim of any hub deletes the rows of expired owners.
func (h *Hub) Claim(ctx context.Context, owner string, want int, ttl time.Duration) (shards []int, owners int, err error) {
	want = min(max(want, 0), hubstore.Shards)
	err = h.change(ctx, func(tx *sql.Tx) error {
		if err := renew(ctx, tx, owner, ttl); err != nil {
			return err
		}
		if err := divide(ctx, tx, owner, want); err != nil {
			return err
		}
		if err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM hub_owner`, oneTrip).Scan(&owners); err != nil {
			return err
		}
		shards, err = claimed(ctx, tx, owner)
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("claim %d shards for %s: %w", want, owner, err)
	}
	return shards, owners, nil
}

// renew writes the row of the owner and ends the claims of expired owners.
func renew(ctx context.Context, tx *sql.Tx, owner string, ttl time.Duration) error {
	now, err := serverTime(ctx, tx)
	if err != nil {
		return err
	}
	const put = `INSERT INTO hub_owner (owner, until) VALUES ($1, $2) ON CONFLICT (owner) DO UPDATE SET until = excluded.until`
	if _, err := tx.ExecContext(ctx, put, oneTrip, []byte(owner), now+ttl.Microseconds()); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM hub_owner WHERE until <= $1 AND owner <> $2`, oneTrip, now, []byte(owner)); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM hub_claim WHERE owner NOT IN (SELECT owner FROM hub_owner)`, oneTrip)
	return err
}

// serverTime returns the time of the server, in microseconds since 1970.
func serverTime(ctx context.Context, tx *sql.Tx) (now int64, err error) {
	const clock = `SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)`
	err = tx.QueryRowContext(ctx, clock, oneTrip).Scan(&now)
	return now, err
}

// divide gives up shards that owner has too many of, and claims those it lacks.
func divide(ctx context.Context, tx *sql.Tx, owner string, want int) error {
	const drop = `DELETE FROM hub_claim WHERE owner = $1
		AND shard NOT IN (SELECT shard FROM hub_claim WHERE owner = $1 ORDER BY shard LIMIT $2)`
	if _, err := tx.ExecContext(ctx, drop, oneTrip, []byte(owner), want); err != nil {
		return err
	}
	const take = `INSERT INTO hub_claim (shard, owner)
		SELECT s, CAST($1 AS BYTEA) FROM generate_series(0, $2 - 1) s WHERE s NOT IN (SELECT shard FROM hub_claim)
		ORDER BY s LIMIT $3 - (SELECT COUNT(*) FROM hub_claim WHERE owner = $1)`
	_, err := tx.ExecContext(ctx, take, oneTrip, []byte(owner), hubstore.Shards, want)
	return err
}

func claimed(ctx context.Context, tx *sql.Tx, owner string) ([]int, error) {
	rows, err := tx.QueryContext(ctx, `SELECT shard FROM hub_claim WHERE owner = $1 ORDER BY shard`, oneTrip, []byte(owner))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var shards []int
	for rows.Next() {
		var shard int
		if err := rows.Scan(&shard); err != nil {
			return nil, err
		}
		shards = append(shards, shard)
	}
	return shards, rows.Err()
}

// Release implements [hubstore.Sharer].
func (h *Hub) Release(ctx context.Context, owner string) error {
	err := h.change(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM hub_claim WHERE owner = $1`, oneTrip, []byte(owner)); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM hub_owner WHERE owner = $1`, oneTrip, []byte(owner))
		return err
	})
	if err != nil {
		return fmt.Errorf("release the shards of %s: %w", owner, err)
	}
	return nil
}

// News implements [hubstore.Sharer]. A mark is the number of an Append; once a mark
// is visible, all smaller ones are, see package sqldb.
func (h *Hub) News(ctx context.Context, mark int64) (topics map[string]int64, next int64, err error) {
	topics, next = make(map[string]int64), mark
	const query = `SELECT url, last, mark FROM hub_topic WHERE mark > $1
		UNION ALL SELECT '', 0, mark FROM hub_mark WHERE id = 1 AND mark < $1`
	err = h.db.Each(ctx, query, []any{mark}, func(rows *sql.Rows) (bool, error) {
		var url string
		var last, at int64
		err := rows.Scan(&url, &last, &at)
		if url == "" {
			next = at // and there are no others
			return true, err
		}
		topics[url], next = last, max(next, at)
		return true, err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("read news after %d: %w", mark, err)
	}
	return topics, next, nil
}

// change runs f in a transaction in which no other one changes claims.
func (h *Hub) change(ctx context.Context, f func(*sql.Tx) error) error {
	return h.db.Update(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `LOCK TABLE hub_owner IN EXCLUSIVE MODE`, oneTrip); err != nil {
			return err
		}
		return f(tx)
	})
}
