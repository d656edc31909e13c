package extsort_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"lockstep/internal/extsort"
)

var errFull = errors.New("full")

func memory() (extsort.Space, error) { return extsort.NewMemory(80<<20, errFull), nil }

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
					open := memory
					if dir != "" {
						open = extsort.TempFiles(dir)
					}
					s := extsort.New(open)
					s.Memory, s.Merge, s.Stable = 5000, 5, writers == 1
					what := fmt.Sprintf("%s, %d by %d, in %q", name, n, writers, dir)
					testSorter(t, what, s, n, writers, func(i int) string { return fmt.Sprintf("http://a/%06d", order(i, max(n, 1))) })
					if dir == "" {
						continue
					}
					if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
						t.Errorf("%s: left behind: %v, %v", what, left, err)
					}
				}
			}
		}
	}
}

func testSorter(t *testing.T, what string, s *extsort.Sorter, n, writers int, key func(i int) string) {
	t.Helper()
	value := func(i int) []byte { return fmt.Appendf(nil, "%06d%s", i, bytes.Repeat([]byte{'x'}, i%50)) }
	var want []string
	for i := range n {
		want = append(want, key(i)+string(value(i)))
	}
	slices.Sort(want) // of one key, in the order in which they are added
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			out := s.Writer()
			defer s.Release(out)
			for i := w; i < n; i += writers {
				if err := out.Add([]byte(key(i)), value(i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got := s.Len(); got != int64(n) {
		t.Errorf("%s: Len() = %d", what, got)
	}
	for range 2 {
		wg.Go(func() {
			var got []string
			last := ""
			for p, err := range s.Sorted(t.Context()) {
				if err != nil {
					t.Errorf("%s: %v", what, err)
					return
				}
				if string(p.Key) < last {
					t.Errorf("%s: %q after %q", what, p.Key, last)
					return
				}
				last = string(p.Key)
				got = append(got, last+string(p.Value))
			}
			if !s.Stable {
				slices.Sort(got)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %d pairs came back, %d went in, or they differ", what, len(got), len(want))
			}
		})
	}
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestSorterLarge sorts pairs larger than blocks and memory.
func TestSorterLarge(t *testing.T) {
	t.Parallel()
	s := extsort.New(extsort.TempFiles(t.TempDir()))
	s.Memory, s.Merge = 10_000, 3
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
	s := extsort.New(extsort.TempFiles(t.TempDir()))
	s.Memory, s.Merge = 300, 2
	for i := range 100 {
		if err := s.Add(fmt.Append(nil, "key ", i*31%100), nil); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, err := range s.Sorted(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != i+1 {
			t.Fatalf("%d pairs, want %d", n, i+1)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestSorterStable adds sorted sequences with the same keys, between which runs
// could be continued in the wrong order.
func TestSorterStable(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		s := extsort.New(memory)
		s.Memory, s.Merge, s.Stable = 100+r.IntN(500), 2+r.IntN(3), true
		for i := range 500 {
			if err := s.Add(fmt.Append(nil, r.IntN(10)), fmt.Appendf(nil, "%03d", i)); err != nil {
				t.Fatal(err)
			}
		}
		last := ""
		for p, err := range s.Sorted(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if at := string(p.Key) + string(p.Value); at <= last {
				t.Fatalf("%s after %s", at, last)
			} else {
				last = at
			}
		}
		_ = s.Close() // in memory
	}
}

// TestSortedEndsWithItsContext ends the context before runs are merged, and
// while they are read.
func TestSortedEndsWithItsContext(t *testing.T) {
	t.Parallel()
	stop := errors.New("stop")
	for _, after := range []int{0, 1} {
		s := extsort.New(extsort.TempFiles(t.TempDir()))
		s.Memory, s.Merge = 300, 50*after+2
		for i := range 100 {
			if err := s.Add(fmt.Append(nil, i*31%100), bytes.Repeat([]byte("x"), 100)); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		if after == 0 {
			cancel(stop)
		}
		n := 0
		var failed error
		for _, err := range s.Sorted(ctx) {
			cancel(stop)
			if failed = err; err == nil {
				n++
			}
		}
		if after == 0 && n > 0 || !errors.Is(failed, stop) && n < 100 {
			t.Errorf("%d pairs, then %v", n, failed)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestSpaceIsLimited fills scratch space.
func TestSpaceIsLimited(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 1<<18)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise) // never fails
	fill := func(s extsort.Space) error {
		defer s.Close()
		for range 40 {
			if _, err := s.Write(noise); err != nil {
				return err
			}
		}
		return nil
	}
	if err := fill(extsort.NewMemory(8<<20, errFull)); !errors.Is(err, errFull) {
		t.Errorf("in memory: %v, want %v", err, errFull)
	}
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := fill(extsort.NewFile(f, 8<<20, errFull)); !errors.Is(err, errFull) {
		t.Errorf("in a file: %v, want %v", err, errFull)
	}
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no device that is full")
	}
	if err := fill(extsort.NewFile(full, 0, nil)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("on a full disk: %v, want %v", err, syscall.ENOSPC)
	}
}

// TestTempFilesFail reports the directory in which no file could be made.
func TestTempFilesFail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/missing"
	if _, err := extsort.TempFiles(dir)(); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), dir) {
		t.Errorf("%v", err)
	}
}

func BenchmarkSorter(b *testing.B) {
	value := bytes.Repeat([]byte("v"), 100)
	for _, n := range []int{10_000, 300_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				s := extsort.New(extsort.TempFiles(b.TempDir()))
				s.Memory = 4 << 20
				for i := range n {
					if err := s.Add(fmt.Appendf(nil, "http://example.org/resources/%08d", i*7919%n), value); err != nil {
						b.Fatal(err)
					}
				}
				for _, err := range s.Sorted(b.Context()) {
					if err != nil {
						b.Fatal(err)
					}
				}
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
