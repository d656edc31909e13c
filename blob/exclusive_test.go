package blob_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"lockstep/blob"
)

// TestExclusive commits blobs that must be new, of which one is not: those before it are
// committed, and it can be dropped, so that those behind it are, too.
func TestExclusive(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	d := newDir(t, root, blob.DirOptions{})
	var ws []blob.Writer
	for _, name := range []string{"a/1", "a/2", "a/3"} {
		w, err := d.Create(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, "ours"); err != nil {
			t.Fatal(err)
		}
		w.(blob.Exclusive).ExpectNone()
		ws = append(ws, w)
	}
	theirs := filepath.Join(root, "a", "2")
	if err := errors.Join(os.Mkdir(filepath.Dir(theirs), 0o777), os.WriteFile(theirs, []byte("theirs"), 0o666)); err != nil {
		t.Fatal(err)
	}
	err := d.Commit(t.Context(), ws...)
	var ce *blob.CommitError
	if !errors.As(err, &ce) || !errors.Is(err, fs.ErrExist) || ce.Done != 1 || ce.Name != "a/2" {
		t.Fatalf("Commit = %v, want that a/2 exists", err)
	}
	if err := errors.Join(ws[1].Close(), d.Commit(t.Context(), ws[2])); err != nil {
		t.Fatal(err)
	}
	wantFile(t, filepath.Join(root, "a", "1"), "ours")
	wantFile(t, theirs, "theirs")
	wantFile(t, filepath.Join(root, "a", "3"), "ours")
}

// TestRenamedMode renames unfinished blobs between names that others may read and names
// that they may not, also such as were created whole: each has the mode of its last name.
func TestRenamedMode(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	d := newDir(t, root, blob.DirOptions{})
	for how, create := range creators(d) {
		for from, to := range map[string]string{"public": ".lockstep/state", ".lockstep/other": "shown", "same": "again"} {
			w, err := create(t.Context(), from)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(w.(blob.Renamer).Rename(to), d.Commit(t.Context(), w)); err != nil {
				t.Fatal(err)
			}
		}
		for name, want := range map[string]fs.FileMode{".lockstep/state": 0o600, "shown": publicMode(t), "again": publicMode(t)} {
			wantMode(t, how, filepath.Join(root, name), want)
		}
	}
}

// TestKeptMode keeps unfinished blobs, also such as should have become whole: only their
// owner can read them.
func TestKeptMode(t *testing.T) {
	t.Parallel()
	for how, unfinished := range map[string]fs.FileMode{"Create": 0o600, "CreateWhole": publicMode(t)} {
		root := t.TempDir()
		d := newDir(t, root, blob.DirOptions{})
		w, err := creators(d)[how](t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		tmp, err := filepath.Glob(filepath.Join(root, ".lockstep/tmp/*"))
		if err != nil || len(tmp) != 1 {
			t.Fatalf("temporary files: %q, %v", tmp, err)
		}
		wantMode(t, how, tmp[0], unfinished)
		if err := w.(blob.Keeper).Keep(); err != nil {
			t.Fatal(err)
		}
		wantMode(t, how+" and Keep", tmp[0], 0o600)
	}
}

// creators returns the methods that create blobs.
func creators(d *blob.Dir) map[string]func(context.Context, string) (blob.Writer, error) {
	return map[string]func(context.Context, string) (blob.Writer, error){"Create": d.Create, "CreateWhole": d.CreateWhole}
}

// publicMode returns the mode that the umask gives to files.
func publicMode(t *testing.T) fs.FileMode {
	t.Helper()
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(plain)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

func wantMode(t *testing.T, how, path string, want fs.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != want {
		t.Errorf("%s: %s has mode %v, want %v", how, path, info.Mode(), want)
	}
}
