//go:build unix

package blob_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"lockstep/blob"
)

// trap returns a store beside a directory that it must not touch.
func trap(t *testing.T) (d *blob.Dir, root, outside string) {
	t.Helper()
	dir := t.TempDir()
	root, outside = filepath.Join(dir, "root"), filepath.Join(dir, "outside")
	must(t, os.MkdirAll(filepath.Join(root, "real"), 0o755))
	must(t, os.MkdirAll(outside, 0o755))
	must(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("theirs"), 0o644))
	must(t, os.WriteFile(filepath.Join(root, "real/file"), []byte("theirs"), 0o644))
	return newDir(t, root, blob.DirOptions{}), root, outside
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Every operation refuses a link on the path or at its end, wherever it leads,
// and leaves it unchanged.
func TestDirSymlinks(t *testing.T) {
	t.Parallel()
	d, root, outside := trap(t)
	links := map[string]string{
		"out":     outside,
		"up":      "../outside",
		"in":      "real",
		"self":    "self",
		"file":    filepath.Join(outside, "secret"),
		"inner":   "real/file",
		"nowhere": filepath.Join(outside, "new"),
		"root":    ".",
	}
	for name, target := range links {
		must(t, os.Symlink(target, filepath.Join(root, name)))
	}
	for link := range links {
		for _, name := range []string{link, link + "/secret", link + "/file", link + "/new", link + "/d/new"} {
			if err := tryPut(t, d, name, "ours"); !errors.Is(err, blob.ErrForeign) {
				t.Errorf("put %q = %v, want ErrForeign", name, err)
			}
			if _, err := d.Open(t.Context(), name); !errors.Is(err, blob.ErrForeign) {
				t.Errorf("Open(%q) = %v, want ErrForeign", name, err)
			}
			if _, err := d.Stat(t.Context(), name); !errors.Is(err, blob.ErrForeign) {
				t.Errorf("Stat(%q) = %v, want ErrForeign", name, err)
			}
			if err := d.Remove(t.Context(), name); !errors.Is(err, blob.ErrForeign) {
				t.Errorf("Remove(%q) = %v, want ErrForeign", name, err)
			}
		}
	}
	for link, target := range links {
		if got, err := os.Readlink(filepath.Join(root, link)); got != target || err != nil {
			t.Errorf("link %s leads to %q, %v, want %q", link, got, err, target)
		}
	}
	wantTree(t, outside, "secret")
	wantFile(t, filepath.Join(outside, "secret"), "theirs")
	wantFile(t, filepath.Join(root, "real/file"), "theirs")
	names := []string{}
	for info, err := range d.List(t.Context(), "") {
		must(t, err)
		names = append(names, info.Name)
	}
	if want := []string{"real/file"}; !slices.Equal(names, want) {
		t.Errorf("List = %q, want %q", names, want)
	}
}

// A directory that becomes a link between two commits is noticed.
func TestDirSymlinkLater(t *testing.T) {
	t.Parallel()
	d, root, outside := trap(t)
	put(t, d, "a/b/c", "ours")
	must(t, os.Rename(filepath.Join(root, "a"), filepath.Join(root, "moved")))
	must(t, os.Symlink(outside, filepath.Join(root, "a")))
	must(t, os.Mkdir(filepath.Join(outside, "b"), 0o755))
	for _, name := range []string{"a/b/c", "a/secret"} {
		if err := tryPut(t, d, name, "ours"); !errors.Is(err, blob.ErrForeign) {
			t.Errorf("put %q = %v, want ErrForeign", name, err)
		}
	}
	wantTree(t, outside, "b/", "secret")
}

// The root itself may be a link: its owner has named it.
func TestDirRootSymlink(t *testing.T) {
	t.Parallel()
	_, root, _ := trap(t)
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(root, link))
	put(t, newDir(t, link, blob.DirOptions{}), "a", "ours")
	wantFile(t, filepath.Join(root, "a"), "ours")
}

// The temporary directory must not lead elsewhere either.
func TestDirTmpTraps(t *testing.T) {
	t.Parallel()
	t.Run("directory", func(t *testing.T) {
		d, root, outside := trap(t)
		must(t, os.Symlink(outside, filepath.Join(root, ".lockstep")))
		if err := tryPut(t, d, "a", "ours"); !errors.Is(err, blob.ErrForeign) {
			t.Errorf("put = %v, want ErrForeign", err)
		}
		if _, err := d.Sweep(t.Context(), slices.Values([]string{})); !errors.Is(err, blob.ErrForeign) {
			t.Errorf("Sweep = %v, want ErrForeign", err)
		}
		wantTree(t, outside, "secret")
	})
	for name, plant := range map[string]func(secret, at string) error{"symlink": os.Symlink, "hard link": os.Link} {
		t.Run(name, func(t *testing.T) {
			d, root, outside := trap(t)
			tmp := filepath.Join(root, ".lockstep/tmp")
			secret := filepath.Join(outside, "secret")
			must(t, keep(t, d, "a"))
			left := tree(t, tmp)
			if len(left) != 1 {
				t.Fatalf("kept: %q", left)
			}
			at := filepath.Join(tmp, left[0])
			must(t, os.Remove(at))
			must(t, plant(secret, at))
			if w, _, err := d.Resume(t.Context(), "a"); err == nil {
				t.Errorf("Resume of a link succeeded")
				_, _ = io.WriteString(w, "ours")
			}
			put(t, d, "a", "ours")
			wantFile(t, filepath.Join(root, "a"), "ours")
			wantFile(t, secret, "theirs")
			must(t, plant(secret, at))
			if n, err := d.Sweep(t.Context(), slices.Values([]string{})); err != nil {
				t.Errorf("Sweep = %d, %v", n, err)
			}
			wantTree(t, tmp)
			wantFile(t, secret, "theirs")
		})
	}
}

func keep(t *testing.T, d *blob.Dir, name string) error {
	t.Helper()
	w, err := d.Create(t.Context(), name)
	if err != nil {
		return err
	}
	return w.(blob.Keeper).Keep()
}

// A file with a second name elsewhere is replaced, not written through.
func TestDirHardLink(t *testing.T) {
	t.Parallel()
	d, root, outside := trap(t)
	secret := filepath.Join(outside, "secret")
	must(t, os.Link(secret, filepath.Join(root, "a")))
	put(t, d, "a", "ours")
	wantFile(t, filepath.Join(root, "a"), "ours")
	wantFile(t, secret, "theirs")
}

// Pipes do not block, devices and sockets are not opened.
func TestDirSpecialFiles(t *testing.T) {
	t.Parallel()
	d, root, _ := trap(t)
	must(t, syscall.Mkfifo(filepath.Join(root, "pipe"), 0o644))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, name := range []string{"pipe", "pipe/x"} {
			if _, err := d.Open(t.Context(), name); !errors.Is(err, blob.ErrForeign) {
				t.Errorf("Open(%q) = %v, want ErrForeign", name, err)
			}
			if err := tryPut(t, d, name, "x"); !errors.Is(err, blob.ErrForeign) {
				t.Errorf("put %q = %v, want ErrForeign", name, err)
			}
			if err := d.Remove(t.Context(), name); !errors.Is(err, blob.ErrForeign) {
				t.Errorf("Remove(%q) = %v, want ErrForeign", name, err)
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("waits for a pipe")
	}
}
