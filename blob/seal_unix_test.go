//go:build unix

package blob_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lockstep/blob"
)

// A sealed blob can be committed, dropped and kept like any other.
func TestDirSeal(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	d := newDir(t, root, blob.DirOptions{})
	mod := time.Date(2020, 2, 2, 2, 2, 2, 0, time.UTC)
	var ws []blob.Writer
	for i := range 12 {
		w, err := d.Create(t.Context(), fmt.Sprintf("d%d/f", i))
		must(t, err)
		_, err = w.Write(fmt.Appendf(nil, "content %d", i))
		must(t, err)
		w.SetModTime(mod)
		closed, err := w.(blob.Sealer).Seal()
		must(t, err)
		if closed {
			if _, err := w.Write([]byte("more")); err == nil {
				t.Error("Write after Seal: no error")
			}
		}
		ws = append(ws, w)
	}
	must(t, ws[10].Close())
	must(t, ws[11].(blob.Keeper).Keep())
	must(t, d.Commit(t.Context(), ws[:3]...))
	must(t, d.Commit(t.Context(), ws[3:10]...))
	for i := range 10 {
		name := filepath.Join(root, fmt.Sprintf("d%d/f", i))
		wantFile(t, name, fmt.Sprintf("content %d", i))
		if info, err := os.Stat(name); err != nil || !info.ModTime().Equal(mod) {
			t.Errorf("%s: %v, %v, want time %v", name, info, err, mod)
		}
	}
	if _, err := d.Stat(t.Context(), "d10/f"); !errors.Is(err, blob.ErrNotExist) {
		t.Errorf("Stat of a dropped blob = %v, want ErrNotExist", err)
	}
	w, part, err := d.Resume(t.Context(), "d11/f")
	must(t, err)
	if got, err := io.ReadAll(part); string(got) != "content 11" || err != nil {
		t.Errorf("resumed %q, %v", got, err)
	}
	must(t, w.Close())
}

// BenchmarkDirBatch commits small blobs a thousand at a time, as a sync does.
func BenchmarkDirBatch(b *testing.B) {
	d := newDir(b, b.TempDir(), blob.DirOptions{})
	content := make([]byte, 4096)
	var ws []blob.Writer
	for i := 0; b.Loop(); i++ {
		w, err := d.Create(b.Context(), fmt.Sprintf("data/%02d/%03d/resource-%06d.bin", i/10_000, i/100%100, i))
		must(b, err)
		_, err = w.Write(content)
		must(b, err)
		w.SetModTime(time.Unix(1e9, 0))
		if _, err := w.(blob.Sealer).Seal(); err != nil {
			b.Fatal(err)
		}
		if ws = append(ws, w); len(ws) == 1000 {
			must(b, d.Commit(b.Context(), ws...))
			ws = ws[:0]
		}
	}
	must(b, d.Commit(b.Context(), ws...))
}
