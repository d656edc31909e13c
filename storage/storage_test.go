package storage_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/destination/journal"
	"lockstep/hub/hubstore"
	"lockstep/intake"
	"lockstep/storage"
	"lockstep/storage/postgres"
	"lockstep/storage/postgres/postgrestest"
	"lockstep/storage/sqlite"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }

// fill puts rows of most tables into the SQLite database in a new file.
func fill(t *testing.T, n int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "state.db")
	db, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	cat := db.Catalog()
	_, err = cat.Mark(ctx, "main")
	must(err)
	var updates []catalog.Update
	var held []journal.Held
	for i := range n {
		uri := fmt.Sprintf("http://x.org/%05d é", i)
		updates = append(updates, catalog.Update{Record: catalog.Record{URI: uri, Lastmod: time.Unix(int64(i), 0).UTC(), Length: int64(i), Type: "text/plain"}})
		held = append(held, journal.Held{URI: uri, Path: fmt.Sprint(i), Length: int64(i), Sets: []int{0}})
	}
	_, err = cat.Apply(ctx, "main", updates)
	must(err)
	must(db.Journal().Record(ctx, journal.Batch{Put: held, Save: map[string][]byte{"run": []byte("{}"), "nothing": {}}}))
	sum := "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // of "abc", FIPS 180-4
	must(db.Contents().Put(ctx, "main", []intake.Content{{URI: "http://x.org/c", Hash: sum, Bytes: []byte("abc")}}))
	_, err = db.Hub().Append(ctx, []hubstore.Message{{Topic: "http://x.org/topic", ID: "1", Body: []byte("\x00\\ body")}, {Topic: "http://x.org/topic", ID: "2", Links: []string{"<a>; rel=b"}}})
	must(err)
	return path
}

func open(t *testing.T, place string) *storage.DB {
	t.Helper()
	db, err := storage.Open(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func reader(t *testing.T, place string) *storage.DB {
	t.Helper()
	db, err := storage.OpenReader(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func silent(string, int64) {}

// TestCopy: a database is copied to another engine and back, with all rows; a second copy writes
// nothing; one that was interrupted continues; what only the copy had is removed.
func TestCopy(t *testing.T) {
	t.Parallel()
	file, url := fill(t, 2500), postgrestest.URL(t)
	from, to := reader(t, file), open(t, url)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := storage.Copy(ctx, from, to, func(table string, rows int64) {
		if table == "catalog_resource" && rows == 2000 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("an interrupted copy ended with %v", err)
	}
	first, err := storage.Copy(t.Context(), from, to, silent)
	if err != nil || first.Rows < 3*2500 || first.Written == 0 {
		t.Fatalf("copied %+v, %v", first, err)
	}
	again, err := storage.Copy(t.Context(), from, to, silent)
	if err != nil || again.Written+again.Removed != 0 || again.Rows != first.Rows {
		t.Fatalf("copied again %+v, %v", again, err)
	}
	back := open(t, filepath.Join(t.TempDir(), "back.db"))
	if _, err := storage.Copy(t.Context(), to, back, silent); err != nil {
		t.Fatal(err)
	}
	small := reader(t, fill(t, 10))
	less, err := storage.Copy(t.Context(), small, back, silent)
	if err != nil || less.Removed != first.Rows-less.Rows {
		t.Fatalf("copied a smaller database over it: %+v, %v", less, err)
	}
	for name, db := range map[string]*storage.DB{"PostgreSQL": to, "SQLite": back} {
		if found, err := db.Check(t.Context()); err != nil || len(found) > 0 {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
	info, err := to.Info(t.Context())
	if err != nil || info.Engine != storage.PostgreSQL || info.Bytes == 0 || info.Version == "" || len(info.Tables) < 8 {
		t.Errorf("info is %+v, %v", info, err)
	}
}

// TestTables: the tables that are copied are all tables, with all their columns and their keys.
func TestTables(t *testing.T) {
	t.Parallel()
	path := fill(t, 1)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(`SELECT m.name, c.name, c.type, c.pk FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' ORDER BY 1, 4, c.cid`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	have := map[string]string{}
	for rows.Next() {
		var table, column, kind string
		var key int
		if err := rows.Scan(&table, &column, &kind, &key); err != nil {
			t.Fatal(err)
		}
		mark := ""
		if key > 0 {
			mark = fmt.Sprint("key", key)
		}
		have[table] += fmt.Sprintf("%s %s%s\n", column, map[string]string{"BIGINT": "number", "SMALLINT": "number", "TEXT": "text", "BYTEA": "bytes"}[kind], mark)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for _, table := range append(storage.NotCopied(), "schema_version") {
		delete(have, table)
	}
	for table, columns := range storage.Columns() {
		if sortedLines(have[table]) != sortedLines(columns) {
			t.Errorf("%s has the columns\n%s, listed are\n%s", table, have[table], columns)
		}
		delete(have, table)
	}
	for table := range have {
		t.Errorf("%s is not listed", table)
	}
}

func sortedLines(text string) string {
	return strings.Join(slices.Sorted(strings.Lines(text)), "")
}

// TestOlderTables: the tables of an earlier version are not examined, the others are; and they are not copied.
func TestOlderTables(t *testing.T) {
	t.Parallel()
	path := fill(t, 5)
	raw, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = raw.Exec(`DROP TABLE catalog_refreshed; UPDATE schema_version SET version = 1 WHERE name = 'catalog'; UPDATE catalog_set SET resources = 7; UPDATE content SET bytes = x'00'`)
	if err := errors.Join(err, raw.Close()); err != nil {
		t.Fatal(err)
	}
	db, err := storage.OpenReader(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if found, err := db.Check(t.Context()); err != nil || len(found) != 1 || found[0].Table != "content" {
		t.Errorf("found %v, %v; want the damaged content", found, err)
	}
	to, err := storage.Open(t.Context(), filepath.Join(t.TempDir(), "to.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if _, err := storage.Copy(t.Context(), db, to, silent); !errors.Is(err, postgres.ErrOlder) {
		t.Errorf("Copy = %v", err)
	}
	if is, err := to.IsUnfinished(t.Context()); err != nil || is {
		t.Errorf("after a copy that was refused, the other one is unfinished: %t, %v", is, err)
	}
}

// TestCheck: each kind of damage is found.
func TestCheck(t *testing.T) {
	t.Parallel()
	for damage, want := range map[string]string{
		`UPDATE catalog_set SET resources = 7`:                                                     "catalog_set: the number of resources is wrong (main)",
		`DELETE FROM catalog_change WHERE seq = 3`:                                                 "catalog_set: changes are missing (main)",
		`UPDATE catalog_resource SET record = x'07' WHERE uri LIKE '%3 é'`:                         "catalog_resource: the row is damaged (http://x.org/00003 é)",
		`UPDATE catalog_resource SET set_id = 9 WHERE uri LIKE '%3 é'`:                             "catalog_resource: a resource belongs to no set (http://x.org/00003 é)",
		`UPDATE catalog_change SET record = x'0101' WHERE seq = 1`:                                 "catalog_change: the row is damaged (http://x.org/00000 é)",
		`UPDATE content SET bytes = x'00'`:                                                         "content: the content does not have its hash (http://x.org/c)",
		`UPDATE journal_held SET sets = x'ff'`:                                                     "journal_held: the row is damaged (5 rows, the first: http://x.org/00000 é)",
		`DELETE FROM hub_message WHERE seq = 1`:                                                    "hub_topic: messages are missing (http://x.org/topic)",
		`DELETE FROM hub_topic`:                                                                    "hub_message: a message belongs to no topic (2 rows, the first: 1)",
		`INSERT INTO hub_progress VALUES ('k', 0, 0, NULL, NULL, '', NULL, 0, 0)`:                  "hub_progress: it belongs to no subscription (k)",
		`INSERT INTO hub_subscription VALUES ('k', 't', 'http://c.org/', NULL, NULL, NULL)`:        "hub_subscription: how far the subscription has got is missing (http://c.org/)",
		`INSERT INTO memento_version VALUES (1, 1, 1, 0, x'00')`:                                   "memento_version: the row is damaged (number 1 at 1970-01-01T00:00:00Z)",
		`INSERT INTO ledger_record VALUES (1, 'i', 0, 0, 0, 0, x'05')`:                             "ledger_record: the row is damaged (i)",
		`INSERT INTO ledger_resource VALUES (1, 'http://x.org/l', 'i')`:                            "ledger_resource: a resource belongs to no record (http://x.org/l)",
		`INSERT INTO journal_past VALUES ('http://x.org/p', 1, 0, '', 0, NULL, NULL, NULL, x'01')`: "journal_past: the row is damaged (http://x.org/p)",
	} {
		t.Run(damage, func(t *testing.T) {
			t.Parallel()
			path := fill(t, 5)
			if found, err := reader(t, path).Check(t.Context()); err != nil || len(found) > 0 {
				t.Fatalf("before the damage: %v, %v", found, err)
			}
			raw, err := sql.Open("sqlite", path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := raw.Exec(damage); err != nil {
				t.Fatal(err)
			}
			if err := raw.Close(); err != nil {
				t.Fatal(err)
			}
			found, err := reader(t, path).Check(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var texts []string
			for i := range found {
				texts = append(texts, found[i].String())
			}
			if !strings.Contains(strings.Join(texts, "\n"), want) {
				t.Errorf("found %q, want %q", texts, want)
			}
		})
	}
}

// TestCheckWhileChanged: a database that a process changes while it is examined is not reported as damaged.
func TestCheckWhileChanged(t *testing.T) {
	t.Parallel()
	path := fill(t, 5)
	r := reader(t, path)
	raw, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = raw.Exec(`UPDATE catalog_set SET resources = 7`) // as a reader sees it that has read the resources before
	if err := errors.Join(err, raw.Close()); err != nil {
		t.Fatal(err)
	}
	if found, err := r.Check(t.Context()); err == nil || len(found) > 0 || !strings.Contains(err.Error(), "another process changed it") {
		t.Errorf("found %v, %v", found, err)
	}
}

// TestDamagedPages: pages of the file that were overwritten are found.
func TestDamagedPages(t *testing.T) {
	t.Parallel()
	path := fill(t, 5000)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	for at := info.Size() / 2; at < info.Size()-4096; at += 64 << 10 {
		if _, err := f.WriteAt([]byte(strings.Repeat("damaged ", 100)), at/4096*4096); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	found, err := reader(t, path).Check(t.Context())
	if err == nil && len(found) == 0 {
		t.Error("nothing was found")
	}
	if err != nil && !errors.Is(err, sqlite.ErrDamaged) {
		t.Errorf("ended with %v", err)
	}
}

// TestSnapshot: a database can be copied while it is written to, and the copy is whole.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	path := fill(t, 100)
	db, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Catalog().Apply(t.Context(), "main", []catalog.Update{{Record: catalog.Record{URI: "http://x.org/new", Length: 1}, Deleted: false}}); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "copy.db")
	if err := sqlite.Snapshot(t.Context(), path, copied); err != nil {
		t.Fatal(err)
	}
	r := reader(t, copied)
	if found, err := r.Check(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("the copy: %v, %v", found, err)
	}
	info, err := r.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range info.Tables {
		if table.Name == "catalog_resource" && table.Rows != 101 {
			t.Errorf("the copy has %d resources, want 101", table.Rows)
		}
	}
	if err := sqlite.Snapshot(t.Context(), path, copied); !errors.Is(err, fs.ErrExist) {
		t.Errorf("an existing file was not refused: %v", err)
	}
}
