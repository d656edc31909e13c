package tables

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"lockstep/storage/internal/sqldb"
)

// A Copied is what [Copy] has done to a table, or found to be done.
type Copied struct {
	Table   string
	Rows    int64 // of the database that is copied
	Written int64 // were missing in the other one, or differed
	Removed int64 // that only the other one had
}

// Copy makes the rows of a table of to those of from, which nothing changes meanwhile. Only rows
// that differ are written, so that an interrupted copy continues where it ended. With check set
// nothing is written, and what would have been is counted.
func Copy(ctx context.Context, from, to *sqldb.DB, t *Table, check bool, progress func(rows int64)) (Copied, error) {
	c := &copying{table: t, to: to, check: check, done: Copied{Table: t.Name}}
	if err := c.run(ctx, from, progress); err != nil {
		return c.done, fmt.Errorf("copy %s: %w", t.Name, err)
	}
	return c.done, nil
}

// A copying is the copy of one table under way.
type copying struct {
	table  *Table
	to     *sqldb.DB
	check  bool
	done   Copied
	put    []row // rows that are to be written
	remove []row // rows that are to be removed
	bytes  int   // of both
}

// A row has the values of a table's columns, the key first: int64 of a number, string of a
// text, []byte of bytes, and nil of NULL.
type row []any

// batchBytes is how many bytes of rows are written in a transaction, at least.
const batchBytes = 4 << 20

func (c *copying) run(ctx context.Context, from *sqldb.DB, progress func(rows int64)) error {
	keys := len(c.table.Key)
	have := c.table.reader(ctx, c.to)
	there, err := have()
	for given := c.table.reader(ctx, from); err == nil; {
		var r row
		if r, err = given(); err != nil {
			break
		}
		for err == nil && there != nil && (r == nil || compare(there[:keys], r[:keys]) < 0) { // only to has it
			c.remove = append(c.remove, there)
			if err = c.flushLarge(ctx, there); err == nil {
				there, err = have()
			}
		}
		if r == nil || err != nil {
			break
		}
		c.done.Rows++
		same := false
		if there != nil && compare(there[:keys], r[:keys]) == 0 {
			same = compare(there, r) == 0
			there, err = have()
		}
		if !same && err == nil {
			c.put = append(c.put, r)
			err = c.flushLarge(ctx, r)
		}
		progress(c.done.Rows)
	}
	if err != nil {
		return err
	}
	return c.flush(ctx)
}

// flushLarge writes what waits if it is enough for a transaction; r was just added.
func (c *copying) flushLarge(ctx context.Context, r row) error {
	if c.bytes += r.size(); c.bytes < batchBytes {
		return nil
	}
	return c.flush(ctx)
}

// flush writes what waits.
func (c *copying) flush(ctx context.Context) error {
	if len(c.put)+len(c.remove) == 0 {
		return nil
	}
	c.done.Written += int64(len(c.put))
	c.done.Removed += int64(len(c.remove))
	if !c.check {
		err := c.to.Update(ctx, func(tx *sql.Tx) error { return c.write(ctx, tx) })
		if err != nil {
			return err
		}
	}
	c.put, c.remove, c.bytes = c.put[:0], c.remove[:0], 0
	return nil
}

func (c *copying) write(ctx context.Context, tx *sql.Tx) error {
	if len(c.remove) > 0 {
		gone, err := tx.PrepareContext(ctx, c.table.deletion(c.to))
		if err != nil {
			return err
		}
		defer gone.Close()
		for _, r := range c.remove {
			if _, err := gone.ExecContext(ctx, r[:len(c.table.Key)]...); err != nil {
				return err
			}
		}
	}
	for rows := range slices.Chunk(c.put, rowsPerStatement) {
		values := make([]any, 0, len(rows)*len(rows[0]))
		for _, r := range rows {
			values = append(values, r...)
		}
		if _, err := tx.ExecContext(ctx, c.table.insertion(c.to, len(rows)), values...); err != nil {
			return err
		}
	}
	return nil
}

// rowsPerStatement is how many rows a statement writes: to run one costs as much as a dozen.
const rowsPerStatement = 50

// insertion returns the statement that writes n rows.
func (t *Table) insertion(db *sqldb.DB, n int) string {
	var b strings.Builder
	all := t.all()
	fmt.Fprintf(&b, `INSERT INTO %s (%s) VALUES `, t.Name, list(all))
	for i := range n * len(all) {
		switch {
		case i == 0:
			b.WriteString("(")
		case i%len(all) == 0:
			b.WriteString("), (")
		default:
			b.WriteString(", ")
		}
		b.WriteString(db.Param(i + 1))
	}
	fmt.Fprintf(&b, `) ON CONFLICT (%s) DO `, list(t.Key))
	if len(t.Columns) == 0 {
		b.WriteString("NOTHING")
		return b.String()
	}
	b.WriteString("UPDATE SET ")
	for i, c := range t.Columns {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(c.Name + " = excluded." + c.Name)
	}
	return b.String()
}

// deletion returns the statement that removes the row with a key.
func (t *Table) deletion(db *sqldb.DB) string {
	conditions := make([]string, len(t.Key))
	for i, c := range t.Key {
		conditions[i] = c.Name + " = " + db.Param(i+1)
	}
	return `DELETE FROM ` + t.Name + ` WHERE ` + strings.Join(conditions, " AND ")
}

const (
	pageRows = 1000
	// widePage is how many rows are read at a time of a table whose rows may have some MB.
	widePage = 10
)

// reader returns a function that returns the rows of a table in the order of their key, and nil
// after the last one. They are read in pages, so that no statement takes long.
func (t *Table) reader(ctx context.Context, db *sqldb.DB) func() (row, error) {
	var page []row
	var last row
	n := pageRows
	if t.isWide() {
		n = widePage
	}
	return func() (row, error) {
		if len(page) == 0 {
			var err error
			if page, err = t.page(ctx, db, last, n); err != nil || len(page) == 0 {
				return nil, err
			}
		}
		last, page = page[0], page[1:]
		return last, nil
	}
}

func (t *Table) isWide() bool { return t.Name == "content" || t.Name == "hub_message" }

// page returns the first n rows after a row; nil: from the beginning.
func (t *Table) page(ctx context.Context, db *sqldb.DB, after row, n int) ([]row, error) {
	query := `SELECT ` + list(t.all()) + ` FROM ` + t.Name
	var args []any
	if after != nil {
		places := make([]string, len(t.Key))
		for i := range t.Key {
			args = append(args, after[i])
			places[i] = db.Param(i + 1)
		}
		query += ` WHERE (` + list(t.Key) + `) > (` + strings.Join(places, ", ") + `)`
	}
	query += ` ORDER BY ` + list(t.Key) + ` LIMIT ` + db.Param(len(args)+1)
	rows := make([]row, 0, n)
	err := db.Each(ctx, query, append(args, n), func(r *sql.Rows) (bool, error) {
		next, err := t.scan(r)
		rows = append(rows, next)
		return true, err
	})
	return rows, err
}

// scan returns the current row.
func (t *Table) scan(rows *sql.Rows) (row, error) {
	all := t.all()
	into, numbers, texts := make([]any, len(all)), make([]sql.NullInt64, len(all)), make([]sql.Null[[]byte], len(all))
	for i, c := range all {
		if into[i] = &texts[i]; c.Type == Number {
			into[i] = &numbers[i]
		}
	}
	if err := rows.Scan(into...); err != nil {
		return nil, err
	}
	r := make(row, len(all))
	for i, c := range all {
		switch {
		case c.Type == Number && numbers[i].Valid:
			r[i] = numbers[i].Int64
		case c.Type == Text && texts[i].Valid:
			r[i] = string(texts[i].V)
		case c.Type == Bytes && texts[i].Valid:
			r[i] = append([]byte{}, texts[i].V...) // nil is NULL
		}
	}
	return r, nil
}

// size returns about how many bytes a row has.
func (r row) size() int {
	n := 16 * len(r)
	for _, v := range r {
		switch v := v.(type) {
		case string:
			n += len(v)
		case []byte:
			n += len(v)
		}
	}
	return n
}

// compare compares values of the same columns, in which NULL comes first.
func compare(a, b []any) int {
	return slices.CompareFunc(a, b, func(a, b any) int {
		switch x := a.(type) {
		case nil:
			if b == nil {
				return 0
			}
			return -1
		case int64:
			if y, ok := b.(int64); ok {
				return cmp.Compare(x, y)
			}
		case string:
			if y, ok := b.(string); ok {
				return strings.Compare(x, y)
			}
		case []byte:
			if y, ok := b.([]byte); ok {
				return bytes.Compare(x, y)
			}
		}
		return 1 // b is NULL
	})
}
