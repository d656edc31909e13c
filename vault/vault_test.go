package vault_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/iotest"

	"lockstep/blob"
	"lockstep/vault"
)

// must fails the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// random returns n incompressible bytes.
func random(r *rand.Rand, n int) []byte {
	b := make([]byte, 0, n+8)
	for len(b) < n {
		b = binary.LittleEndian.AppendUint64(b, r.Uint64())
	}
	return b[:n:n]
}

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func digestOf(b []byte) vault.Digest { return sha256.Sum256(b) }

func put(t testing.TB, v *vault.Vault, b []byte, like ...vault.Digest) vault.Digest {
	t.Helper()
	d, n, err := v.Put(context.Background(), bytes.NewReader(b), like...)
	must(t, err)
	if d != digestOf(b) || n != int64(len(b)) {
		t.Fatalf("Put = %s, %d; want %s, %d", d, n, digestOf(b), len(b))
	}
	return d
}

// read returns the content, read by a randomly chosen method.
func read(v *vault.Vault, d vault.Digest) ([]byte, error) {
	r, err := v.Open(context.Background(), d)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func wantContent(t testing.TB, v *vault.Vault, want []byte) {
	t.Helper()
	got, err := read(v, digestOf(want))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("content of %d bytes: read %d bytes, %v", len(want), len(got), err)
	}
}

// of yields digests as needed contents.
func of(ds ...vault.Digest) func(context.Context) iter.Seq2[vault.Digest, error] {
	return func(context.Context) iter.Seq2[vault.Digest, error] {
		return func(yield func(vault.Digest, error) bool) {
			for _, d := range ds {
				if !yield(d, nil) {
					return
				}
			}
		}
	}
}

func sweep(t testing.TB, v *vault.Vault, needed ...vault.Digest) vault.Swept {
	t.Helper()
	s, err := v.Sweep(context.Background(), of(needed...))
	must(t, err)
	return s
}

// bytesIn returns the total size of a store.
func bytesIn(t testing.TB, store blob.Store) (size int64, blobs int) {
	t.Helper()
	for info, err := range store.List(context.Background(), "") {
		must(t, err)
		size += info.Size
		blobs++
	}
	return size, blobs
}

// edited returns b with n bytes changed at each of some positions.
func edited(r *rand.Rand, b []byte, places, n int) []byte {
	b = slices.Clone(b)
	for range places {
		copy(b[r.IntN(len(b)-n):], random(r, n))
	}
	return b
}

func TestPut(t *testing.T) {
	t.Parallel()
	r := rng(1)
	for _, compress := range []bool{false, true} {
		var store blob.Mem
		v := vault.New(&store, vault.Options{Compress: compress})
		for _, size := range []int{0, 1, 2, 4095, 4096, 4097, 16 << 10, 64 << 10, 256<<10 - 1, 256 << 10, 256<<10 + 1, 700_001} {
			for _, b := range [][]byte{random(r, size), make([]byte, size), bytes.Repeat([]byte("lockstep "), size/9)} {
				d := put(t, v, b)
				put(t, v, b)
				wantContent(t, v, b)
				must(t, v.Verify(context.Background(), d))
				if n, ok, err := v.Has(context.Background(), d); n != int64(len(b)) || !ok || err != nil {
					t.Errorf("Has = %d, %t, %v; want %d", n, ok, err, len(b))
				}
			}
		}
	}
}

func TestNotThere(t *testing.T) {
	t.Parallel()
	v := vault.New(&blob.Mem{}, vault.Options{})
	d := digestOf([]byte("nobody put this"))
	if _, ok, err := v.Has(context.Background(), d); ok || err != nil {
		t.Errorf("Has = %t, %v", ok, err)
	}
	if _, err := v.Open(context.Background(), d); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open = %v", err)
	}
	if err := v.Verify(context.Background(), d); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Verify = %v", err)
	}
	put(t, v, random(rng(1), 1<<20), d)
}

// TestReaders: contents read in pieces of any size.
func TestReaders(t *testing.T) {
	t.Parallel()
	b := random(rng(2), 300_000)
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"half": iotest.HalfReader, "data with error": iotest.DataErrReader, "one byte": iotest.OneByteReader,
	} {
		v := vault.New(&blob.Mem{}, vault.Options{})
		d, _, err := v.Put(context.Background(), wrap(bytes.NewReader(b)))
		if err != nil || d != digestOf(b) {
			t.Errorf("%s: Put = %s, %v", name, d, err)
		}
		wantContent(t, v, b)
	}
	broken := errors.New("broken")
	var store blob.Mem
	v := vault.New(&store, vault.Options{})
	if _, _, err := v.Put(context.Background(), io.MultiReader(bytes.NewReader(b), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("Put = %v, want the error of the Reader", err)
	}
	if _, n := bytesIn(t, &store); n != 0 {
		t.Errorf("%d blobs of a content that did not come to its end", n)
	}
}

// TestAgain: a content that resembles another costs the difference.
func TestAgain(t *testing.T) {
	t.Parallel()
	for _, places := range []int{1, 10} {
		r := rng(3)
		var store blob.Mem
		v := vault.New(&store, vault.Options{})
		b := random(r, 500_000)
		var all [][]byte
		var last vault.Digest
		for i := range 12 {
			if i > 0 {
				b = edited(r, b, places, 5000/places)
			}
			all = append(all, b)
			last = put(t, v, b, last)
		}
		size, n := bytesIn(t, &store)
		if limit := int64(500_000 + 12*(5000+places*25_000)); size > limit || n != 12 {
			t.Errorf("%d places: 12 versions take %d bytes in %d blobs, want less than %d", places, size, n, limit)
		}
		for _, b := range all {
			wantContent(t, v, b)
		}
	}
}

// TestInserted: chunks after inserted bytes are found again, too.
func TestInserted(t *testing.T) {
	t.Parallel()
	r := rng(4)
	var store blob.Mem
	v := vault.New(&store, vault.Options{})
	b := random(r, 1<<20)
	first := put(t, v, b)
	before, _ := bytesIn(t, &store)
	c := slices.Insert(slices.Clone(b), 100_000, []byte("something new")...)
	put(t, v, c, first)
	after, _ := bytesIn(t, &store)
	if after-before > 100_000 {
		t.Errorf("13 bytes more cost %d", after-before)
	}
	wantContent(t, v, c)
}

// TestSeek: any part, in any order, concurrently.
func TestSeek(t *testing.T) {
	t.Parallel()
	r := rng(5)
	v := vault.New(&blob.Mem{}, vault.Options{Compress: true})
	b := slices.Concat(random(r, 500_000), bytes.Repeat([]byte("much the same. "), 20_000))
	first := put(t, v, b)
	b = edited(r, b, 5, 100)
	d := put(t, v, b, first)
	f, err := v.Open(context.Background(), d)
	must(t, err)
	defer f.Close()
	must(t, iotest.TestReader(io.NewSectionReader(f, 1000, 200_000), b[1000:201_000]))
	if f.Size() != int64(len(b)) {
		t.Errorf("Size = %d, want %d", f.Size(), len(b))
	}
	for range 200 {
		from := r.IntN(len(b))
		to := from + r.IntN(min(len(b)-from, 100_000))
		got := make([]byte, to-from)
		if _, err := f.ReadAt(got, int64(from)); err != nil || !bytes.Equal(got, b[from:to]) {
			t.Fatalf("ReadAt %d, %d: %v", from, to, err)
		}
	}
	_, err = f.Seek(-10, io.SeekEnd)
	must(t, err)
	if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, b[len(b)-10:]) {
		t.Errorf("read %q, %v", got, err)
	}
	if _, err := f.Seek(-1, io.SeekStart); err == nil {
		t.Error("Seek to -1 succeeded")
	}
	must(t, f.Close())
	if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("ReadAt after Close = %v", err)
	}
}

// TestSmall: a small content costs little more than its bytes.
func TestSmall(t *testing.T) {
	t.Parallel()
	var store blob.Mem
	v := vault.New(&store, vault.Options{})
	r := rng(6)
	for range 100 {
		put(t, v, random(r, 2000))
	}
	if size, n := bytesIn(t, &store); n != 100 || size > 100*2048 {
		t.Errorf("100 contents of 2000 bytes take %d in %d blobs", size, n)
	}
}

// TestStage: many contents with one commit, some of them equal.
func TestStage(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store, err := blob.NewDir(t.TempDir(), blob.DirOptions{})
	must(t, err)
	defer store.Close()
	v := vault.New(store, vault.Options{})
	var staged []*vault.Staged
	for i := range 40 {
		s, err := v.Stage(ctx, bytes.NewReader(fmt.Appendf(nil, "content %d", i/2)))
		must(t, err)
		defer s.Close()
		staged = append(staged, s)
	}
	if _, ok, _ := v.Has(ctx, staged[0].Digest()); ok {
		t.Error("there before the commit")
	}
	dropped, err := v.Stage(ctx, bytes.NewReader([]byte("not wanted")))
	must(t, err)
	must(t, dropped.Close())
	if err := v.Commit(ctx, dropped); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Commit of what was dropped = %v", err)
	}
	must(t, v.Commit(ctx, staged...))
	for i := range 20 {
		wantContent(t, v, fmt.Appendf(nil, "content %d", i))
	}
	if _, n := bytesIn(t, store); n != 20 {
		t.Errorf("%d blobs, want 20", n)
	}
}
