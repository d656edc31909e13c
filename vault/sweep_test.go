package vault_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"

	"lockstep/blob"
	"lockstep/vault"
)

func TestSweep(t *testing.T) {
	t.Parallel()
	r := rng(10)
	var store blob.Mem
	v := vault.New(&store, vault.Options{})
	b := random(r, 400_000)
	var all [][]byte
	var ds []vault.Digest
	for i := range 12 {
		if i > 0 {
			b = edited(r, b, 3, 3000)
		}
		all = append(all, b)
		ds = append(ds, put(t, v, b, ds[max(0, i-1):i]...))
	}
	if s := sweep(t, v, ds...); s.Kept != 12 || s.Removed+s.Rewritten != 0 {
		t.Errorf("swept %+v, want nothing done", s)
	}
	before, _ := bytesIn(t, &store)
	s := sweep(t, v, ds[10:]...)
	after, _ := bytesIn(t, &store)
	if before-after != s.Bytes {
		t.Errorf("swept %+v, but there are %d bytes less", s, before-after)
	}
	for i, b := range all {
		if i >= 10 {
			wantContent(t, v, b)
		} else if _, ok, err := v.Has(context.Background(), ds[i]); ok && i > 0 || err != nil {
			t.Errorf("version %d is there: %v", i, err)
		}
	}
	// Again: removed contents in the list are harmless, and may come back.
	sweep(t, v, ds[10:]...)
	for i, b := range all {
		if put(t, v, b, ds[11]) != ds[i] {
			t.Error("another digest")
		}
		wantContent(t, v, all[10])
	}
	for _, b := range all {
		wantContent(t, v, b)
	}
	if s := sweep(t, v); s.Removed == 0 {
		t.Errorf("swept %+v", s)
	}
	if size, n := bytesIn(t, &store); n != 0 {
		t.Errorf("%d blobs left of %d bytes", n, size)
	}
}

// TestSweepError: a list of needed contents that ends in an error removes
// nothing.
func TestSweepError(t *testing.T) {
	t.Parallel()
	v := vault.New(&blob.Mem{}, vault.Options{})
	put(t, v, []byte("text"))
	broken := errors.New("broken")
	_, err := v.Sweep(context.Background(), func(context.Context) iter.Seq2[vault.Digest, error] {
		return func(yield func(vault.Digest, error) bool) { yield(vault.Digest{}, broken) }
	})
	if !errors.Is(err, broken) {
		t.Errorf("Sweep = %v", err)
	}
	wantContent(t, v, []byte("text"))
}

// TestSweepLate: a content that is found during a sweep keeps the blob it uses;
// that blob, which is not needed itself, does not count as whole once the blob
// it uses was removed.
func TestSweepLate(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := rng(11)
	a, more := random(r, 200_000), random(r, 200_000)
	b := slices.Concat(a, more)
	c := slices.Concat(more, random(r, 1000))
	v := vault.New(&blob.Mem{}, vault.Options{})
	put(t, v, a)
	put(t, v, b, digestOf(a))
	put(t, v, c, digestOf(b))
	_, err := v.Sweep(ctx, func(ctx context.Context) iter.Seq2[vault.Digest, error] {
		_, ok, err := v.Has(ctx, digestOf(c))
		if !ok || err != nil {
			t.Errorf("Has = %t, %v", ok, err)
		}
		return of()(ctx)
	})
	must(t, err)
	wantContent(t, v, c)
	if _, ok, err := v.Has(ctx, digestOf(b)); err != nil || ok && v.Verify(ctx, digestOf(b)) != nil {
		t.Errorf("Has = %t, %v of what has lost its source", ok, err)
	}
	put(t, v, b)
	wantContent(t, v, b)
	wantContent(t, v, c)
	sweep(t, v, digestOf(c))
	sweep(t, v)
}

// TestHold: contents put under a hold are kept until it is released, and open
// ones until they are closed.
func TestHold(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	v := vault.New(&blob.Mem{}, vault.Options{})
	early := put(t, v, []byte("early"))
	found := put(t, v, []byte("found"))
	release := v.Hold()
	later := v.Hold()
	put(t, v, []byte("late"))
	_, _, err := v.Has(ctx, found)
	must(t, err)
	later()
	sweep(t, v)
	wantContent(t, v, []byte("late"))
	wantContent(t, v, []byte("found"))
	if _, ok, _ := v.Has(ctx, early); ok {
		t.Error("what was put before the hold is there")
	}
	f, err := v.Open(ctx, found)
	must(t, err)
	release()
	release()
	sweep(t, v)
	if _, ok, _ := v.Has(ctx, digestOf([]byte("late"))); ok {
		t.Error("what was put under the hold is still there")
	}
	wantContent(t, v, []byte("found"))
	must(t, f.Close())
	sweep(t, v)
	if _, ok, _ := v.Has(ctx, found); ok {
		t.Error("what was open is still there")
	}
}

// TestRandom: after any sequence of operations, every needed content is there
// and others do not take space for long.
func TestRandom(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		var store blob.Mem
		randomLife(t, rng(100+seed), &store, 60)
	}
}

// randomLife puts, sweeps, reopens the vault, and compares it with a map.
func randomLife(t *testing.T, r *rand.Rand, store blob.Store, steps int) {
	t.Helper()
	o := vault.Options{Compress: r.IntN(2) == 0}
	v := vault.New(store, o)
	there := make(map[vault.Digest][]byte)
	var old [][]byte // all contents so far
	some := func() []byte {
		if len(old) == 0 || r.IntN(5) == 0 {
			return random(r, r.IntN(1<<r.IntN(19)))
		}
		return old[r.IntN(len(old))]
	}
	for range steps {
		switch r.IntN(8) {
		case 0:
			v = vault.New(store, o)
		case 1, 2:
			for d := range there {
				if r.IntN(3) == 0 {
					delete(there, d)
				}
			}
			var needed []vault.Digest
			for d := range there {
				needed = append(needed, d)
			}
			sweep(t, v, needed...)
		case 3:
			b := some() // possibly one that was removed
			there[put(t, v, b, likes(r, old)...)] = b
		default:
			b := some()
			if len(b) > 2000 {
				b = edited(r, b, 1+r.IntN(5), 1+r.IntN(300))
			}
			if r.IntN(4) == 0 {
				b = slices.Insert(slices.Clone(b), r.IntN(len(b)+1), some()...)
			}
			b = b[:min(len(b), 1<<20)]
			old = append(old, b)
			there[put(t, v, b, likes(r, old)...)] = b
		}
	}
	for d, want := range there {
		got, err := read(v, d)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("content of %d bytes: read %d, %v", len(want), len(got), err)
		}
	}
	sweep(t, v)
	if _, n := bytesIn(t, store); n != 0 {
		t.Errorf("%d blobs left that nobody needs", n)
	}
}

// likes returns some contents, which the vault may not have.
func likes(r *rand.Rand, old [][]byte) (ds []vault.Digest) {
	for range min(len(old), r.IntN(4)) {
		ds = append(ds, digestOf(old[len(old)-1-r.IntN(min(len(old), 4))]))
	}
	return ds
}

// A markerless store fails the first Commit of the marker of sweeps, and notes whether something
// was removed while there was none.
type markerless struct {
	blob.Mem
	failed, unsafe bool
}

func (s *markerless) Commit(ctx context.Context, ws ...blob.Writer) error {
	if len(ws) == 1 && ws[0].Name() == "sweeping" && !s.failed {
		s.failed = true
		return errors.New("no answer")
	}
	return s.Mem.Commit(ctx, ws...)
}

func (s *markerless) Remove(ctx context.Context, names ...string) error {
	if _, err := s.Stat(ctx, "sweeping"); err != nil && !slices.Contains(names, "sweeping") {
		s.unsafe = true
	}
	return s.Mem.Remove(ctx, names...)
}

// TestSweepAfterMarkerFailed: nothing is removed before the marker of the sweep is there, also
// if it could not be written once.
func TestSweepAfterMarkerFailed(t *testing.T) {
	t.Parallel()
	store := new(markerless)
	v := vault.New(store, vault.Options{})
	put(t, v, []byte("text"))
	if _, err := v.Sweep(context.Background(), of()); err == nil {
		t.Error("the failure was not reported")
	}
	if _, err := v.Sweep(context.Background(), of()); err != nil {
		t.Fatal(err)
	}
	if store.unsafe {
		t.Error("something was removed without a marker")
	}
}
