//go:build unix

package dir_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"lockstep/catalog"
	"lockstep/intake/dir"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	root, outside := t.TempDir(), t.TempDir()
	write(t, outside, "secret", "secret")
	for _, rel := range []string{"d/file", "robots.txt", "resourcesync/a", "d/x.key", "odd \n\xff%2F"} {
		write(t, root, rel, rel)
	}
	for link, target := range map[string]string{
		"link": "d/file", "dirlink": "d", "out": filepath.Join("..", filepath.Base(outside), "secret"),
		"outdir": "../" + filepath.Base(outside), "abs": filepath.Join(root, "d/file"), "toreserved": "robots.txt",
	} {
		must(t, os.Symlink(target, filepath.Join(root, link)))
	}
	must(t, syscall.Mkfifo(filepath.Join(root, "pipe"), 0o644))
	d := newDir(t, root, catalog.NewMem(nil), dir.Options{Exclude: []string{"*.key"}})
	for rel, want := range map[string]string{
		"d/file": "d/file", "link": "d/file", "odd \n\xff%2F": "odd \n\xff%2F", "toreserved": "robots.txt",
	} {
		f, fi, err := d.Open(rel)
		if err != nil {
			t.Errorf("Open(%q): %v", rel, err)
			continue
		}
		b, err := io.ReadAll(f)
		if err != nil || string(b) != want || fi.Size() != int64(len(want)) || !fi.Mode().IsRegular() {
			t.Errorf("Open(%q) reads %q, %v; size %d", rel, b, err, fi.Size())
		}
		must(t, f.Close())
	}
	for _, rel := range []string{
		"", ".", "..", "/", "d", "d/", "/d/file", "d//file", "d/./file", "d/../d/file", "../" + filepath.Base(outside) + "/secret",
		"none", "d/file/x", "dirlink/file", "dirlink", "out", "outdir/secret", "abs", "pipe", "robots.txt", "resourcesync/a", "d/x.key", "d\x00",
	} {
		f, _, err := d.Open(rel)
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Open(%q) = %v, %v, want not exist", rel, f, err)
			_ = f.Close()
		}
	}
}

// TestOpenSwapped: while another process replaces a directory by a link that leads
// out, and a file by a pipe, no file outside is ever opened and nothing hangs.
func TestOpenSwapped(t *testing.T) {
	t.Parallel()
	root, outside := t.TempDir(), t.TempDir()
	write(t, outside, "file", "secret")
	write(t, root, "real/file", "public")
	must(t, os.Symlink("real", filepath.Join(root, "d")))
	must(t, os.Symlink(outside, filepath.Join(root, "evil")))
	d := newDir(t, root, catalog.NewMem(nil), dir.Options{})
	var stop atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		at := func(rel string) string { return filepath.Join(root, rel) }
		for i := 0; !stop.Load(); i++ {
			_ = os.Rename(at("d"), at("tmp"))
			_ = os.Rename(at([]string{"real", "evil"}[i%2]), at("d"))
			_ = os.Rename(at("d"), at([]string{"real", "evil"}[i%2]))
			_ = os.Rename(at("tmp"), at("d"))
			_ = os.Remove(at("p"))
			if i%2 == 0 {
				_ = syscall.Mkfifo(at("p"), 0o644)
			} else {
				_ = os.WriteFile(at("p"), []byte("public"), 0o644)
			}
		}
	}()
	for range 3000 {
		for _, rel := range []string{"d/file", "p"} {
			f, _, err := d.Open(rel)
			if err != nil {
				continue
			}
			b, err := io.ReadAll(f)
			if err != nil || len(b) > 0 && string(b) != "public" {
				t.Errorf("Open(%q) reads %q, %v", rel, b, err)
			}
			must(t, f.Close())
		}
	}
	stop.Store(true)
	<-ended
}

func BenchmarkOpen(b *testing.B) {
	root := b.TempDir()
	for i := range 1000 {
		write(b, root, fmt.Sprintf("a/b/%d/%d.txt", i%10, i), "x")
	}
	d := newDir(b, root, catalog.NewMem(nil), dir.Options{Exclude: []string{"*.key"}})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		f, _, err := d.Open(fmt.Sprintf("a/b/%d/%d.txt", i%10, i%1000))
		if err != nil {
			b.Fatal(err)
		}
		_ = f.Close()
	}
}

func TestBitstream(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, "d/a file", "there")
	write(t, root, "d/x.key", "hidden")
	d := newDir(t, root, catalog.NewMem(nil), dir.Options{Exclude: []string{"*.key"}})
	r, err := d.Bitstream(t.Context(), &catalog.Record{URI: d.URI("d/a file")})
	must(t, err)
	if b, err := io.ReadAll(r); string(b) != "there" || err != nil {
		t.Errorf("Bitstream reads %q, %v", b, err)
	}
	must(t, r.Close())
	for _, uri := range []string{d.URI("d/x.key"), d.URI("none"), d.URI("d"), d.URI("") + "d/a file", "http://other.example/d/a%20file", ""} {
		if r, err := d.Bitstream(t.Context(), &catalog.Record{URI: uri}); !errors.Is(err, fs.ErrNotExist) || r != nil {
			t.Errorf("Bitstream(%q) = %v, %v, want not exist", uri, r, err)
		}
	}
}
