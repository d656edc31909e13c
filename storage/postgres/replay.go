package postgres

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"time"
)

const (
	// replayKeep is how long a digest is kept after it has expired, in case the
	// server's clock is set back.
	replayKeep = time.Hour
	// replayBatch caps the digests that one call deletes.
	replayBatch = 1000
)

// Remember implements [hubstore.Sharer]. The server's clock decides what has
// expired: a digest that is deleted has expired for every later call.
func (h *Hub) Remember(ctx context.Context, digest [sha256.Size]byte, until time.Time) (fresh bool, err error) {
	err = h.db.Update(ctx, func(tx *sql.Tx) error {
		now, err := serverTime(ctx, tx)
		if err != nil {
			return err
		}
		// Rows that another hub deletes at the same time are skipped: two hubs that
		// waited for each other's rows would deadlock.
		const clean = `DELETE FROM hub_replay WHERE digest IN
			(SELECT digest FROM hub_replay WHERE until <= $1 ORDER BY until LIMIT $2 FOR UPDATE SKIP LOCKED)`
		if _, err := tx.ExecContext(ctx, clean, now-replayKeep.Microseconds(), replayBatch); err != nil {
			return err
		}
		if fresh = until.UnixMicro() > now; !fresh {
			return nil
		}
		const put = `INSERT INTO hub_replay (digest, until) VALUES ($1, $2) ON CONFLICT (digest) DO NOTHING`
		result, err := tx.ExecContext(ctx, put, digest[:], until.UnixMicro())
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		fresh = n == 1
		return err
	})
	if err != nil {
		return false, fmt.Errorf("note a publication: %w", err)
	}
	return fresh, nil
}

// Forget implements [hubstore.Sharer].
func (h *Hub) Forget(ctx context.Context, digest [sha256.Size]byte) error {
	err := h.db.Update(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM hub_replay WHERE digest = $1`, digest[:])
		return err
	})
	if err != nil {
		return fmt.Errorf("take back a publication: %w", err)
	}
	return nil
}
