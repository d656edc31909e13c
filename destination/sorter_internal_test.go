package destination

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TestSorter sorts pairs that fit in memory and many more than do, in order
// and out of it, by one writer and several, in files and in memory.
func TestSorter(t *testing.T) {
	t.Parallel()
	orders := map[string]func(i, n int) int{
		"ascending":  func(i, n int) int { return i },
		"descending": func(i, n int) int { return n - i },
		"scattered":  func(i, n int) int { return i * 7919 % n },
		"few keys":   func(i, n int) int { return i % 7 },
	}
	for name, order := range orders {
		for _, n := range []int{0, 1, 100, 6000} {
			for _, writers := range []int{1, 3} {
				for _, dir := range []string{"", t.TempDir()} {
					s := newSorter(scratchRoom{dir, true})
					s.arena, s.merge = 4000, 5
					what := fmt.Sprintf("%s, %d by %d, in %q", name, n, writers, dir)
					testSorter(t, what, s, n, writers, func(i int) string { return fmt.Sprintf("http://a/%06d", order(i, max(n, 1))) })
				}
			}
		}
	}
}

func testSorter(t *testing.T, what string, s *sorter, n, writers int, key func(i int) string) {
	t.Helper()
	value := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, i%50) }
	var want []string
	for i := range n {
		want = append(want, key(i)+string(value(i)))
	}
	slices.Sort(want)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			out := s.writer()
			defer s.release(out)
			for i := w; i < n; i += writers {
				if err := out.add(key(i), value(i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for range 2 {
		wg.Go(func() {
			var got []string
			last := ""
			for p, err := range s.sorted() {
				if err != nil {
					t.Errorf("%s: %v", what, err)
					return
				}
				if string(p.key) < last {
					t.Errorf("%s: %q after %q", what, p.key, last)
					return
				}
				last = string(p.key)
				got = append(got, last+string(p.value))
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("%s: %d pairs came back, %d went in, or they are others", what, len(got), len(want))
			}
		})
		wg.Wait()
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
	if s.room.dir != "" {
		if left, err := os.ReadDir(s.room.dir); err != nil || len(left) > 0 {
			t.Errorf("%s: left behind: %v, %v", what, left, err)
		}
	}
}

// TestSorterLarge sorts pairs larger than blocks and memory.
func TestSorterLarge(t *testing.T) {
	t.Parallel()
	s := newSorter(scratchRoom{t.TempDir(), true})
	s.arena, s.merge = 10_000, 3
	r := rand.New(rand.NewPCG(1, 2))
	var keys []string
	for range 200 {
		keys = append(keys, strings.Repeat("x", r.IntN(100_000))+fmt.Sprint(r.Uint64()))
	}
	testSorter(t, "large", s, len(keys), 2, func(i int) string { return keys[i] })
}

// TestSorterGrows reads, adds, and reads again.
func TestSorterGrows(t *testing.T) {
	t.Parallel()
	s := newSorter(scratchRoom{t.TempDir(), true})
	s.arena, s.merge = 300, 2
	w := s.writer()
	for i := range 100 {
		if err := w.add(fmt.Sprint("key ", i*31%100), nil); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, err := range s.sorted() {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != i+1 {
			t.Fatalf("%d pairs, want %d", n, i+1)
		}
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
}

// TestScratchEnds fills scratch space.
func TestScratchEnds(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise) // never fails
	fill := func(s scratch) error {
		for range 200 {
			if _, err := s.write(noise); err != nil {
				return err
			}
		}
		return nil
	}
	if err := fill(&memScratch{}); !errors.Is(err, ErrScratch) {
		t.Errorf("in memory: %v, want %v", err, ErrScratch)
	}
	f, err := namedFile(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := fill(&fileScratch{file: f, limit: 100 << 20}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("in a file: %v, want %v", err, syscall.ENOSPC)
	}
	if free := freeSpace(f); free == 0 {
		t.Error("a file in the temporary directory has no room")
	}
	if err := fill(&fileScratch{file: f, end: maxScratch, limit: maxScratch}); !errors.Is(err, ErrScratch) {
		t.Errorf("in a large file: %v, want %v", err, ErrScratch)
	}
	_ = f.Close() // nothing in it counts
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err == nil {
		if err := fill(&fileScratch{file: full, limit: maxScratch}); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("on a full disk: %v, want %v", err, syscall.ENOSPC)
		}
		_ = full.Close()
	}
}

// TestNamedFile makes scratch files where files have names, beside one that was
// left by a killed process.
func TestNamedFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/scratch-0", []byte("left"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		f, err := namedFile(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if info, err := f.Stat(); err != nil || info.Size() != 0 {
			t.Errorf("a scratch file has %v, %v", info.Size(), err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
