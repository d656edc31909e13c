package statebackup_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/destination/journal"
	"lockstep/internal/statebackup"
	"lockstep/storage"
	"lockstep/storage/postgres"
	"lockstep/storage/postgres/postgrestest"
	"lockstep/storage/sqlite"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// put writes n resources to the catalog in a database.
func put(t *testing.T, db *sqlite.DB, prefix string, n int) {
	t.Helper()
	var updates []catalog.Update
	for i := range n {
		updates = append(updates, catalog.Update{Record: catalog.Record{URI: fmt.Sprintf("http://x.org/%s%05d", prefix, i), Length: int64(i)}})
	}
	if _, err := db.Catalog().Apply(t.Context(), "main", updates); err != nil {
		t.Fatal(err)
	}
}

// newState makes a state directory, whose database stays open.
func newState(t *testing.T, database string) (dir string, db *sqlite.DB) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "state")
	for name, text := range map[string]string{
		"hub.key": "secret", "lock": "", "lock.json": "{}", "documents/.well-known/resourcesync": "<urlset/>", "documents/.lockstep/tmp/unfinished": "half",
		"documents/resourcesync/tmp/list.xml": "<urlset/>", ".lockstep/lock": "", ".lockstep/destination": "s3://b/\n",
	} {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	database = filepath.Join(dir, filepath.FromSlash(database))
	if err := os.MkdirAll(filepath.Dir(database), 0o700); err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	put(t, db, "a", 100)
	return dir, db
}

// tree returns the files below dir, with the length of each.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var lines strings.Builder
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		fmt.Fprintln(&lines, filepath.ToSlash(rel))
		info, err := d.Info()
		if err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", rel, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines.String()
}

func resources(t *testing.T, file string) int64 {
	t.Helper()
	db, err := storage.OpenReader(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	info, err := db.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range info.Tables {
		if table.Name == "catalog_resource" {
			return table.Rows
		}
	}
	return 0
}

// TestBackup: a state that a process has open is written to a file and restored, without what
// belongs to the process, and the restored state says that it was restored.
func TestBackup(t *testing.T) {
	t.Parallel()
	dir, _ := newState(t, "catalog.db")
	file := filepath.Join(t.TempDir(), "backup.tar.gz")
	r, err := statebackup.Backup(t.Context(), dir, file, now)
	if err != nil || r.Databases != 1 || r.Kind != statebackup.Directory || r.Bytes == 0 {
		t.Fatalf("wrote %+v, %v", r, err)
	}
	if info, err := os.Stat(file); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the backup has mode %v, %v", info.Mode(), err)
	}
	if _, err := statebackup.Backup(t.Context(), dir, file, now); !errors.Is(err, fs.ErrExist) {
		t.Errorf("an existing file is overwritten: %v", err)
	}
	target := filepath.Join(t.TempDir(), "new", "state")
	restored, err := statebackup.Restore(t.Context(), file, target, now.Add(time.Hour))
	if err != nil || restored.Databases != 1 || restored.Files != r.Files {
		t.Fatalf("restored %+v, %v", restored, err)
	}
	want := ".lockstep/destination\ncatalog.db\ndocuments/.well-known/resourcesync\ndocuments/resourcesync/tmp/list.xml\nhub.key\nrestored.json\n"
	if got := tree(t, target); got != want {
		t.Errorf("restored\n%swant\n%s", got, want)
	}
	if n := resources(t, filepath.Join(target, "catalog.db")); n != 100 {
		t.Errorf("restored %d resources", n)
	}
	if _, err := statebackup.Restore(t.Context(), file, target, now); !errors.Is(err, statebackup.ErrOccupied) {
		t.Errorf("a state is overwritten: %v", err)
	}
	for _, dir := range []string{filepath.Dir(file), filepath.Dir(target)} {
		if entries, _ := os.ReadDir(dir); len(entries) != 1 {
			t.Errorf("left in %s: %v", dir, entries)
		}
	}
}

// A hook is a context that calls once when the first database is copied.
type hook struct {
	context.Context
	once func()
}

func (h hook) Done() <-chan struct{} {
	h.once()
	return h.Context.Done()
}

// TestContentsShrink: a content that becomes smaller after it was written, because a version that the copied database
// has is no longer kept, stays whole in the backup; other files are as they are last.
func TestContentsShrink(t *testing.T) {
	t.Parallel()
	dir, _ := newState(t, "catalog.db")
	names := []string{"versions/ab/1", "upstreams/set/name/.lockstep/bitstreams/2", "documents/versions/list.xml", "upstreams/set/name/versions/3"}
	write := func(text string) {
		for _, name := range names {
			name = filepath.Join(dir, filepath.FromSlash(name))
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
				t.Error(err)
			}
		}
	}
	write("whole")
	file, target := filepath.Join(t.TempDir(), "backup.tar.gz"), filepath.Join(t.TempDir(), "state")
	ctx := hook{t.Context(), sync.OnceFunc(func() { write("rest") })}
	if _, err := statebackup.Backup(ctx, dir, file, now); err != nil {
		t.Fatal(err)
	}
	if _, err := statebackup.Restore(t.Context(), file, target, now); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"whole", "whole", "rest", "rest"} {
		if got, err := os.ReadFile(filepath.Join(target, filepath.FromSlash(names[i]))); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v, want %q", names[i], got, err, want)
		}
	}
}

// TestDatabasesAppear: a database that appears while others are copied is in the backup with what is in its log, and one
// that disappears is left out.
func TestDatabasesAppear(t *testing.T) {
	t.Parallel()
	dir, _ := newState(t, "catalog.db")
	gone := filepath.Join(dir, "upstreams", "set", "gone", ".lockstep", "state.db")
	fresh := filepath.Join(dir, "upstreams", "set", "fresh", ".lockstep", "state.db")
	create := func(name string) *sqlite.DB {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Error(err)
		}
		db, err := sqlite.Open(name)
		if err != nil {
			t.Error(err)
			return nil
		}
		return db
	}
	if err := create(gone).Close(); err != nil {
		t.Fatal(err)
	}
	ctx := hook{t.Context(), sync.OnceFunc(func() {
		if db := create(fresh); db != nil {
			t.Cleanup(func() { _ = db.Close() })
			put(t, db, "fresh", 100)
		}
		if err := errors.Join(os.WriteFile(filepath.Join(dir, "hub.db"), nil, 0o600), os.RemoveAll(filepath.Dir(gone))); err != nil {
			t.Error(err)
		}
	})}
	file, target := filepath.Join(t.TempDir(), "backup.tar.gz"), filepath.Join(t.TempDir(), "state")
	if r, err := statebackup.Backup(ctx, dir, file, now); err != nil || r.Databases != 3 {
		t.Fatalf("wrote %+v, %v", r, err)
	}
	if r, err := statebackup.Restore(t.Context(), file, target, now); err != nil || r.Databases != 3 {
		t.Fatalf("restored %+v, %v", r, err)
	}
	if n := resources(t, filepath.Join(target, "upstreams", "set", "fresh", ".lockstep", "state.db")); n != 100 {
		t.Errorf("restored %d resources of the database that appeared", n)
	}
}

// TestMirror: of a mirror the state is backed up, and restored beside its files.
func TestMirror(t *testing.T) {
	t.Parallel()
	dir, _ := newState(t, ".lockstep/state.db")
	file := filepath.Join(t.TempDir(), "backup.tar.gz")
	r, err := statebackup.Backup(t.Context(), dir, file, now)
	if err != nil || r.Kind != statebackup.Mirror {
		t.Fatalf("wrote %+v, %v", r, err)
	}
	if _, err := statebackup.Restore(t.Context(), file, dir, now); !errors.Is(err, statebackup.ErrOccupied) {
		t.Errorf("the state of a mirror is overwritten: %v", err)
	}
	target := t.TempDir()
	if err := os.WriteFile(filepath.Join(target, "resource.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := statebackup.Restore(t.Context(), file, target, now); err != nil {
		t.Fatal(err)
	}
	if got, want := tree(t, target), ".lockstep/destination\n.lockstep/state.db\nresource.txt\n"; got != want {
		t.Errorf("restored\n%swant\n%s", got, want)
	}
}

// putMirrors puts what a mirror remembers into a Journal, as a whole and as a part of it.
func putMirrors(t *testing.T, j journal.Journal) {
	t.Helper()
	b := journal.Batch{Save: map[string][]byte{}}
	for _, prefix := range []string{"", "up "} {
		b.Save[prefix+"mirror"], b.Save[prefix+"set/1"], b.Save[prefix+"local"] = []byte(`{"numbers":{"http://x.org/cl":1}}`), []byte(`{"complete":true}`), []byte(`{}`)
	}
	if err := j.Record(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

// wantMarked checks that the Journal says of both mirrors that they were restored.
func wantMarked(t *testing.T, j journal.Journal) {
	t.Helper()
	for _, prefix := range []string{"", "up "} {
		set, err := j.Load(t.Context(), prefix+"set/1")
		local, lerr := j.Load(t.Context(), prefix+"local")
		if err != nil || lerr != nil || !strings.Contains(string(set), `"restored":true`) || !strings.Contains(string(set), `"complete":true`) || local != nil {
			t.Errorf("%qset/1 is %s, local is %q; %v, %v", prefix, set, local, err, lerr)
		}
	}
}

// TestMirrorsMarked: mirrors whose states are restored compare everything: that of a mirror, and those of the upstreams
// of an Aggregator, in a directory or in PostgreSQL.
func TestMirrorsMarked(t *testing.T) {
	t.Parallel()
	for _, name := range []string{".lockstep/state.db", "upstreams/set/up/.lockstep/state.db"} {
		dir, db := newState(t, name)
		putMirrors(t, db.Journal())
		file, target := filepath.Join(t.TempDir(), "backup.tar.gz"), filepath.Join(t.TempDir(), "state")
		if _, err := statebackup.Backup(t.Context(), dir, file, now); err != nil {
			t.Fatal(err)
		}
		if _, err := statebackup.Restore(t.Context(), file, target, now); err != nil {
			t.Fatal(err)
		}
		restored, err := sqlite.Open(filepath.Join(target, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		defer restored.Close()
		wantMarked(t, restored.Journal())
	}
	from, to, file := postgrestest.URL(t), postgrestest.URL(t), filepath.Join(t.TempDir(), "backup.tar.gz")
	db, err := postgres.Open(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	putMirrors(t, db.Journal())
	if _, err := statebackup.Backup(t.Context(), from, file, now); err != nil {
		t.Fatal(err)
	}
	if _, err := statebackup.Restore(t.Context(), file, to, now); err != nil {
		t.Fatal(err)
	}
	restored, err := postgres.Open(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	defer restored.Close()
	wantMarked(t, restored.Journal())
}

// TestUpstreams: the files that an Aggregator mirrors are backed up and restored whatever their names are; only in
// the state of a mirror do names have a meaning.
func TestUpstreams(t *testing.T) {
	t.Parallel()
	dir, _ := newState(t, "catalog.db")
	mirror := filepath.Join(dir, "upstreams", "versions", "tmp")
	kept := []string{"a/harvest.db", "a/postgres.db", "a.db-journal", "bitstreams/tmp-1/b", "catalog.db", "lock", "lock.json", "report.new", "versions/tmp/a"}
	for _, name := range append([]string{".lockstep/lock", ".lockstep/tmp/unfinished"}, kept...) {
		file := filepath.Join(mirror, filepath.FromSlash(name))
		text := "not a database"
		if strings.HasSuffix(name, "postgres.db") {
			text = ""
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	db, err := sqlite.Open(filepath.Join(mirror, ".lockstep", "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	file, target := filepath.Join(t.TempDir(), "backup.tar.gz"), filepath.Join(t.TempDir(), "state")
	if r, err := statebackup.Backup(t.Context(), dir, file, now); err != nil || r.Databases != 2 {
		t.Fatalf("wrote %+v, %v", r, err)
	}
	if r, err := statebackup.Restore(t.Context(), file, target, now); err != nil || r.Databases != 2 {
		t.Fatalf("restored %+v, %v", r, err)
	}
	want := ".lockstep/state.db\n" + strings.Join(kept, "\n") + "\n"
	if got := tree(t, filepath.Join(target, "upstreams", "versions", "tmp")); got != want {
		t.Errorf("restored\n%swant\n%s", got, want)
	}
}

// TestHarvestLast: what a mirror has harvested is copied after the position that the mirror has reached in it.
func TestHarvestLast(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := []string{"catalog.db", "upstreams/set/name/.lockstep/state.db", ".lockstep/harvest.db", "upstreams/set/name/.lockstep/harvest.db"}
	for _, name := range want {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if p, err := statebackup.Find(dir); err != nil || !slices.Equal(p.Databases, want) {
		t.Errorf("found %q, %v, want %q", p.Databases, err, want)
	}
}

// TestEarlierVersion: the backup of an earlier version is restored, and its tables are brought up to date.
func TestEarlierVersion(t *testing.T) {
	t.Parallel()
	dir, db := newState(t, "catalog.db")
	err := db.Update(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec(`DROP TABLE catalog_refreshed; UPDATE schema_version SET version = 1 WHERE name = 'catalog'`)
		return err
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	file, target := filepath.Join(t.TempDir(), "backup.tar.gz"), filepath.Join(t.TempDir(), "state")
	if _, err := statebackup.Backup(t.Context(), dir, file, now); err != nil {
		t.Fatal(err)
	}
	if _, err := statebackup.Restore(t.Context(), file, target, now); err != nil {
		t.Fatal(err)
	}
	if n := resources(t, filepath.Join(target, "catalog.db")); n != 100 { // those of older tables are not counted
		t.Errorf("restored %d resources", n)
	}
}

// TestLinks: a state that is reached by a link is found, backed up and restored; one with a link in
// it is refused, since what that leads to would be missing.
func TestLinks(t *testing.T) {
	t.Parallel()
	dir, _ := newState(t, "catalog.db")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Skipf("this system has no symbolic links: %v", err)
	}
	file := filepath.Join(t.TempDir(), "backup.tar.gz")
	if _, err := statebackup.Backup(t.Context(), link, file, now); err != nil {
		t.Fatal(err)
	}
	real, target := t.TempDir(), filepath.Join(t.TempDir(), "target")
	if err := os.Symlink(real, target); err != nil {
		t.Fatal(err)
	}
	if _, err := statebackup.Restore(t.Context(), file, target, now); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(target); err != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("the link was replaced: %v, %v", info.Mode(), err)
	}
	if n := resources(t, filepath.Join(real, "catalog.db")); n != 100 {
		t.Errorf("restored %d resources", n)
	}
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, "bitstreams")); err != nil {
		t.Fatal(err)
	}
	if _, err := statebackup.Backup(t.Context(), dir, file+"2", now); err == nil || !strings.Contains(err.Error(), "bitstreams is a symbolic link") {
		t.Errorf("a link within the state: %v", err)
	}
}

// TestWhileItChanges: a backup that is made while a process writes is whole.
func TestWhileItChanges(t *testing.T) {
	t.Parallel()
	dir, db := newState(t, "catalog.db")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			_, err := db.Catalog().Apply(context.WithoutCancel(ctx), "main", []catalog.Update{{Record: catalog.Record{URI: fmt.Sprintf("http://x.org/b%05d", n)}}})
			name := filepath.Join(dir, "documents", fmt.Sprintf("%d.xml", n))
			if err = errors.Join(err, os.WriteFile(name, []byte("<urlset/>"), 0o600)); err == nil && n > 3 {
				err = os.Remove(filepath.Join(dir, "documents", fmt.Sprintf("%d.xml", n-3)))
			}
			if err != nil && n > 3 {
				t.Error(err)
				break
			}
		}
		done <- n
	}()
	for i := range 5 {
		file := filepath.Join(t.TempDir(), "backup.tar.gz")
		if _, err := statebackup.Backup(t.Context(), dir, file, now); err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(t.TempDir(), "state")
		if _, err := statebackup.Restore(t.Context(), file, target, now); err != nil {
			t.Fatal(err)
		}
		if n := resources(t, filepath.Join(target, "catalog.db")); n < 100 {
			t.Errorf("backup %d has %d resources", i, n)
		}
	}
	cancel()
	if n := <-done; n == 0 {
		t.Error("nothing was written meanwhile")
	}
}

// archive returns an archive with members, whose names begin with "d:" for a directory and "l:"
// for a symbolic link.
func archive(t testing.TB, members ...string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for i := 0; i < len(members); i += 2 {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: members[i], Mode: 0o600, Size: int64(len(members[i+1]))}
		if name, ok := strings.CutPrefix(h.Name, "l:"); ok {
			h.Typeflag, h.Name, h.Linkname, h.Size = tar.TypeSymlink, name, members[i+1], 0
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write([]byte(members[i+1])); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "backup.tar.gz")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const aboutText = `{"format":1,"kind":"directory","saved":"2026-05-01T12:00:00Z"}`

// TestHostileBackups: what is not a backup, or leads out of the directory, leaves nothing behind.
func TestHostileBackups(t *testing.T) {
	t.Parallel()
	dir, _ := newState(t, "catalog.db")
	good := filepath.Join(t.TempDir(), "good.tar.gz")
	if _, err := statebackup.Backup(t.Context(), dir, good, now); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	write := func(content []byte) string {
		file := filepath.Join(t.TempDir(), "bad.tar.gz")
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	flipped := bytes.Clone(text)
	flipped[len(text)/2] ^= 0x40
	about := "lockstep-backup.json"
	for name, file := range map[string]string{
		"empty": write(nil), "text": write([]byte("hello")), "cut": write(text[:len(text)/2]), "without its end": write(text[:len(text)-4]), "flipped": write(flipped),
		"outside": archive(t, about, aboutText, "../hub.db", "x"), "absolute": archive(t, about, aboutText, "/tmp/hub.db", "x"),
		"link": archive(t, about, aboutText, "l:sub", "/tmp", "sub/hub.db", "x"), "no database": archive(t, about, aboutText, "a", "x"),
		"no description": archive(t, "hub.db", "x"), "later": archive(t, about, `{"format":2,"kind":"directory"}`, "hub.db", "x"),
		"not a database": archive(t, about, aboutText, "hub.db", "xxxxxxxxxxxxxxxxxxxx"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			room := t.TempDir()
			if r, err := statebackup.Restore(t.Context(), file, filepath.Join(room, "state"), now); err == nil {
				t.Errorf("restored %+v", r)
			}
			if entries, _ := os.ReadDir(room); len(entries) > 0 {
				t.Errorf("left %v", entries)
			}
		})
	}
}

// TestNoState: a directory without a state is refused.
func TestNoState(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		if _, err := statebackup.Find(dir); !errors.Is(err, statebackup.ErrNoState) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// FuzzRestore: no archive makes Restore panic, or write outside its directory.
func FuzzRestore(f *testing.F) {
	for _, file := range []string{archive(f, "lockstep-backup.json", aboutText, "hub.db", "x"), archive(f, "lockstep-backup.json", aboutText, "../x", "y")} {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		room := t.TempDir()
		file := filepath.Join(room, "backup")
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := statebackup.Restore(t.Context(), file, filepath.Join(room, "state"), now)
		entries, _ := os.ReadDir(room)
		if err != nil && len(entries) != 1 {
			t.Errorf("left %v after %v", entries, err)
		}
	})
}
