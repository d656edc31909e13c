package blob_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lockstep/blob"
)

// TestRetime sets the time of a blob that is as described, and of nothing else.
func TestRetime(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	d, err := blob.NewDir(root, blob.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	file := filepath.Join(root, "a", "b.txt")
	was, mod := time.Date(2020, 1, 2, 3, 4, 5, 678_901_000, time.UTC), time.Date(2021, 1, 2, 3, 4, 5, 123_456_789, time.UTC)
	if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o777), os.WriteFile(file, []byte("x"), 0o666), os.Chtimes(file, was, was)); err != nil {
		t.Fatal(err)
	}
	timeOf := func() time.Time {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime()
	}
	if err := os.Symlink("b.txt", filepath.Join(root, "a", "link")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		was  blob.Info
		want error
	}{
		{blob.Info{Name: "a/b.txt", Size: 2, ModTime: was}, blob.ErrAltered},
		{blob.Info{Name: "a/b.txt", Size: 1, ModTime: was.Add(time.Microsecond)}, blob.ErrAltered},
		{blob.Info{Name: "a/none", Size: 1, ModTime: was}, blob.ErrNotExist},
		{blob.Info{Name: "a", Size: 1, ModTime: was}, blob.ErrDirectory},
		{blob.Info{Name: "a/link", Size: 1, ModTime: was}, blob.ErrForeign},
		{blob.Info{Name: "../b.txt", Size: 1, ModTime: was}, blob.ErrName},
	} {
		if err := d.Retime(t.Context(), tt.was, mod); !errors.Is(err, tt.want) || !timeOf().Equal(was) {
			t.Errorf("Retime of %+v = %v, and the file has the time %s; want %v, %s", tt.was, err, timeOf(), tt.want, was)
		}
	}
	if err := d.Retime(t.Context(), blob.Info{Name: "a/b.txt", Size: 1, ModTime: was}, mod); err != nil || !timeOf().Equal(mod) {
		t.Errorf("Retime = %v, and the file has the time %s, want %s", err, timeOf(), mod)
	}
}
