package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"lockstep/destination/journal"
	"lockstep/storage/internal/column"
)

// filesPage is the number of files of a page: few calls of the driver, and some
// megabytes.
const filesPage = 8192

// A TextAggregator is a [Dialect] of an engine that stores TEXT as text, so
// that it can join the rows of a page to one value.
type TextAggregator interface{ AggregatesText() }

// Files implements [journal.FileLister].
func (j *Journal) Files(ctx context.Context) iter.Seq2[journal.FilePage, error] {
	read := j.filePage
	if _, ok := j.db.dialect.(TextAggregator); ok {
		read = j.joinedFilePage
	}
	return func(yield func(journal.FilePage, error) bool) {
		for after := ""; ; {
			p, err := read(ctx, after)
			if err != nil {
				yield(journal.FilePage{}, fmt.Errorf("read files from journal: %w", err))
				return
			}
			if len(p.Files) > 0 && !yield(p, nil) || len(p.Files) < filesPage {
				return
			}
			after = p.Last
		}
	}
}

// filePage reads the page behind a URI row by row.
func (j *Journal) filePage(ctx context.Context, after string) (journal.FilePage, error) {
	const page = `SELECT uri, path, length, written, tag FROM journal_held WHERE uri > $1 ORDER BY uri LIMIT $2`
	p := journal.FilePage{After: after}
	rows, err := j.db.query(ctx, page, after, filesPage)
	if err != nil {
		return p, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	for rows.Next() {
		var f journal.FileRecord
		var written sql.NullInt64
		if err := rows.Scan(&p.Last, &f.Path, &f.Length, &written, &f.Tag); err != nil {
			return p, err
		}
		if written.Valid {
			f.Written = time.UnixMicro(written.Int64)
		}
		if strings.Contains(f.Tag, "/") {
			f.Tag = "?"
		}
		p.Files = append(p.Files, f)
	}
	return p, rows.Err()
}

// joinedFilePage does the same with one row: the database joins the page to one
// text, which costs a fraction of handing out each row. No path has an empty
// segment, so slashes separate its parts.
func (j *Journal) joinedFilePage(ctx context.Context, after string) (journal.FilePage, error) {
	const page = `SELECT count(*), coalesce(max(uri), ''), coalesce(string_agg(path || '//' || CAST(length AS TEXT) || '/' || coalesce(CAST(written AS TEXT), '-') || '/' || CASE WHEN tag LIKE '%/%' THEN '?' ELSE tag || '.' END, '///'), '')
		FROM (SELECT uri, path, length, written, tag FROM journal_held WHERE uri > $1 ORDER BY uri LIMIT $2) AS held`
	p := journal.FilePage{After: after}
	rows, err := j.db.query(ctx, page, after, filesPage)
	if err != nil {
		return p, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	for rows.Next() {
		var n int
		var text sql.RawBytes
		if err = rows.Scan(&n, &p.Last, &text); err == nil && n > 0 {
			p.Files, err = parseFiles(string(text), n)
		}
		if err != nil {
			return p, err
		}
	}
	return p, rows.Err()
}

// parseFiles undoes the joining.
func parseFiles(text string, n int) ([]journal.FileRecord, error) {
	files := make([]journal.FileRecord, 0, n)
	for more := true; more; {
		var one string
		one, text, more = strings.Cut(text, "///")
		path, rest, ok := strings.Cut(one, "//")
		length, rest, ok2 := strings.Cut(rest, "/")
		written, tag, ok3 := strings.Cut(rest, "/")
		size, err := strconv.ParseInt(length, 10, 64)
		f := journal.FileRecord{Path: path, Length: size, Tag: strings.TrimSuffix(tag, ".")}
		if err == nil && written != "-" {
			var at int64
			at, err = strconv.ParseInt(written, 10, 64)
			f.Written = time.UnixMicro(at)
		}
		if !ok || !ok2 || !ok3 || err != nil {
			return nil, column.ErrDamaged
		}
		files = append(files, f)
	}
	if len(files) != n {
		return nil, column.ErrDamaged
	}
	return files, nil
}
