package statedir_test

import (
	"os"
	"path/filepath"
	"testing"

	"lockstep/internal/statedir"
	"lockstep/storage/sqlite"
)

// TestAdopt: what is in a local directory remains as long as it is the one that was used last, and is
// removed when it is new, or was used before another one; then the history restarts once.
func TestAdopt(t *testing.T) {
	t.Parallel()
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	notes := statedir.Rows{Journal: db.Journal()}
	first, second := t.TempDir(), t.TempDir()
	files := []string{"origin-main-jsonl.json", "documents/.well-known/resourcesync", "admin-token"}
	fill := func(dir string) {
		t.Helper()
		for _, name := range files {
			path := filepath.Join(dir, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, step := range []struct {
		name            string
		dir             string
		before          func() error
		keeps, restarts bool
	}{
		{"the first start, beside what another database has left", first, nil, false, false},
		{"another start", first, nil, true, false},
		{"a start on another machine", second, nil, false, true},
		{"another start there", second, nil, true, false},
		{"a start on the first machine", first, nil, false, true},
		{"a start of a restored database", first, func() error { return statedir.ForgetLocal(notes) }, false, true},
	} {
		fill(step.dir)
		if step.before != nil {
			if err := step.before(); err != nil {
				t.Fatal(err)
			}
		}
		if err := statedir.Adopt(step.dir, notes, func() (bool, error) { return false, nil }); err != nil {
			t.Fatal(err)
		}
		for i, name := range files {
			_, err := os.Stat(filepath.Join(step.dir, filepath.FromSlash(name)))
			if want := step.keeps || i == 2; (err == nil) != want { // a token is of this machine
				t.Errorf("%s: %s is there: %t, want %t", step.name, name, err == nil, want)
			}
		}
		state := statedir.InDatabase(notes, "postgres://db/maps")
		claim, err := statedir.OwnClaim(state)
		if err != nil || claim.Restarts() != step.restarts {
			t.Errorf("%s: the history restarts: %t, %v, want %t", step.name, claim.Restarts(), err, step.restarts)
		}
		if again, err := statedir.OwnClaim(state); err != nil || again.Restarts() != step.restarts {
			t.Errorf("%s: before a publication: %t, %v", step.name, again.Restarts(), err)
		}
		if err := claim.Published(t.Context()); err != nil || claim.Restarts() {
			t.Errorf("%s: after the publication: %t, %v", step.name, claim.Restarts(), err)
		}
	}
}

// TestAdoptCopy: the history restarts of a Source whose database was copied from a directory.
func TestAdoptCopy(t *testing.T) {
	t.Parallel()
	notes := statedir.Files(t.TempDir())
	if err := statedir.Adopt(t.TempDir(), notes, func() (bool, error) { return true, nil }); err != nil {
		t.Fatal(err)
	}
	if claim, err := statedir.OwnClaim(statedir.InDatabase(notes, "postgres://db/maps")); err != nil || !claim.Restarts() {
		t.Errorf("the history restarts: %t, %v", claim.Restarts(), err)
	}
}

// TestRows: notes in a database are there when it is opened again, and removed ones are not.
func TestRows(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	for i, want := range []string{"", "one", "two", ""} {
		db, err := sqlite.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		notes := statedir.Rows{Journal: db.Journal()}
		got, err := notes.Load("note")
		if err != nil || string(got) != want || (got == nil) != (want == "") {
			t.Errorf("step %d: the note is %q, %v, want %q", i, got, err, want)
		}
		next := [][]byte{[]byte("one"), []byte("two"), nil, nil}[i]
		if err := notes.Save("note", next); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}
