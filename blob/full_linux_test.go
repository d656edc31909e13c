package blob_test

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"lockstep/blob"
)

// mount mounts a small file system for a test.
func mount(t *testing.T, options string) (root string) {
	t.Helper()
	root = t.TempDir()
	if err := syscall.Mount("tmpfs", root, "tmpfs", 0, options); err != nil {
		t.Skipf("cannot mount a tmpfs to fill (%v): run as root, as CI does", err)
	}
	// Detached: the child process of another test may hold it open until it has
	// started.
	t.Cleanup(func() { must(t, syscall.Unmount(root, syscall.MNT_DETACH)) })
	return root
}

// On a full disk, the error names the blob that does not fit; existing blobs
// remain, dropped ones leave no trace, and once there is space the store works
// again.
func TestDirFull(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]string{"bytes": "size=256k", "inodes": "nr_inodes=40"} {
		t.Run(name, func(t *testing.T) {
			root := mount(t, options)
			d, err := blob.NewDir(filepath.Join(root, "store"), blob.DirOptions{})
			must(t, err)
			defer d.Close()
			old := strings.Repeat("old ", 1000)
			put(t, d, "a/old", old)
			var failed error
			n := 0
			for ; failed == nil && n < 200; n++ {
				failed = tryPut(t, d, fmt.Sprintf("b%d/c/new", n), strings.Repeat("new ", 5000))
			}
			last := fmt.Sprintf("b%d/c/new", n-1)
			if !errors.Is(failed, syscall.ENOSPC) || !strings.Contains(failed.Error(), last) {
				t.Fatalf("put %q = %v, want ENOSPC", last, failed)
			}
			if err := tryPut(t, d, "a/old", strings.Repeat("new ", 90_000)); name == "bytes" && !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("replacing = %v, want ENOSPC", err)
			} else if err == nil {
				old = strings.Repeat("new ", 90_000)
			}
			wantFile(t, filepath.Join(root, "store/a/old"), old)
			names := []string{}
			for _, name := range tree(t, root) {
				if strings.Contains(name, "tmp/") && !strings.HasSuffix(name, "/") || strings.HasPrefix(name, fmt.Sprintf("store/b%d/", n-1)) {
					names = append(names, name)
				}
			}
			if len(names) > 0 {
				t.Errorf("left: %q", names)
			}
			must(t, d.Remove(t.Context(), "b0/c/new", "b1/c/new", "b2/c/new"))
			put(t, d, last, "fits")
		})
	}
}

// A blob that stops growing because the disk is full can be kept and resumed.
func TestDirFullResume(t *testing.T) {
	t.Parallel()
	root := mount(t, "size=128k")
	d, err := blob.NewDir(root, blob.DirOptions{})
	must(t, err)
	defer d.Close()
	put(t, d, "ballast", strings.Repeat("x", 100_000))
	w, err := d.Create(t.Context(), "a")
	must(t, err)
	content := strings.Repeat("0123456789", 6_000)
	n, err := io.WriteString(w, content)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("Write = %d, %v, want ENOSPC", n, err)
	}
	must(t, w.(blob.Keeper).Keep())
	must(t, d.Remove(t.Context(), "ballast"))
	w, there, err := d.Resume(t.Context(), "a")
	must(t, err)
	b, err := io.ReadAll(there)
	must(t, err)
	if string(b) != content[:len(b)] || len(b) < n {
		t.Errorf("kept %d bytes of %d written", len(b), n)
	}
	_, err = io.WriteString(w, content[len(b):])
	must(t, err)
	must(t, d.Commit(t.Context(), w))
	wantFile(t, filepath.Join(root, "a"), content)
}

// A read-only disk reports its error, and can be read.
func TestDirReadOnly(t *testing.T) {
	t.Parallel()
	root := mount(t, "size=1m")
	d, err := blob.NewDir(root, blob.DirOptions{})
	must(t, err)
	defer d.Close()
	put(t, d, "d/a", "x")
	w, err := d.Create(t.Context(), "d/b")
	must(t, err)
	must(t, w.(blob.Keeper).Keep())
	must(t, syscall.Mount("", root, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	for name, err := range map[string]error{
		"d/a": d.Remove(t.Context(), "d/a"),
		"d/c": tryPut(t, d, "d/c", "x"),
	} {
		if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v, want EROFS", name, err)
		}
	}
	if _, _, err := d.Resume(t.Context(), "d/b"); !errors.Is(err, syscall.EROFS) {
		t.Errorf("Resume = %v, want EROFS", err)
	}
	if _, err := d.Sweep(t.Context(), slices.Values([]string{})); !errors.Is(err, syscall.EROFS) {
		t.Errorf("Sweep = %v, want EROFS", err)
	}
	wantFile(t, filepath.Join(root, "d/a"), "x")
	if _, err := d.Stat(t.Context(), "d/a"); err != nil {
		t.Error(err)
	}
	must(t, syscall.Mount("", root, "", syscall.MS_REMOUNT, ""))
	put(t, d, "d/c", "x")
}

// Another file system mounted inside cannot be renamed into.
func TestDirMountInside(t *testing.T) {
	t.Parallel()
	root := mount(t, "size=1m")
	d, err := blob.NewDir(filepath.Dir(root), blob.DirOptions{})
	must(t, err)
	defer d.Close()
	name := filepath.Base(root) + "/a"
	if err := tryPut(t, d, name, "x"); !errors.Is(err, syscall.EXDEV) || !strings.Contains(err.Error(), name) {
		t.Errorf("put = %v, want EXDEV", err)
	}
}
