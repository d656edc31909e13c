package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"lockstep/destination"
)

// filesPage is how many files one page has: few hand-overs, and some megabytes.
const filesPage = 8192

// Files implements [destination.FileLister]. The database joins the rows of a
// page to one text, which costs a fraction of handing out each row: no path has
// an empty segment, so slashes separate its parts.
func (j *Journal) Files(ctx context.Context) iter.Seq2[destination.FilePage, error] {
	const page = `SELECT count(*), coalesce(max(uri), ''), coalesce(string_agg(path || '//' || CAST(length AS TEXT) || '/' || coalesce(CAST(written AS TEXT), '-') || '/' || CASE WHEN tag LIKE '%/%' THEN '?' ELSE tag || '.' END, '///'), '')
		FROM (SELECT uri, path, length, written, tag FROM journal_held WHERE uri > $1 ORDER BY uri LIMIT $2) AS held`
	return func(yield func(destination.FilePage, error) bool) {
		for after := ""; ; {
			p := destination.FilePage{After: after}
			var n int
			var text sql.RawBytes
			rows, err := j.db.query(ctx, page, after, filesPage)
			if err == nil {
				for rows.Next() {
					if err = rows.Scan(&n, &p.Last, &text); err == nil && n > 0 {
						p.Files, err = parseFiles(string(text), n)
					}
				}
				if cerr := rows.Close(); err == nil {
					err = cerr
				}
				if rerr := rows.Err(); err == nil {
					err = rerr
				}
			}
			if err != nil {
				yield(destination.FilePage{}, fmt.Errorf("read files from journal: %w", err))
				return
			}
			if n > 0 && !yield(p, nil) || n < filesPage {
				return
			}
			after = p.Last
		}
	}
}

// parseFiles undoes the joining.
func parseFiles(text string, n int) ([]destination.FileRecord, error) {
	files := make([]destination.FileRecord, 0, n)
	for more := true; more; {
		var one string
		one, text, more = strings.Cut(text, "///")
		path, rest, ok := strings.Cut(one, "//")
		length, rest, ok2 := strings.Cut(rest, "/")
		written, tag, ok3 := strings.Cut(rest, "/")
		size, err := strconv.ParseInt(length, 10, 64)
		f := destination.FileRecord{Path: path, Length: size, Tag: strings.TrimSuffix(tag, ".")}
		if err == nil && written != "-" {
			var at int64
			at, err = strconv.ParseInt(written, 10, 64)
			f.Written = time.UnixMicro(at)
		}
		if !ok || !ok2 || !ok3 || err != nil {
			return nil, errDamaged
		}
		files = append(files, f)
	}
	if len(files) != n {
		return nil, errDamaged
	}
	return files, nil
}
