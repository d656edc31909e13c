// Package examine reads a whole database, and reports rows that are damaged or do not fit
// together.
package examine

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"lockstep/catalog"
	"lockstep/destination/journal"
	"lockstep/memento"
	"lockstep/storage/internal/column"
	"lockstep/storage/internal/sqldb"
)

// A Problem is something that is wrong with a database.
type Problem struct {
	Where string // the table
	What  string // a sentence without its full stop
	Count int64  // of the rows that have the problem, at most Most
	First string // the first of them
}

// Most is how many rows with the same problem are counted.
const Most = 1000

// Examine reports the problems of a database, which nothing changes meanwhile. It returns an
// error if it could not read all of it. Schemas of an earlier version are left out.
func Examine(ctx context.Context, db *sqldb.DB, report func(Problem)) error {
	schemas, err := db.Schemas(ctx)
	if err != nil {
		return err
	}
	e := &examination{db: db, current: map[string]bool{}, problems: map[[2]string]*Problem{}}
	for _, s := range schemas {
		e.current[s.Name] = s.Version == s.Latest
	}
	err = e.run(ctx)
	for _, key := range e.order {
		report(*e.problems[key])
	}
	return err
}

// An examination is the state of one Examine.
type examination struct {
	db       *sqldb.DB
	current  map[string]bool        // schemas that have their latest version
	problems map[[2]string]*Problem // by table and what is wrong
	order    [][2]string
}

// note records a problem of the row that first describes.
func (e *examination) note(where, what, first string) {
	key := [2]string{where, what}
	p := e.problems[key]
	if p == nil {
		p = &Problem{Where: where, What: what, First: first}
		e.problems[key] = p
		e.order = append(e.order, key)
	}
	p.Count = min(p.Count+1, Most)
}

// hasTable reports whether a table is as this program knows it. Its name begins with that of its schema.
func (e *examination) hasTable(name string) bool {
	schema, _, _ := strings.Cut(name, "_")
	return e.current[schema]
}

func (e *examination) run(ctx context.Context) error {
	for _, r := range relations {
		if !e.hasTable(r.table) {
			continue
		}
		err := e.db.Each(ctx, r.query, nil, func(rows *sql.Rows) (bool, error) {
			var first sql.RawBytes
			if err := rows.Scan(&first); err != nil {
				return false, err
			}
			e.note(r.table, r.problem, string(first))
			return true, nil
		})
		if err != nil {
			return fmt.Errorf("examine %s: %w", r.table, err)
		}
	}
	for _, d := range decodings {
		if !e.hasTable(d.table) {
			continue
		}
		if err := d.run(ctx, e); err != nil {
			return fmt.Errorf("examine %s: %w", d.table, err)
		}
	}
	if !e.hasTable("journal_held") {
		return nil
	}
	return e.journal(ctx)
}

// A relation is a query for rows that do not fit to others.
type relation struct {
	table, problem string
	query          string // returns what identifies the row, at most Most times
}

const limit = ` LIMIT 1000` // Most

// relations are what has to be true of rows together.
var relations = []relation{
	{"catalog_set", "the number of resources is wrong",
		`SELECT name FROM catalog_set s WHERE resources <> (SELECT COUNT(*) FROM catalog_resource r WHERE r.set_id = s.id)` + limit},
	{"catalog_set", "changes are missing",
		`SELECT name FROM catalog_set s WHERE kept_at IS NOT NULL AND last_seq - kept_seq <> (SELECT COUNT(*) FROM catalog_change c
		WHERE c.set_id = s.id AND c.seq > s.kept_seq AND c.seq <= s.last_seq)` + limit},
	{"catalog_resource", "a resource belongs to no set",
		`SELECT uri FROM catalog_resource r WHERE NOT EXISTS (SELECT 1 FROM catalog_set s WHERE s.id = r.set_id)` + limit},
	{"catalog_change", "a change belongs to no set",
		`SELECT uri FROM catalog_change c WHERE NOT EXISTS (SELECT 1 FROM catalog_set s WHERE s.id = c.set_id)` + limit},
	{"catalog_change", "a change is newer than the last one of its set",
		`SELECT uri FROM catalog_change c WHERE EXISTS (SELECT 1 FROM catalog_set s WHERE s.id = c.set_id AND c.seq > s.last_seq)` + limit},
	{"catalog_refreshed", "a resource belongs to no set",
		`SELECT uri FROM catalog_refreshed r WHERE NOT EXISTS (SELECT 1 FROM catalog_set s WHERE s.id = r.set_id)` + limit},
	{"content", "a content belongs to no set",
		`SELECT uri FROM content c WHERE NOT EXISTS (SELECT 1 FROM content_set s WHERE s.id = c.set_id)` + limit},
	{"memento_resource", "a resource belongs to no set",
		`SELECT uri FROM memento_resource r WHERE NOT EXISTS (SELECT 1 FROM memento_set s WHERE s.id = r.set_id AND r.no <= s.resources)` + limit},
	{"memento_version", "a version belongs to no resource",
		`SELECT v.no FROM memento_version v WHERE NOT EXISTS (SELECT 1 FROM memento_set s WHERE s.id = v.set_id AND v.no <= s.resources)` + limit},
	{"ledger_record", "a record belongs to no set",
		`SELECT id FROM ledger_record r WHERE NOT EXISTS (SELECT 1 FROM ledger_set s WHERE s.id = r.set_id)` + limit},
	{"ledger_resource", "a resource belongs to no record",
		`SELECT uri FROM ledger_resource l WHERE NOT EXISTS (SELECT 1 FROM ledger_record r WHERE r.set_id = l.set_id AND r.id = l.id)` + limit},
	{"hub_topic", "messages are missing",
		`SELECT url FROM hub_topic t WHERE t.last - t.first + 1 <> (SELECT COUNT(*) FROM hub_message m
		WHERE m.topic_id = t.id AND m.seq >= t.first AND m.seq <= t.last)` + limit},
	{"hub_message", "a message belongs to no topic",
		`SELECT id FROM hub_message m WHERE NOT EXISTS (SELECT 1 FROM hub_topic t WHERE t.id = m.topic_id)` + limit},
	{"hub_subscription", "how far the subscription has got is missing",
		`SELECT callback FROM hub_subscription s WHERE NOT EXISTS (SELECT 1 FROM hub_progress p WHERE p.key = s.key)` + limit},
	{"hub_progress", "it belongs to no subscription",
		`SELECT key FROM hub_progress p WHERE NOT EXISTS (SELECT 1 FROM hub_subscription s WHERE s.key = p.key)` + limit},
}

// A decoding reads rows, and checks what their columns contain.
type decoding struct {
	table, query string
	check        func(rows *sql.Rows) (name string, problem string, err error) // problem is "" if all is well
}

func (d *decoding) run(ctx context.Context, e *examination) error {
	return e.db.Each(ctx, d.query, nil, func(rows *sql.Rows) (bool, error) {
		name, problem, err := d.check(rows)
		if problem != "" {
			e.note(d.table, problem, name)
		}
		return true, err
	})
}

const damaged = "the row is damaged"

var decodings = []decoding{
	{"catalog_resource", `SELECT uri, record FROM catalog_resource`, recordOf},
	{"catalog_change", `SELECT uri, record FROM catalog_change`, recordOf},
	{"content", `SELECT uri, hash, bytes FROM content`, func(rows *sql.Rows) (uri, problem string, err error) {
		var hash string
		var content sql.RawBytes
		if err := rows.Scan(&uri, &hash, &content); err != nil {
			return "", "", err
		}
		if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != hash {
			problem = "the content does not have its hash"
		}
		return uri, problem, nil
	}},
	{"memento_version", `SELECT no, at, version FROM memento_version`, func(rows *sql.Rows) (no, problem string, err error) {
		var at int64
		var packed sql.RawBytes
		if err := rows.Scan(&no, &at, &packed); err != nil {
			return "", "", err
		}
		var v memento.Version
		if column.ParseVersion(at, packed, &v) != nil {
			problem = damaged
		}
		return "number " + no + " at " + time.UnixMicro(at).UTC().Format(time.RFC3339), problem, nil
	}},
	{"ledger_record", `SELECT id, resources FROM ledger_record`, func(rows *sql.Rows) (id, problem string, err error) {
		var packed sql.RawBytes
		if err := rows.Scan(&id, &packed); err != nil {
			return "", "", err
		}
		_, rest, err := column.CutResources(string(packed))
		if err == nil {
			_, rest, err = column.CutResources(rest)
		}
		if err != nil || rest != "" {
			problem = damaged
		}
		return id, problem, nil
	}},
	{"hub_message", `SELECT id, links FROM hub_message`, func(rows *sql.Rows) (id, problem string, err error) {
		var links sql.RawBytes
		if err := rows.Scan(&id, &links); err != nil {
			return "", "", err
		}
		if _, err := column.DecodeStrings(links); err != nil {
			problem = damaged
		}
		return id, problem, nil
	}},
}

// recordOf checks a record of a catalog.
func recordOf(rows *sql.Rows) (uri, problem string, err error) {
	var packed sql.RawBytes
	if err := rows.Scan(&uri, &packed); err != nil {
		return "", "", err
	}
	var r catalog.Record
	if column.ParseRecord(packed, &r) != nil {
		problem = damaged
	}
	return uri, problem, nil
}

// journal checks the rows of a mirror.
func (e *examination) journal(ctx context.Context) error {
	const held = `SELECT uri, path, length, lastmod, hashes, etag, modified, sets, stated FROM journal_held`
	err := e.db.Each(ctx, held, nil, func(rows *sql.Rows) (bool, error) {
		var h journal.Held
		var lastmod sql.NullInt64
		var hashes, sets, stated sql.RawBytes
		if err := rows.Scan(&h.URI, &h.Path, &h.Length, &lastmod, &hashes, &h.ETag, &h.Modified, &sets, &stated); err != nil {
			return false, err
		}
		if lastmod.Valid {
			h.Lastmod = time.UnixMicro(lastmod.Int64).UTC()
		}
		var err error
		if h.Hashes, err = column.DecodeHashes(hashes); err == nil {
			if h.Sets, err = column.DecodeSets(sets); err == nil {
				err = h.DecodeStated(stated) // last: it refers to the rest
			}
		}
		if err != nil {
			e.note("journal_held", damaged, h.URI)
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("examine journal_held: %w", err)
	}
	const past = `SELECT uri, hashes, sets, digest FROM journal_past`
	err = e.db.Each(ctx, past, nil, func(rows *sql.Rows) (bool, error) {
		var uri string
		var hashes, sets, digest sql.RawBytes
		if err := rows.Scan(&uri, &hashes, &sets, &digest); err != nil {
			return false, err
		}
		_, herr := column.DecodeHashes(hashes)
		_, serr := column.DecodeSets(sets)
		if herr != nil || serr != nil || len(digest) != 0 && len(digest) != sha256.Size {
			e.note("journal_past", damaged, uri)
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("examine journal_past: %w", err)
	}
	return nil
}
