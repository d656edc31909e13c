package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"lockstep/internal/leasetime"
)

// OwnOptions configures [DB.Own].
type OwnOptions struct {
	Name   string        // what the process is, for others: "sync on host.example.org, process 4711"
	Lease  time.Duration // a successor of a killed process waits at most this long, longer on a slow server; default 8 s
	Wait   time.Duration // how long to wait while another process owns the database; 0: fail at once with *[OwnedError]
	Logger *slog.Logger  // default: discard

	// Instance names what at most one process is at a time, such as the holder of the lock
	// of a directory of this machine. A process that was killed is succeeded at once by the
	// next one of its instance, which need not wait for the end of the lease. Default: none.
	Instance string
}

// defaultLease survives a restart of the server and a failover to a standby, and is
// shorter than service managers and operators expect a restart to take.
const defaultLease = 8 * time.Second

func (o OwnOptions) withDefaults() OwnOptions {
	o.Name = cmp.Or(o.Name, "a process without a name")
	o.Lease = cmp.Or(o.Lease, defaultLease)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// An OwnedError reports that the database belongs to another process.
type OwnedError struct {
	Owner        string
	Since, Until time.Time // by the clock of the server; Until is the end of the present lease

	left time.Duration // until then
}

func (e *OwnedError) Error() string {
	return fmt.Sprintf("it belongs to %s, since %s", e.Owner, e.Since.UTC().Format(time.RFC3339))
}

// Own takes the database for this process: no other process can own it until the owner is
// closed, or has not renewed its lease for the lease's time. From then on each write
// transaction of db first checks, within the transaction, that the database still belongs to
// this process, and fails with [ErrLost] if it does not: a process that was paused for
// longer than its lease can never write again. Reads check nothing.
//
// The owner must be closed before db. The end of ctx does not close it.
func (db *DB) Own(ctx context.Context, o OwnOptions) (*Owner, error) {
	o = o.withDefaults()
	conn := pool(db.config, setUp)
	conn.SetMaxOpenConns(1) // which renews the lease however busy the others are
	t, err := await(ctx, conn, o)
	if err != nil {
		_ = conn.Close() // err is more important
		return nil, fmt.Errorf("own database %s: %w", db.name, dialect{}.Explain(err))
	}
	owner := newOwner(conn, t, o)
	owner.checks = pool(db.config, setUp)
	db.owner.Store(owner)
	go owner.keep()
	return owner, nil
}

// OwnedBy returns which process owns the database; nil if none does.
func (db *DB) OwnedBy(ctx context.Context) (*OwnedError, error) {
	conn := pool(db.config, setUp)
	defer conn.Close() // nothing was written
	present, err := scanLease(conn.QueryRowContext(ctx, readLease))
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == "42P01" { // undefined_table: the schema is older
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("own database %s: %w", db.name, dialect{}.Explain(err))
	}
	owned, _ := errors.AsType[*OwnedError](present.taken(""))
	return owned, nil
}

// A Lease is the row that says to which process the database belongs, or belonged last.
type Lease struct {
	OwnedError
	Held bool // it has not ended

	token int64
	table int64 // number of the table: tables that are made again have other ones
}

// Follows reports whether the row can have become l since it was before. It cannot if the
// database was made again, as by a restore, or has lost its last transactions.
func (l *Lease) Follows(before *Lease) bool {
	return l.table == before.table && (l.token > before.token || l.token == before.token && l.Since.Equal(before.Since))
}

// Lease reads it. Unlike [DB.OwnedBy] it uses the connections of db, so that it can be called often.
func (db *DB) Lease(ctx context.Context) (l Lease, err error) {
	const query = `SELECT token, owner, instance, since, until, ` + microseconds + `, CAST(tableoid AS BIGINT) FROM lease`
	err = db.Each(ctx, query, nil, func(rows *sql.Rows) (bool, error) {
		var r leaseRow
		err := rows.Scan(&r.token, &r.owner, &r.instance, &r.since, &r.until, &r.now, &l.table)
		l.OwnedError, l.Held, l.token = *r.owned(), r.until > r.now, r.token
		return false, err
	})
	return l, err
}

// fence is the beginning of every write transaction.
func (db *DB) fence(ctx context.Context, tx *sql.Tx) error {
	if owner := db.owner.Load(); owner != nil {
		return owner.fence(ctx, tx)
	}
	return nil
}

// How often a process that waits looks whether the database is free.
const (
	looksPerLease = 20
	maxLookPause  = 500 * time.Millisecond
)

// await takes the database as soon as no other process owns it.
func await(ctx context.Context, conn *sql.DB, o OwnOptions) (tenure, error) {
	end := time.Now().Add(o.Wait)
	waiting := false
	for {
		t, err := take(ctx, conn, o, end)
		if err == nil {
			return t, nil
		}
		owned, ok := errors.AsType[*OwnedError](err)
		if ok && !waiting && o.Wait > 0 {
			waiting = true
			if lease := time.Now().Add(owned.left * 3 / 2); lease.After(end) { // of an owner that the server answers slowly
				end = lease
			}
			o.Logger.InfoContext(ctx, "waiting for the database", slog.String("owner", owned.Owner), slog.Time("since", owned.Since))
		}
		if !waiting || !time.Now().Before(end) {
			return tenure{}, err
		}
		select { // any other error may end before the wait does, such as a restart of the server
		case <-ctx.Done():
			return tenure{}, ctx.Err()
		case <-time.After(min(o.Lease/looksPerLease, maxLookPause, time.Until(end))):
		}
	}
}

// The table lease has one row, of the present owner or the latest one:
//
//	lease(token, owner, instance, since, until)
//
// The token rises by one with each owner. Times are those of the server, in
// microseconds since 1970. The token is the key, so that a takeover, which changes
// it, excludes transactions that have a key share lock of the row, while a renewal,
// which changes until alone, does not.
const (
	microseconds = `CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)`
	readLease    = `SELECT token, owner, instance, since, until, ` + microseconds + ` FROM lease`
	takeLease    = `UPDATE lease SET token = token + 1, owner = $2, instance = $4, since = ` + microseconds + `, until = ` + microseconds + ` + $3
		WHERE token = $1 AND (until <= ` + microseconds + ` OR CAST($4 AS BYTEA) <> '' AND instance = $4) RETURNING token, since`
)

// timeline is a number that changes when a standby becomes the primary server, which may lack the
// latest transactions. Some services have no such function.
const timeline = `left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)`

// readTimeline returns the timeline, or an empty string if the server states none.
func readTimeline(ctx context.Context, conn *sql.DB) (line string, err error) {
	err = conn.QueryRowContext(ctx, `SELECT `+timeline, oneTrip).Scan(&line)
	if _, ok := errors.AsType[*pgconn.PgError](err); ok {
		return "", nil
	}
	if _, ferr := strconv.ParseUint(line, 16, 32); err == nil && ferr != nil {
		return "", nil
	}
	return line, err
}

// mine is the condition that the row is that of this owner, with the parameters $1 (token) and $2
// (since), and that the server is the one that it was when the tenure began.
func (t tenure) mine() string {
	const row = ` WHERE token = $1 AND since = $2`
	if t.line == "" {
		return row
	}
	return row + ` AND ` + timeline + ` = '` + t.line + `'`
}

// oneTrip has the driver prepare nothing, so that the server is asked once for a statement.
const oneTrip = pgx.QueryExecModeExec

// A tenure is the time in which a process owns the database.
type tenure struct {
	token int64
	since int64         // tells apart owners with one token: a server may lose its last transactions, and give it twice
	line  string        // timeline of the server; empty: it states none
	sent  time.Time     // monotonic clock: the lease begins after this
	lease time.Duration // from then on
}

// take takes the database unless another process owns it.
func take(ctx context.Context, conn *sql.DB, o OwnOptions, end time.Time) (tenure, error) {
	present, err := scanLease(conn.QueryRowContext(ctx, readLease, oneTrip)) // without a lock, which the owner would wait for
	if err == nil {
		err = present.taken(o.Instance)
	}
	if err != nil {
		return tenure{}, err
	}
	patience := max(time.Until(end), o.Lease)
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	line, err := readTimeline(ctx, conn)
	if err != nil {
		return tenure{}, fmt.Errorf("read the timeline of the server: %w", err)
	}
	t := tenure{line: line, sent: time.Now(), lease: o.Lease}
	// It waits for the write transactions under way, which have a lock of the row, and compares
	// again what is there then: the owner may have renewed its lease, or another process been faster.
	err = conn.QueryRowContext(within, takeLease, oneTrip, present.token, []byte(o.Name), o.Lease.Microseconds(), []byte(o.Instance)).Scan(&t.token, &t.since)
	waited := time.Since(t.sent)
	switch e, _ := errors.AsType[*pgconn.PgError](err); {
	case err == nil && waited < leasetime.Pause(o.Lease):
		return t, nil
	case err == nil: // the lease may have been counted from before the wait
		t.sent, t.lease = time.Now(), leasetime.Stretched(o.Lease, waited)
		if err := prolong(ctx, conn, t); err != nil {
			return tenure{}, fmt.Errorf("renew the lease that was taken: %w", err)
		}
		return t, nil
	case errors.Is(err, sql.ErrNoRows), e != nil && e.Code == "40001": // serialization_failure: where that is the default isolation
		return take(ctx, conn, o, end) // with what the row has now
	case within.Err() == nil || ctx.Err() != nil:
		return tenure{}, fmt.Errorf("take the lease: %w", err)
	case present.owner == "":
		return tenure{}, fmt.Errorf("no process owns the database, but it could not be taken within %v: the server answers too slowly, or another session has locked the table lease", patience.Round(time.Millisecond))
	}
	return tenure{}, fmt.Errorf("a transaction of the last owner has not ended after %v, or the server answers too slowly: %w", patience.Round(time.Millisecond), present.owned())
}

// prolong has the lease of an owner begin again. It never ends earlier than before: the owner, which
// may not receive the answer, would count on the later end.
func prolong(ctx context.Context, conn *sql.DB, t tenure) error {
	query := `UPDATE lease SET until = GREATEST(until, ` + microseconds + ` + $3)` + t.mine()
	result, err := conn.ExecContext(ctx, query, oneTrip, t.token, t.since, t.lease.Microseconds())
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n > 0 {
		return err
	}
	return t.ended(conn.QueryRowContext(ctx, readLease, oneTrip))
}

// ended returns the error of an owner whose row is not found any more.
func (t tenure) ended(lease *sql.Row) error {
	present, err := scanLease(lease)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("%w: its table lease was emptied", ErrLost)
	case err != nil:
		return err
	case present.token == t.token && present.since == t.since:
		return fmt.Errorf("%w: %w", ErrLost, ErrPromoted)
	}
	return fmt.Errorf("%w: %w", ErrLost, present.owned())
}

// A leaseRow is the row of the table.
type leaseRow struct {
	token             int64
	owner, instance   string
	since, until, now int64
}

func scanLease(row *sql.Row) (*leaseRow, error) {
	var r leaseRow
	if err := row.Scan(&r.token, &r.owner, &r.instance, &r.since, &r.until, &r.now); err != nil {
		return nil, fmt.Errorf("read the lease: %w", err)
	}
	return &r, nil
}

// taken returns an error if a process owns the database that is not of the instance.
func (r *leaseRow) taken(instance string) error {
	if r.until <= r.now || instance != "" && r.instance == instance {
		return nil
	}
	return r.owned()
}

func (r *leaseRow) owned() *OwnedError {
	return &OwnedError{Owner: r.owner, Since: time.UnixMicro(r.since), Until: time.UnixMicro(r.until), left: time.Duration(r.until-r.now) * time.Microsecond}
}
