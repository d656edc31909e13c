package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"lockstep/intake/harvest/ledger"
	"lockstep/storage/internal/column"
)

// Record implements [ledger.Ledger].
func (l *Ledger) Record(ctx context.Context, set string, put []ledger.Row, drop []string) error {
	if err := ledger.Check(set, put, drop); err != nil {
		return err
	}
	if len(put) == 0 && len(drop) == 0 {
		return nil
	}
	err := l.db.Update(ctx, func(tx *sql.Tx) error {
		no, err := l.db.lockSet(ctx, tx, "ledger_set", set)
		if err != nil {
			return err
		}
		old, err := l.held(ctx, tx, no, put, drop)
		if err != nil {
			return err
		}
		if err := l.putRows(ctx, tx, no, put, old); err != nil {
			return err
		}
		return l.dropRows(ctx, tx, no, drop, old)
	})
	if err != nil {
		return fmt.Errorf("record in ledger of %s: %w", set, err)
	}
	return nil
}

// held returns the resources of the affected rows, by record.
func (l *Ledger) held(ctx context.Context, tx *sql.Tx, no int64, put []ledger.Row, drop []string) (map[string][]ledger.Resource, error) {
	old := make(map[string][]ledger.Resource)
	row := func(rows *sql.Rows) error {
		var r ledger.Row
		if err := scanLedger(rows, &r); err != nil {
			return err
		}
		old[r.ID] = r.Resources
		return nil
	}
	find := l.db.bulkIn(tx, fmt.Sprintf(`SELECT %s FROM ledger_record WHERE set_id = %d AND id IN`, ledgerColumns, no))
	for i := range put {
		if put[i].New {
			continue
		}
		if err := find.query(ctx, row, put[i].ID); err != nil {
			return nil, err
		}
	}
	for _, id := range drop {
		if err := find.query(ctx, row, id); err != nil {
			return nil, err
		}
	}
	return old, find.flushQuery(ctx, row)
}

func (l *Ledger) putRows(ctx context.Context, tx *sql.Tx, no int64, rows []ledger.Row, old map[string][]ledger.Resource) error {
	put := l.db.bulk(tx, `INSERT INTO ledger_record (set_id, `+ledgerColumns+`) VALUES`, 7,
		` ON CONFLICT (set_id, id) DO UPDATE SET seconds = excluded.seconds, nanos = excluded.nanos,
		deleted = excluded.deleted, undecided = excluded.undecided, resources = excluded.resources`)
	own := l.db.bulk(tx, `INSERT INTO ledger_resource (set_id, uri, id) VALUES`, 3, ` ON CONFLICT (set_id, uri, id) DO NOTHING`)
	for i := range rows {
		r := &rows[i]
		deleted := 0
		if r.Deleted {
			deleted = 1
		}
		var packed []byte
		packed = column.AppendResources(column.AppendResources(packed, r.Resources), r.Next)
		if err := put.exec(ctx, no, r.ID, r.Updated.Unix(), int64(r.Updated.Nanosecond()), deleted, int(r.Open), packed); err != nil {
			return err
		}
		for j, res := range r.Resources {
			if slices.Contains(r.Resources[:j], res) || contains(old[r.ID], res.URI) {
				continue // it exists, or will be written
			}
			if err := own.exec(ctx, no, res.URI, r.ID); err != nil {
				return err
			}
		}
		for _, res := range old[r.ID] {
			if contains(r.Resources, res.URI) {
				continue
			}
			if err := disown(ctx, tx, no, res.URI, r.ID); err != nil {
				return err
			}
		}
	}
	if err := put.flush(ctx); err != nil {
		return err
	}
	return own.flush(ctx)
}

func (l *Ledger) dropRows(ctx context.Context, tx *sql.Tx, no int64, ids []string, old map[string][]ledger.Resource) error {
	drop := l.db.bulkIn(tx, fmt.Sprintf(`DELETE FROM ledger_record WHERE set_id = %d AND id IN`, no))
	for _, id := range ids {
		if err := drop.exec(ctx, id); err != nil {
			return err
		}
		for _, res := range old[id] {
			if err := disown(ctx, tx, no, res.URI, id); err != nil {
				return err
			}
		}
	}
	return drop.flush(ctx)
}

func disown(ctx context.Context, tx *sql.Tx, no int64, uri, id string) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM ledger_resource WHERE set_id = $1 AND uri = $2 AND id = $3`, no, uri, id)
	return err
}

func contains(resources []ledger.Resource, uri string) bool {
	return slices.ContainsFunc(resources, func(r ledger.Resource) bool { return r.URI == uri })
}
