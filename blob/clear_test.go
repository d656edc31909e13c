package blob_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"lockstep/blob"
)

// TestClear makes room for a blob and destroys nothing.
func TestClear(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(filepath.Join(outside, "b"), []byte("not ours"), 0o644))
	for _, tt := range []struct {
		what  string
		make  func(root string) error
		moved bool
		free  bool
	}{
		{"nothing", func(string) error { return nil }, false, true},
		{"a file", func(root string) error {
			return errors.Join(os.Mkdir(filepath.Join(root, "a"), 0o755), os.WriteFile(filepath.Join(root, "a", "b"), nil, 0o644))
		}, false, true},
		{"a file on the way", func(root string) error { return os.WriteFile(filepath.Join(root, "a"), nil, 0o644) }, false, false},
		{"an empty directory", func(root string) error { return os.MkdirAll(filepath.Join(root, "a", "b"), 0o755) }, false, true},
		{"a directory with something", func(root string) error { return os.MkdirAll(filepath.Join(root, "a", "b", "c"), 0o755) }, false, false},
		{"a link", func(root string) error {
			return errors.Join(os.Mkdir(filepath.Join(root, "a"), 0o755), os.Symlink(filepath.Join(outside, "b"), filepath.Join(root, "a", "b")))
		}, true, true},
		{"a link on the way", func(root string) error { return os.Symlink(outside, filepath.Join(root, "a")) }, true, true},
		{"a link that leads nowhere", func(root string) error { return os.Symlink("nowhere", filepath.Join(root, "a")) }, true, true},
	} {
		root := t.TempDir()
		must(tt.make(root))
		d, err := blob.NewDir(root, blob.DirOptions{})
		must(err)
		moved, err := d.Clear(t.Context(), "a/b")
		if err != nil || (moved != "") != tt.moved {
			t.Errorf("%s: Clear: %q, %v", tt.what, moved, err)
		}
		if moved != "" {
			if info, err := os.Lstat(filepath.Join(root, moved)); err != nil || info.Mode()&fs.ModeSymlink == 0 {
				t.Errorf("%s: moved to %s: %v, %v", tt.what, moved, info, err)
			}
		}
		if err := commitNew(t, d, "a/b"); (err == nil) != tt.free {
			t.Errorf("%s: then Commit: %v", tt.what, err)
		}
		if text, err := os.ReadFile(filepath.Join(outside, "b")); err != nil || string(text) != "not ours" {
			t.Fatalf("%s: outside: %q, %v", tt.what, text, err)
		}
		must(d.Close())
	}
}

func commitNew(t *testing.T, s blob.Store, name string) error {
	w, err := s.Create(t.Context(), name)
	if err != nil {
		return err
	}
	defer w.Close()
	if _, err := w.Write([]byte("new")); err != nil {
		return err
	}
	return s.Commit(t.Context(), w)
}
