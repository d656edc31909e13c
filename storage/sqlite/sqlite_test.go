package sqlite_test

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/catalog/catalogtest"
	"lockstep/destination/journal"
	"lockstep/hub/hubstore"
	"lockstep/storage/internal/sqldb"
	"lockstep/storage/sqlite"
)

func TestCatalog(t *testing.T) {
	t.Parallel()
	catalogtest.Run(t, func(t *testing.T) catalog.Catalog {
		return open(t, sqlite.Options{}, filepath.Join(t.TempDir(), "catalog.db")).Catalog()
	})
}

func TestCatalogClock(t *testing.T) {
	t.Parallel()
	catalogtest.RunClock(t, func(t *testing.T, clock func() time.Time) catalog.Catalog {
		return open(t, sqlite.Options{Clock: clock}, filepath.Join(t.TempDir(), "catalog.db")).Catalog()
	})
}

func open(t testing.TB, o sqlite.Options, path string) *sqlite.DB {
	t.Helper()
	db, err := o.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		// What a canceled context has interrupted ends shortly after, on a busy machine
		// perhaps after Close, and a reader does not remove the log. Opening and closing
		// the database again removes it, unless a reading was not ended.
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			if _, err := os.Stat(path + "-wal"); err != nil {
				return
			}
			if time.Now().After(deadline) {
				t.Fatal("the log is still there after Close: a reading was not ended")
			}
			alone, err := o.Open(path)
			if err == nil {
				err = alone.Close()
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	return db
}

// again returns functions that open the file at path and close it, any number of
// times.
func again(t *testing.T, path string) (open func() *sqlite.DB, shut func()) {
	var db *sqlite.DB
	return func() *sqlite.DB {
			var err error
			if db, err = sqlite.Open(path); err != nil {
				t.Fatal(err)
			}
			return db
		}, func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}
}

func TestCatalogReopen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a?b%41#c é\xff.db")
	open, shut := again(t, path)
	catalogtest.RunReopen(t, func() catalog.Catalog { return open().Catalog() }, shut)
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); err != nil || !slices.Equal(left, []string{path}) {
		t.Errorf("files after Close: %q, %v", left, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	write := func(content string) string {
		path := filepath.Join(t.TempDir(), "catalog.db")
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	newer := filepath.Join(t.TempDir(), "catalog.db")
	if err := open(t, sqlite.Options{}, newer).Close(); err != nil {
		t.Fatal(err)
	}
	tamper(t, newer, `UPDATE schema_version SET version = 99 WHERE name = 'catalog'`)
	more := filepath.Join(t.TempDir(), "catalog.db")
	if err := open(t, sqlite.Options{}, more).Close(); err != nil {
		t.Fatal(err)
	}
	tamper(t, more, `INSERT INTO schema_version (name, version) VALUES ('later', 1)`)
	if _, err := sqlite.OpenReader(more); !errors.Is(err, sqldb.ErrNewer) { // tables of it would be missing in a copy
		t.Errorf("OpenReader = %v", err)
	}
	for name, tt := range map[string]struct{ path, want string }{
		"newer, a schema": {more, "later schema has version 1, this program knows versions up to 0"},
		"newer":           {newer, "catalog schema has version 99, this program knows versions up to 2"},
		"no folder":       {filepath.Join(t.TempDir(), "none", "catalog.db"), "unable to open database file"},
		"folder":          {t.TempDir(), "unable to open database file"},
		"other":           {write(strings.Repeat("This is a text. ", 100)), "not a database"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := sqlite.Open(tt.path)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), tt.path) {
				t.Errorf("Open = %v, want %q and the path", err, tt.want)
			}
			if errors.Is(err, sqldb.ErrNewer) != strings.HasPrefix(name, "newer") {
				t.Errorf("Open = %v", err)
			}
		})
	}
}

func TestDamagedRecord(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "catalog.db")
	c := open(t, sqlite.Options{}, path).Catalog()
	const set = "set"
	for _, uri := range []string{"a", "b", "c"} {
		if _, err := c.Apply(t.Context(), set, []catalog.Update{{Record: catalog.Record{URI: uri}}}); err != nil {
			t.Fatal(err)
		}
	}
	tamper(t, path, `UPDATE catalog_resource SET record = x'01ff' WHERE uri = 'b'`)
	var got []string
	for r, err := range c.Resources(t.Context(), set, catalog.Range{}) {
		if err != nil {
			got = append(got, err.Error())
		} else {
			got = append(got, r.URI)
		}
	}
	want := []string{"a", `read resources of set: resource "b": damaged record`}
	if !slices.Equal(got, want) {
		t.Errorf("Resources = %q, want %q", got, want)
	}
	if _, err := c.Apply(t.Context(), set, []catalog.Update{{Record: catalog.Record{URI: "b"}}}); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("Apply = %v, want that the record is damaged", err)
	}
}

// TestOpenAtOnce opens a new database from several handles, which behave like
// processes.
func TestOpenAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "catalog.db")
	const n = 4
	var g sync.WaitGroup
	for i := range n {
		g.Go(func() {
			db, err := sqlite.Open(path)
			if err != nil {
				t.Error(err)
				return
			}
			defer db.Close()
			for j := range 5 {
				u := catalog.Update{Record: catalog.Record{URI: fmt.Sprint(i, j)}}
				if _, err := db.Catalog().Apply(t.Context(), "set", []catalog.Update{u}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	g.Wait()
	s, err := open(t, sqlite.Options{}, path).Catalog().Status(t.Context(), "set")
	if err != nil || s.Resources != 5*n || s.Last != 5*n {
		t.Errorf("Status = %+v, %v, want %d resources", s, err, 5*n)
	}
}

// TestOpenReader: a reader sees what another process writes, and leaves everything as it is:
// a database of an earlier version, and one that was closed.
func TestOpenReader(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "state.db")
	if _, err := sqlite.OpenReader(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("OpenReader of nothing = %v", err)
	}
	db, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	save := func(text string) {
		t.Helper()
		if err := db.Journal().Record(t.Context(), journal.Batch{Save: map[string][]byte{"x": []byte(text)}}); err != nil {
			t.Fatal(err)
		}
	}
	read := func(want string) {
		t.Helper()
		r, err := sqlite.OpenReader(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Journal().Load(t.Context(), "x")
		if err != nil || string(got) != want {
			t.Errorf("read %q, %v, want %q", got, err, want)
		}
		if err := r.Journal().Record(t.Context(), journal.Batch{Save: map[string][]byte{"x": nil}}); err == nil {
			t.Error("a reader has written")
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	save("one")
	read("one")
	save("two")
	read("two")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	tamper(t, path, `UPDATE schema_version SET version = version - 1 WHERE name = 'journal'`)
	before := listing(t, dir)
	read("two")
	if after := listing(t, dir); after != before {
		t.Errorf("files before:\n%s\nafter:\n%s", before, after)
	}
	tamper(t, path, `UPDATE schema_version SET version = 99`)
	if _, err := sqlite.OpenReader(path); !errors.Is(err, sqldb.ErrNewer) {
		t.Errorf("a newer version: %v", err)
	}
}

// TestDamagedPages: whatever is read of a database, damaged pages are reported as such.
func TestDamagedPages(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	db, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	update := catalog.Update{Record: catalog.Record{URI: "http://example.org/a"}}
	if _, err := db.Catalog().Apply(t.Context(), "set", []catalog.Update{update}); err != nil {
		t.Fatal(err)
	}
	var pages []int
	const roots = `SELECT rootpage FROM sqlite_schema WHERE rootpage > 0 AND tbl_name <> 'schema_version'`
	err = db.Each(t.Context(), roots, nil, func(rows *sql.Rows) (bool, error) {
		var page int
		err := rows.Scan(&page)
		pages = append(pages, page)
		return true, err
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		copy(b[(page-1)*4096:page*4096], strings.Repeat("damaged ", 512))
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	db = open(t, sqlite.Options{}, path)
	ctx := t.Context()
	_, status := db.Catalog().Status(ctx, "set")
	_, applied := db.Catalog().Apply(ctx, "set", []catalog.Update{update})
	_, mark := db.Catalog().Mark(ctx, "set")
	var split, listed error
	for _, split = range db.Catalog().Split(ctx, "set", 1) {
	}
	for _, listed = range db.Catalog().Resources(ctx, "set", catalog.Range{}) {
	}
	_, loaded := db.Journal().Load(ctx, "name")
	_, instant := db.Journal().Instant(ctx, time.Now())
	_, cursor := db.Versions().Cursor(ctx, "set")
	for what, err := range map[string]error{
		"Catalog.Status": status, "Catalog.Apply": applied, "Catalog.Mark": mark, "Catalog.Split": split, "Catalog.Resources": listed,
		"Journal.Load": loaded, "Journal.Instant": instant, "Versions.Cursor": cursor,
	} {
		if !errors.Is(err, sqlite.ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestChangedWhileRead: if a process opens, changes and closes a database that no process used, a reader does not
// take that for damage.
func TestChangedWhileRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	if err := open(t, sqlite.Options{}, path).Close(); err != nil {
		t.Fatal(err)
	}
	r, err := sqlite.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Unchanged(); err != nil {
		t.Errorf("nothing was changed: %v", err)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("other pages ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.Unchanged(); err == nil {
		t.Error("it is unchanged")
	}
	err = r.Each(t.Context(), `SELECT uri FROM catalog_resource`, nil, func(*sql.Rows) (bool, error) { return true, nil })
	if err == nil || errors.Is(err, sqlite.ErrDamaged) || !strings.Contains(err.Error(), "another process changed it") {
		t.Errorf("Each = %v", err)
	}
}

// TestSnapshotWhileOpened: the copy of a database that no process used is of one state, though a process opens,
// changes and closes it meanwhile.
func TestSnapshotWhileOpened(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, copied := filepath.Join(dir, "state.db"), filepath.Join(dir, "copy.db")
	tamper(t, path, `PRAGMA journal_mode=WAL; CREATE TABLE x (id INTEGER PRIMARY KEY, state INTEGER, more BLOB);
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 5000) INSERT INTO x SELECT i, 1, zeroblob(4000) FROM n`)
	done := make(chan error, 1)
	go func() { done <- sqlite.Snapshot(t.Context(), path, copied) }()
	for begun := false; !begun; time.Sleep(time.Millisecond) {
		info, err := os.Stat(copied)
		begun = err == nil && info.Size() > 0 || len(done) > 0
	}
	tamper(t, path, `UPDATE x SET state = 2 WHERE id < 10 OR id > 4990`)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", copied)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var states int
	if err := db.QueryRow(`SELECT COUNT(DISTINCT state) FROM x WHERE id < 10 OR id > 4990`).Scan(&states); err != nil || states != 1 {
		t.Errorf("the copy has rows of %d states, %v", states, err)
	}
}

// listing returns names, sizes, times and modes of the files in a directory.
func listing(t *testing.T, dir string) (text string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintln(e.Name(), info.Size(), info.ModTime(), info.Mode())
	}
	return text
}

// tamper runs a statement without using the store.
func tamper(t testing.TB, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
}

// TestRemoved: a write to a database whose file was removed, or replaced, would
// be lost; it returns an error.
func TestRemoved(t *testing.T) {
	t.Parallel()
	for _, replaced := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "hub.db")
		db, err := sqlite.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		h := db.Hub()
		message := []hubstore.Message{{Topic: "http://a.example/", ID: "1", Body: []byte("news"), At: time.Unix(1, 0)}}
		if _, err := h.Append(t.Context(), message); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(path); err != nil {
			return // Windows does not allow that
		}
		if replaced {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := h.Append(t.Context(), message); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("replaced %v: written to a file without a name: %v", replaced, err)
		}
		_ = db.Close() // there is nothing to clean up
	}
}
