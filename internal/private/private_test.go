package private_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"lockstep/internal/private"
)

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

// TestModes: created files and directories have modes 0600 and 0700, wider ones
// are restricted, links are not followed.
func TestModes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no such modes")
	}
	t.Parallel()
	top := t.TempDir()
	dir, file, link := filepath.Join(top, "a", "b"), filepath.Join(top, "a", "b", "f"), filepath.Join(top, "link")
	for range 2 {
		if err := private.Dir(dir); err != nil {
			t.Fatal(err)
		}
		if err := private.File(file); err != nil {
			t.Fatal(err)
		}
		if d, f := mode(t, dir), mode(t, file); d != 0o700 || f != 0o600 || mode(t, filepath.Dir(dir)) != 0o700 {
			t.Errorf("modes %o and %o, want 700 and 600", d, f)
		}
		for path, wide := range map[string]os.FileMode{dir: 0o755, file: 0o664} {
			if err := os.Chmod(path, wide); err != nil {
				t.Fatal(err)
			}
		}
		if !private.Wide(dir) {
			t.Error("a directory that others can read is not reported")
		}
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if err := private.Narrow(link); err != nil || mode(t, file) != 0o664 {
		t.Errorf("through a link: %v, mode %o", err, mode(t, file))
	}
	if err := private.Narrow(filepath.Join(top, "missing")); err != nil {
		t.Errorf("of a file that is not there: %v", err)
	}
}

// TestReplaceAndCreate: a file is replaced as a whole, with mode 0600, whatever an
// interrupted call left; Create never replaces one.
func TestReplaceAndCreate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path+".new", []byte("left by a crash, and longer"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"1", "another", ""} {
		if err := private.Replace(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("content %q, %v, want %q", got, err, text)
		}
	}
	if runtime.GOOS != "windows" && mode(t, path) != 0o600 {
		t.Errorf("mode %o", mode(t, path))
	}
	if err := private.Create(path, []byte("2")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Create = %v where the file exists", err)
	}
	other := path + "2"
	if err := private.Create(other, []byte("2")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(other); err != nil || string(got) != "2" {
		t.Errorf("content %q, %v", got, err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 2 {
		t.Errorf("%d files are left, %v, want 2", len(left), err)
	}
	if err := private.Replace(filepath.Join(path, "below"), nil); err == nil {
		t.Error("Replace below a file succeeds")
	}
}
