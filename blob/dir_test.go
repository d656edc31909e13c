package blob_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"lockstep/blob"
)

func TestDirQuick(t *testing.T) {
	root := filepath.Join(t.TempDir(), "x", "y")
	d, err := blob.NewDir(root, blob.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	for n := range 30 {
		w, err := d.Create(ctx, fmt.Sprintf("a/%d/b", n))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(w, "hello", n)
		if err := d.Commit(ctx, w); err != nil {
			t.Fatal(err)
		}
	}
	r, err := d.Open(ctx, "a/3/b")
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(r)
	r.Close()
	if string(b) != "hello3" {
		t.Fatal(string(b))
	}
	n := 0
	for info, err := range d.List(ctx, "a/1") {
		if err != nil {
			t.Fatal(err)
		}
		n++
		if err := d.Remove(ctx, info.Name); err != nil {
			t.Fatal(err)
		}
	}
	if n != 11 {
		t.Fatal(n)
	}
	if _, err := d.Stat(ctx, "a/1/b"); !errors.Is(err, blob.ErrNotExist) {
		t.Fatal(err)
	}
}

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
	d, err := blob.NewDir(root, blob.DirOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	ctx := context.Background()
	data := make([]byte, 4096)
	ready := make(chan blob.Writer, 256)
	var wg sync.WaitGroup
	next := make(chan int)
	b.ResetTimer()
	for range 8 {
		wg.Go(func() {
			for i := range next {
				w, err := d.Create(ctx, fmt.Sprintf("d%03d/f%d", i%100, i))
				if err != nil {
					b.Error(err)
					return
				}
				w.Write(data)
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
	batch := make([]blob.Writer, 0, 256)
	for w := range ready {
		if batch = append(batch, w); len(batch) == 256 {
			if err := d.Commit(ctx, batch...); err != nil {
				b.Fatal(err)
			}
			batch = batch[:0]
		}
	}
	if err := d.Commit(ctx, batch...); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "files/s")
}
