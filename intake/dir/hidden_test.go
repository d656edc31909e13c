//go:build unix

package dir_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/dir"
)

// TestHidden leaves out names that begin with a dot, with all below them, counts them, and
// does not open them; by default they are resources.
func TestHidden(t *testing.T) {
	t.Parallel()
	root, cat := t.TempDir(), catalog.NewMem(nil)
	shown := []string{".well-known/security.txt", "a.txt", "b/c.txt", "d..e/f."}
	hidden := []string{".env", ".git/config", ".git/objects/x", "b/.DS_Store", "b/.well-known/x", "...", ".well-known/.x", ".well-knownx"}
	for _, name := range slices.Concat(shown, hidden) {
		write(t, root, name, name)
	}
	paths := func() (rels []string) {
		d := newDir(t, root, cat, dir.Options{})
		for r, err := range cat.Resources(context.Background(), set, catalog.Range{}) {
			must(t, err)
			rel, _ := d.RelPath(r.URI)
			rels = append(rels, rel)
		}
		return rels
	}
	r := scan(t, newDir(t, root, cat, dir.Options{}))
	if got := paths(); len(got) != len(shown)+len(hidden) || r.Hidden.Count != 0 {
		t.Errorf("with hidden files: %q, %d left out", got, r.Hidden.Count)
	}
	d := newDir(t, root, cat, dir.Options{SkipHidden: true})
	r = scan(t, d)
	if got := paths(); !slices.Equal(got, shown) || r.Deleted != int64(len(hidden)) {
		t.Errorf("without hidden files: %q, %d deleted; want %q, %d deleted", got, r.Deleted, shown, len(hidden))
	}
	var left []string
	for _, p := range r.Hidden.First {
		left = append(left, p.Path)
	}
	if want := []string{"...", ".env", ".git", ".well-known/.x", ".well-knownx", "b/.DS_Store", "b/.well-known"}; !slices.Equal(left, want) || r.Hidden.Count != 7 || r.Skipped.Count != 0 {
		t.Errorf("left out: %q, %d, and %d skipped; want %q, %d, none", left, r.Hidden.Count, r.Skipped.Count, want, len(want))
	}
	for _, name := range hidden {
		if f, _, err := d.Open(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Open(%s) = %v, %v, want that it does not exist", name, f, err)
		}
		if _, err := d.Mark(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Mark(%s) = %v, want that it does not exist", name, err)
		}
	}
	for _, name := range shown {
		f, _, err := d.Open(name)
		must(t, err)
		_ = f.Close()
	}
	write(t, root, ".new/x", "x")
	write(t, root, "new", "x")
	if r, err := d.ScanPaths(context.Background(), ".new/x", ".new", "new", ".git/config"); err != nil || r.Created != 1 {
		t.Errorf("ScanPaths: %v, %d created, want 1", err, r.Created)
	}
}

// TestPrivate counts files and directories that other users may not read, and publishes them.
func TestPrivate(t *testing.T) {
	t.Parallel()
	root, cat := t.TempDir(), catalog.NewMem(nil)
	modes := map[string]os.FileMode{"a": 0o644, "b": 0o640, "c": 0o604, "d": 0o600, "sub/e": 0o644, "open/f": 0o644, "list/g": 0o644}
	for name, mode := range modes {
		write(t, root, name, name)
		must(t, os.Chmod(filepath.Join(root, name), mode))
	}
	for name, mode := range map[string]os.FileMode{".": 0o755, "sub": 0o750, "open": 0o755, "list": 0o754} {
		must(t, os.Chmod(filepath.Join(root, name), mode))
	}
	must(t, os.Symlink("d", filepath.Join(root, "link")))
	r := scan(t, newDir(t, root, cat, dir.Options{}))
	var found []string
	for _, p := range r.Private.First {
		found = append(found, p.Path)
		if !errors.Is(p.Err, intake.ErrPrivate) {
			t.Errorf("%s: %v, want %v", p.Path, p.Err, intake.ErrPrivate)
		}
	}
	if want := "b d link list/ sub/"; strings.Join(found, " ") != want || r.Private.Count != 5 || r.Created != int64(len(modes))+1 {
		t.Errorf("private are %q, %d, of %d; want %s, 5 of %d", found, r.Private.Count, r.Created, want, len(modes)+1)
	}
}
