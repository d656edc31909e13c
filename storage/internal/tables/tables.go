// Package tables reads and writes the tables of a database as rows, whatever they mean: to
// count them, and to make the rows of one database those of another, of any engine.
package tables

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"lockstep/storage/internal/sqldb"
)

// A Table is one table of the schema.
type Table struct {
	Schema  string // the migrations that it belongs to
	Name    string
	Key     []Column // in the order of the key, by which rows are read
	Columns []Column // the others
}

// A Column is a column of a table.
type Column struct {
	Name string
	Type Type
}

// A Type is how the values of a column are stored.
type Type int

// The types.
const (
	Text   Type = iota // bytes, which most often are UTF-8
	Number             // 64 bits
	Bytes
)

// All returns the tables, in the order of their schemas.
func All() []Table {
	return []Table{
		{"catalog", "catalog_set", numbers("id"), columns("name", "+resources", "+last_seq", "+last_event", "+floor", "+kept_seq", "+kept_at")},
		{"catalog", "catalog_resource", columns("+set_id", "uri"), columns("*record")},
		{"catalog", "catalog_change", columns("+set_id", "+seq"), columns("+event", "+change", "uri", "*record")},
		{"catalog", "catalog_refreshed", columns("+set_id", "uri"), columns("+at")},
		{"content", "content_set", numbers("id"), columns("name")},
		{"content", "content", columns("+set_id", "uri", "hash"), columns("*bytes")},
		{"hub", "hub_topic", numbers("id"), columns("url", "+first", "+last", "+bytes", "*state", "+mark")},
		{"hub", "hub_mark", numbers("id"), columns("+mark")},
		{"hub", "hub_message", columns("+topic_id", "+seq"), columns("id", "+at", "content_type", "*links", "+whole", "*body")},
		{"hub", "hub_subscription", columns("key"), columns("topic", "callback", "*secret", "+created", "+expires")},
		{"hub", "hub_progress", columns("key"), columns("+cursor", "+attempts", "+next", "+failing", "last_error", "+last_taken", "+taken", "+given_up")},
		{"hub", "hub_request", columns("key"), columns("mode", "topic", "callback", "*secret", "+lease", "verify_token", "+at", "+attempts", "+next")},
		{"hub", "hub_replay", columns("*digest"), columns("+until")},
		{"journal", "journal_document", columns("name"), columns("*value")},
		{"journal", "journal_held", columns("uri"), columns("path", "+length", "+lastmod", "*hashes", "etag", "modified", "*sets", "+written", "tag", "*stated")},
		{"journal", "journal_owed", columns("+set_no", "uri"), columns("*entry", "cause")},
		{"journal", "journal_past", columns("uri", "+seq"), columns("+was", "path", "+length", "+lastmod", "*hashes", "*sets", "*digest")},
		{"journal", "journal_instant", numbers("at"), columns("+seq", "*note")},
		{"ledger", "ledger_set", numbers("id"), columns("name")},
		{"ledger", "ledger_record", columns("+set_id", "id"), columns("+seconds", "+nanos", "+deleted", "+undecided", "*resources")},
		{"ledger", "ledger_resource", columns("+set_id", "uri", "id"), nil},
		{"memento", "memento_set", numbers("id"), columns("name", "+last_seq", "+resources")},
		{"memento", "memento_resource", columns("+set_id", "uri"), columns("+no", "+dropped")},
		{"memento", "memento_version", columns("+set_id", "+no", "+at"), columns("+gone", "*version")},
	}
}

// Left returns the tables that are not copied: claims of running processes, which end by
// themselves, the lease of the process that owns the database, and the messages of processes that
// share a mirror.
func Left() []string {
	return []string{"hub_owner", "hub_claim", "lease", "share_message", "share_process"}
}

// columns returns columns by their names, with + before that of a number and * before that
// of bytes.
func columns(names ...string) []Column {
	all := make([]Column, len(names))
	for i, name := range names {
		switch {
		case strings.HasPrefix(name, "+"):
			all[i] = Column{name[1:], Number}
		case strings.HasPrefix(name, "*"):
			all[i] = Column{name[1:], Bytes}
		default:
			all[i] = Column{name, Text}
		}
	}
	return all
}

func numbers(name string) []Column { return []Column{{name, Number}} }

// Count returns the number of rows of a table.
func (t *Table) Count(ctx context.Context, db *sqldb.DB) (n int64, err error) {
	err = db.Each(ctx, `SELECT COUNT(*) FROM `+t.Name, nil, func(rows *sql.Rows) (bool, error) { return true, rows.Scan(&n) })
	if err != nil {
		return 0, fmt.Errorf("count %s: %w", t.Name, err)
	}
	return n, nil
}

// all returns all columns, the key first.
func (t *Table) all() []Column { return append(t.Key[:len(t.Key):len(t.Key)], t.Columns...) }

// list returns the names of columns as SQL.
func list(columns []Column) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name
	}
	return strings.Join(names, ", ")
}
