package blob_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"lockstep/blob"
)

func put(t testing.TB, s blob.Store, name, content string) {
	t.Helper()
	if err := tryPut(t, s, name, content); err != nil {
		t.Fatal(err)
	}
}

func tryPut(t testing.TB, s blob.Store, name, content string) error {
	t.Helper()
	w, err := s.Create(t.Context(), name)
	if err != nil {
		return err
	}
	defer w.Close()
	if _, err := io.WriteString(w, content); err != nil {
		return err
	}
	return s.Commit(t.Context(), w)
}

func wantFile(t testing.TB, path, want string) {
	t.Helper()
	if b, err := os.ReadFile(path); err != nil || string(b) != want {
		t.Errorf("%s holds %q, %v, want %q", path, b, err, want)
	}
}

// tree returns every name below root, directories with a slash.
func tree(t testing.TB, root string) []string {
	t.Helper()
	names := []string{}
	err := filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		name := strings.TrimPrefix(path, root+"/")
		if e.IsDir() {
			name += "/"
		}
		names = append(names, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func wantTree(t testing.TB, root string, want ...string) {
	t.Helper()
	if got := tree(t, root); !slices.Equal(got, want) {
		t.Errorf("%s holds %q, want %q", root, got, want)
	}
}

func TestDirIsPlainFiles(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "made", "when", "needed")
	d := newDir(t, root, blob.DirOptions{})
	if _, err := os.Lstat(root); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("NewDir made %s (%v)", root, err)
	}
	put(t, d, "a/b c/d", "content")
	wantFile(t, filepath.Join(root, "a/b c/d"), "content")
	wantTree(t, root, ".lockstep/", ".lockstep/tmp/", "a/", "a/b c/", "a/b c/d")
	if err := d.Remove(t.Context(), "a/b c/d"); err != nil {
		t.Fatal(err)
	}
	wantTree(t, root, ".lockstep/", ".lockstep/tmp/")
}

func TestDirReserved(t *testing.T) {
	t.Parallel()
	d := newDir(t, t.TempDir(), blob.DirOptions{})
	for _, name := range []string{".lockstep/tmp", ".lockstep/tmp/x", ".lockstep/tmp/x/y"} {
		if err := tryPut(t, d, name, "x"); !errors.Is(err, blob.ErrName) {
			t.Errorf("put %q = %v, want ErrName", name, err)
		}
	}
	put(t, d, ".lockstep/tmpx", "x")
	put(t, d, ".lockstep/main.json", "x")
	names := []string{}
	for info := range d.List(t.Context(), "") {
		names = append(names, info.Name)
	}
	if want := []string{".lockstep/main.json", ".lockstep/tmpx"}; !slices.Equal(names, want) {
		t.Errorf("List = %q, want %q", names, want)
	}
	if _, err := blob.NewDir(t.TempDir(), blob.DirOptions{Tmp: "../x"}); !errors.Is(err, blob.ErrName) {
		t.Errorf("NewDir = %v, want ErrName", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := blob.NewDir(file, blob.DirOptions{}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("NewDir of a file = %v, want an error that names it", err)
	}
}

func TestDirRemovesEmptyDirectories(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	d := newDir(t, root, blob.DirOptions{})
	for _, name := range []string{"a/b/c/1", "a/b/c/2", "a/x/1", "top"} {
		put(t, d, name, "x")
	}
	if err := os.MkdirAll(filepath.Join(root, "theirs/empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := d.Remove(t.Context(), "a/b/c/1", "top"); err != nil {
		t.Fatal(err)
	}
	wantTree(t, root, ".lockstep/", ".lockstep/tmp/", "a/", "a/b/", "a/b/c/", "a/b/c/2", "a/x/", "a/x/1", "theirs/", "theirs/empty/")
	// A kill between the two steps of Remove leaves this; the next Remove cleans it
	// up.
	if err := os.Remove(filepath.Join(root, "a/b/c/2")); err != nil {
		t.Fatal(err)
	}
	if err := d.Remove(t.Context(), "a/b/c/2"); err != nil {
		t.Fatal(err)
	}
	wantTree(t, root, ".lockstep/", ".lockstep/tmp/", "a/", "a/x/", "a/x/1", "theirs/", "theirs/empty/")

	kept := newDir(t, root, blob.DirOptions{KeepEmpty: true})
	if err := kept.Remove(t.Context(), "a/x/1"); err != nil {
		t.Fatal(err)
	}
	wantTree(t, root, ".lockstep/", ".lockstep/tmp/", "a/", "a/x/", "theirs/", "theirs/empty/")
}

func TestDirFileAndDirectory(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	d := newDir(t, root, blob.DirOptions{})
	put(t, d, "file", "x")
	put(t, d, "dir/x", "x")
	var commit *blob.CommitError
	for name, want := range map[string]error{"file/x": blob.ErrNotDirectory, "file/x/y": blob.ErrNotDirectory, "dir": blob.ErrDirectory} {
		err := tryPut(t, d, name, "y")
		if !errors.Is(err, want) || !errors.As(err, &commit) || commit.Name != name || !strings.Contains(err.Error(), name) {
			t.Errorf("put %q = %v, want %v", name, err, want)
		}
	}
	if _, err := d.Stat(t.Context(), "dir"); !errors.Is(err, blob.ErrDirectory) {
		t.Errorf("Stat of a directory = %v, want ErrDirectory", err)
	}
	if _, err := d.Stat(t.Context(), "file/x"); !errors.Is(err, blob.ErrNotExist) {
		t.Errorf("Stat below a file = %v, want ErrNotExist", err)
	}
	if err := d.Remove(t.Context(), "dir"); !errors.Is(err, blob.ErrDirectory) {
		t.Errorf("Remove of a directory = %v, want ErrDirectory", err)
	}
	if err := d.Remove(t.Context(), "file/x"); err != nil {
		t.Errorf("Remove below a file: %v", err)
	}
	wantTree(t, root, ".lockstep/", ".lockstep/tmp/", "dir/", "dir/x", "file")
}

// The error of a failed batch names the blob, the blobs before it are visible,
// and the rest can be committed without it.
func TestDirPartialCommit(t *testing.T) {
	t.Parallel()
	for _, n := range []int{5, 40} {
		root := t.TempDir()
		d := newDir(t, root, blob.DirOptions{})
		var ws []blob.Writer
		for i := range n {
			name := fmt.Sprintf("d%d/f", i%20)
			if i >= 20 {
				name = fmt.Sprintf("e%d/f", i)
			}
			if i == 3 {
				name = "new/dir/" + strings.Repeat("x", 256)
			}
			w, err := d.Create(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(w, i)
			ws = append(ws, w)
		}
		var commit *blob.CommitError
		err := d.Commit(t.Context(), ws...)
		if !errors.As(err, &commit) || commit.Done != 3 || commit.Name != ws[3].Name() || !strings.Contains(err.Error(), "too long") {
			t.Fatalf("Commit = %v (%+v), want number 3 too long", err, commit)
		}
		if _, err := d.Stat(t.Context(), ws[2].Name()); err != nil {
			t.Error(err)
		}
		if _, err := d.Stat(t.Context(), ws[4].Name()); !errors.Is(err, blob.ErrNotExist) {
			t.Error(err)
		}
		if _, err := os.Lstat(filepath.Join(root, "new")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a directory made for nothing stays: %v", err)
		}
		if err := ws[3].Close(); err != nil {
			t.Error(err)
		}
		if err := d.Commit(t.Context(), ws[4:]...); err != nil {
			t.Error(err)
		}
		for _, w := range slices.Delete(slices.Clone(ws), 3, 4) {
			if _, err := d.Stat(t.Context(), w.Name()); err != nil {
				t.Error(err)
			}
		}
		if left := tree(t, filepath.Join(root, ".lockstep/tmp")); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	}
}

// A name may be longer than any path the system accepts.
func TestDirDeep(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	d := newDir(t, root, blob.DirOptions{})
	names := []string{
		strings.Repeat(strings.Repeat("x", 255)+"/", 40) + strings.Repeat("y", 255),
		strings.Repeat("s/", 300) + "f",
		strings.Repeat("s/", 300) + "g",
		strings.Repeat("s/", 12) + "f",
	}
	var ws []blob.Writer
	for _, name := range names {
		w, err := d.Create(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(w, len(name))
		ws = append(ws, w)
	}
	if err := d.Commit(t.Context(), ws...); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if info, err := d.Stat(t.Context(), name); err != nil || info.Size == 0 {
			t.Errorf("Stat = %v, %v", info.Size, err)
		}
	}
	if err := d.Remove(t.Context(), names...); err != nil {
		t.Fatal(err)
	}
	wantTree(t, root, ".lockstep/", ".lockstep/tmp/")
}

// A store whose temporary directory is removed creates it again.
func TestDirTmpVanishes(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	d := newDir(t, root, blob.DirOptions{})
	put(t, d, "a", "x")
	if err := os.RemoveAll(filepath.Join(root, ".lockstep")); err != nil {
		t.Fatal(err)
	}
	put(t, d, "b", "y")
	wantFile(t, filepath.Join(root, "b"), "y")
}

func TestMakeDir(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for range 2 {
		if err := blob.MakeDir(filepath.Join(root, "a/b/c")); err != nil {
			t.Fatal(err)
		}
	}
	wantTree(t, root, "a/", "a/b/", "a/b/c/")
	file := filepath.Join(root, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(file, "x")} {
		if err := blob.MakeDir(path); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("MakeDir(%s) = %v, want an error that names it", path, err)
		}
	}
}

func TestDirClosed(t *testing.T) {
	t.Parallel()
	d, err := blob.NewDir(t.TempDir(), blob.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	put(t, d, "a", "x")
	r, err := d.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(r); string(b) != "x" || err != nil {
		t.Errorf("read after Close = %q, %v", b, err)
	}
	if err := tryPut(t, d, "a", "y"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("put after Close = %v, want ErrClosed", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// Eight writers, one committer in batches of 256, files of 4 KB, on a RAM disk
// if there is one: how the Destination works.
func BenchmarkDirCommit(b *testing.B) {
	base := "/dev/shm"
	if _, err := os.Stat(base); err != nil {
		base = b.TempDir()
	}
	root, err := os.MkdirTemp(base, "lockstep-bench")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(root)
	d := newDir(b, root, blob.DirOptions{})
	data := make([]byte, 4096)
	ready, next := make(chan blob.Writer, 256), make(chan int)
	var wg sync.WaitGroup
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	b.ResetTimer()
	for range 8 {
		wg.Go(func() {
			for i := range next {
				w, err := d.Create(b.Context(), fmt.Sprintf("d%03d/f%d", i/100, i))
				if err == nil {
					_, err = w.Write(data)
				}
				if err != nil {
					b.Error(err)
				}
				ready <- w
			}
		})
	}
	go func() {
		for i := range b.N {
			next <- i
		}
		close(next)
		wg.Wait()
		close(ready)
	}()
	var batch []blob.Writer
	for w := range ready {
		if batch = append(batch, w); len(batch) == 256 {
			if err := d.Commit(b.Context(), batch...); err != nil {
				b.Fatal(err)
			}
			batch = batch[:0]
		}
	}
	if err := d.Commit(b.Context(), batch...); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "files/s")
}

// The lookups of a Destination before it names a file, and of an audit.
func BenchmarkDirLook(b *testing.B) {
	d := newDir(b, b.TempDir(), blob.DirOptions{})
	put(b, d, "a/b/c/file", "content")
	b.Run("Stat", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if _, err := d.Stat(b.Context(), "a/b/c/file"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("StatAbsent", func(b *testing.B) {
		for range b.N {
			if _, err := d.Stat(b.Context(), "a/b/c/none"); err == nil {
				b.Fatal("is there")
			}
		}
	})
	b.Run("Open", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			r, err := d.Open(b.Context(), "a/b/c/file")
			if err != nil {
				b.Fatal(err)
			}
			if err := r.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
