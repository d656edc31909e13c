package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/internal/leasetime"
)

// ErrLost is the error of every write once the database belongs to another process, or
// may: the lease was not renewed, or the owner was closed.
var ErrLost = errors.New("this process no longer owns the database")

// ErrPromoted is the reason if a standby has become the server of the database since this process
// began to own it: what this process remembers of the database may not be in it.
var ErrPromoted = errors.New("a standby has taken over as its server, which may lack the latest changes")

// An Owner is the ownership of a database by this process. It renews its lease until it is closed.
type Owner struct {
	conn   *sql.DB // a connection of its own
	checks *sql.DB // for Check: renewals do not wait for it
	tenure tenure  // as it began
	least  time.Duration
	lease  atomic.Int64 // present one, a [time.Duration]
	logger *slog.Logger

	close func() error  // once
	stop  chan struct{} // closed by Close: no more renewals
	kept  chan struct{} // closed when keep has ended
	lost  chan struct{}

	mu    sync.Mutex // guards what follows
	err   error      // why it is lost; nil: it is not
	until time.Time  // when the lease ends, unless it is renewed; by the monotonic clock
}

func newOwner(conn *sql.DB, t tenure, o OwnOptions) *Owner {
	owner := &Owner{
		conn: conn, tenure: t, least: o.Lease, logger: o.Logger,
		stop: make(chan struct{}), kept: make(chan struct{}), lost: make(chan struct{}),
	}
	owner.until = t.sent.Add(t.lease)
	owner.lease.Store(int64(t.lease))
	owner.close = sync.OnceValue(owner.release)
	return owner
}

// present returns the present lease.
func (o *Owner) present() time.Duration { return time.Duration(o.lease.Load()) }

// Token returns the token of this owner, which is higher than those of all before.
func (o *Owner) Token() int64 { return o.tenure.token }

// Lost returns a channel that is closed when the database belongs to another process, or
// the lease could not be renewed in its time.
func (o *Owner) Lost() <-chan struct{} { return o.lost }

// Err returns why the ownership was lost, wrapping [ErrLost], or nil if it was not. A process that
// was paused for longer than the lease learns that at once.
func (o *Owner) Err() error {
	o.mu.Lock()
	err, late := o.err, !time.Now().Before(o.until)
	o.mu.Unlock()
	if err == nil && late {
		err = o.lose(o.late(nil))
	}
	return err
}

// Timeline returns the timeline of the server when the ownership began, which is another one once a standby
// has become the server; empty if the server states none.
func (o *Owner) Timeline() string { return o.tenure.line }

// Since returns when the ownership began, by the clock of the server: it distinguishes all owners
// of a database.
func (o *Owner) Since() time.Time { return time.UnixMicro(o.tenure.since) }

// Check asks the server whether the database still belongs to this process, and fails, with
// [ErrLost] if it does not. It is for changes outside of the database, such as to a bucket: a process
// that was paused learns here that it has a successor. The process can be paused after it as well,
// so those changes need conditions of their own.
func (o *Owner) Check(ctx context.Context) error {
	if err := o.Err(); err != nil {
		return err
	}
	select {
	case <-o.stop:
		return fmt.Errorf("%w: it was given back", ErrLost)
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, o.present())
	defer cancel()
	t := o.tenure
	var found int
	err := o.checks.QueryRowContext(ctx, `SELECT 1 FROM lease`+t.mine(), oneTrip, t.token, t.since).Scan(&found)
	if errors.Is(err, sql.ErrNoRows) {
		if err = t.ended(o.checks.QueryRowContext(ctx, readLease, oneTrip)); errors.Is(err, ErrLost) {
			return o.lose(err)
		}
	}
	if err != nil {
		return fmt.Errorf("check that the database belongs to this process: %w", dialect{}.Explain(err))
	}
	return nil
}

// lose ends the ownership, unless it has ended, and returns why it has.
func (o *Owner) lose(err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
		close(o.lost)
	}
	return o.err
}

// Close gives the database back at once: the next owner waits only for the write
// transactions under way. All later writes fail with [ErrLost]. If the server cannot be
// reached, the lease ends by itself.
func (o *Owner) Close() error { return o.close() }

func (o *Owner) release() error {
	close(o.stop)
	<-o.kept // a renewal under way would prolong the lease after its end
	var err error
	if o.Err() == nil {
		end := `UPDATE lease SET until = ` + microseconds + o.tenure.mine()
		ctx, cancel := context.WithTimeout(context.Background(), o.present())
		defer cancel()
		if _, err = o.conn.ExecContext(ctx, end, oneTrip, o.tenure.token, o.tenure.since); err != nil {
			err = fmt.Errorf("give back the database, which is free in %v: %w", o.present(), err)
		}
	}
	return errors.Join(err, o.conn.Close(), o.checks.Close())
}

// retries is how often a renewal that has failed is tried again in the time of a lease.
const retries = 40

// keep renews the lease as long as it can. All times are of the monotonic clock, and the end of
// the lease is measured from before the server was asked, so that the lease ends here before it
// ends there.
func (o *Owner) keep() {
	defer close(o.kept)
	until := o.until
	var failed error // the latest error, if the latest renewal failed
	lease := o.present()
	for pause := leasetime.Pause(lease); ; {
		select {
		case <-o.stop:
			return
		case <-o.lost:
			return
		case <-time.After(min(pause, time.Until(until))):
		}
		sent := time.Now()
		if !sent.Before(until) {
			_ = o.lose(o.late(failed)) // the callers of Err and the writers receive it
			return
		}
		err := o.renew(lease, min(leasetime.Limit(o.least, lease), time.Until(until)))
		switch {
		case errors.Is(err, ErrLost):
			_ = o.lose(err) // the callers of Err and the writers receive it
			return
		case err != nil:
			if failed == nil {
				o.logger.Warn("database lease not renewed", slog.Any("err", err), slog.Duration("left", time.Until(until)))
			}
			failed, pause = err, lease/retries
			continue
		}
		if failed != nil {
			o.logger.Info("database lease renewed")
		}
		failed, pause, until = nil, leasetime.Pause(lease), sent.Add(lease)
		o.mu.Lock()
		o.until = until
		o.mu.Unlock()
		if next := leasetime.Stretched(o.least, time.Since(sent)); next != lease {
			if next > lease || next < lease/2 {
				pause = 0
			}
			lease = next
			o.lease.Store(int64(lease))
		}
	}
}

func (o *Owner) late(cause error) error {
	if cause == nil {
		return fmt.Errorf("%w: its lease was not renewed for %v", ErrLost, o.present())
	}
	return fmt.Errorf("%w: its lease could not be renewed for %v: %w", ErrLost, o.present(), cause)
}

// renew prolongs the lease, also if it has run out by the server's clock and no other
// process has taken the database. It neither waits for write transactions nor delays
// them.
func (o *Owner) renew(lease, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	t := o.tenure
	t.lease = lease
	return prolong(ctx, o.conn, t)
}

// fence lets a write transaction begin only if the database belongs to this process.
// The lock that it takes makes a takeover wait for the end of the transaction. If a
// takeover has the row, fence waits, and then finds another token (read committed), or
// the transaction is repeated (the other isolation levels).
//
// So that a process that is paused within a transaction does not delay its successor
// for ever, the server ends transactions in which nothing happens for the time of the lease.
func (o *Owner) fence(ctx context.Context, tx *sql.Tx) error {
	select {
	case <-o.stop:
		return fmt.Errorf("%w: it was given back", ErrLost)
	case <-o.lost:
		return o.Err()
	default:
	}
	t := o.tenure
	check := `SELECT set_config('idle_in_transaction_session_timeout', CAST(CAST($3 AS BIGINT) AS TEXT), true) FROM lease` + t.mine() + ` FOR KEY SHARE`
	var timeout string
	err := tx.QueryRowContext(ctx, check, t.token, t.since, o.present().Milliseconds()).Scan(&timeout)
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if err = t.ended(tx.QueryRowContext(ctx, readLease)); errors.Is(err, ErrLost) {
		return o.lose(err)
	}
	return err
}
