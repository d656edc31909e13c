package sqldb

import (
	"context"
	"database/sql"
	"strings"
)

// A bulk runs one statement over many rows of values, as few times as possible, since running it
// costs as much as a dozen rows.
//
//	INSERT INTO t (a, b) VALUES ($1, $2), ($3, $4), …
//	DELETE FROM t WHERE a IN ($1, $2, …)
//	UPDATE t SET b = v.column2 FROM (VALUES (CAST($1 AS TEXT), CAST($2 AS BIGINT)), …) AS v WHERE t.a = v.column1
//
// It belongs to one transaction and is used by one goroutine.
type bulk struct {
	tx         *sql.Tx
	dialect    Dialect
	compiled   *statements // that outlive the transaction; nil: none do
	head, tail string      // before and after the rows
	cols       int         // of a row
	types      []string    // of the columns in the engine's dialect, if the statement does not determine them
	between    string      // separates rows
	args       []any
	stmts      [len(bulkRows)]*sql.Stmt
}

// bulkRows are the numbers of rows for which there are statements. More than 50
// rows gain nothing.
var bulkRows = [...]int{50, 10, 1}

// bulk returns a statement for rows of cols values.
func (db *DB) bulk(tx *sql.Tx, head string, cols int, tail string) *bulk {
	return &bulk{tx: tx, dialect: db.dialect, head: head, tail: tail, cols: cols, between: "), ("}
}

// bulkIn returns a statement that ends in a list of values. All other values are
// in head: in PostgreSQL, values in a row have no type of their own.
func (db *DB) bulkIn(tx *sql.Tx, head string) *bulk {
	return &bulk{tx: tx, dialect: db.dialect, head: head, cols: 1, between: ", "}
}

// bulkUpdate returns a statement that updates rows by key, the first of the
// values, and ignores missing rows. In set the values are called v.column1,
// v.column2, …
func (db *DB) bulkUpdate(tx *sql.Tx, set, key string, types ...string) *bulk {
	for i, t := range types {
		types[i] = db.dialect.Schema(t)
	}
	return &bulk{
		tx: tx, dialect: db.dialect, cols: len(types), types: types, between: "), (",
		head: set + ` FROM (VALUES`, tail: `) AS v WHERE ` + key + ` = v.column1`,
	}
}

// often makes the statements outlive the transaction, see [statements], and
// returns b.
func (b *bulk) often(s *statements) *bulk {
	b.compiled = s
	return b
}

// exec adds a row of values and runs the statement when there are enough rows.
// [bulk.flush] runs it for the rest. A []byte must not be changed before that.
func (b *bulk) exec(ctx context.Context, values ...any) error {
	b.args = append(b.args, values...)
	if len(b.args) < bulkRows[0]*b.cols {
		return nil
	}
	return b.flush(ctx)
}

// empty reports whether no rows are waiting.
func (b *bulk) empty() bool { return len(b.args) == 0 }

// flush runs the statement for the waiting rows.
func (b *bulk) flush(ctx context.Context) error {
	return b.each(ctx, func(s *sql.Stmt, args []any) error {
		_, err := s.ExecContext(ctx, args...)
		return err
	})
}

// query adds a row of values and, when there are enough rows, runs the query
// and passes the results to row, in no order. [bulk.flushQuery] does so for the
// rest.
func (b *bulk) query(ctx context.Context, row func(*sql.Rows) error, values ...any) error {
	b.args = append(b.args, values...)
	if len(b.args) < bulkRows[0]*b.cols {
		return nil
	}
	return b.flushQuery(ctx, row)
}

// flushQuery runs the query for the waiting rows.
func (b *bulk) flushQuery(ctx context.Context, row func(*sql.Rows) error) error {
	return b.each(ctx, func(s *sql.Stmt, args []any) error {
		rows, err := s.QueryContext(ctx, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := row(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

func (b *bulk) each(ctx context.Context, run func(*sql.Stmt, []any) error) error {
	args := b.args
	for i, n := range bulkRows {
		for len(args) >= n*b.cols {
			if b.stmts[i] == nil {
				s, err := b.compiled.within(ctx, b.tx, b.text(n))
				if err != nil {
					return err
				}
				b.stmts[i] = s
			}
			if err := run(b.stmts[i], args[:n*b.cols]); err != nil {
				return err
			}
			args = args[n*b.cols:]
		}
	}
	clear(b.args) // do not retain the callers' strings
	b.args = b.args[:0]
	return nil
}

// text returns the statement for n rows.
func (b *bulk) text(n int) string {
	var t strings.Builder
	t.WriteString(b.head)
	for i := range n * b.cols {
		switch {
		case i == 0:
			t.WriteString(" (")
		case i%b.cols == 0:
			t.WriteString(b.between)
		default:
			t.WriteString(", ")
		}
		if p := b.dialect.Param(i + 1); b.types == nil {
			t.WriteString(p)
		} else {
			t.WriteString("CAST(" + p + " AS " + b.types[i%b.cols] + ")")
		}
	}
	t.WriteString(")")
	t.WriteString(b.tail)
	return t.String()
}
