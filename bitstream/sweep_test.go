package bitstream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/bitstream"
	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/resourcesync"
)

func TestSweep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir(), nil, nil, bitstream.SetOptions{Past: true})
	w.mark(t)
	for i := range 10 {
		write(t, w.root, "a", fmt.Sprint("version ", i))
		w.scan(t)
	}
	if s := w.sweep(t); s.Kept != 10 || s.Removed != 0 {
		t.Errorf("swept %+v, want 10 kept", s)
	}
	if s := w.sweep(t); s != (bitstream.Swept{}) {
		t.Errorf("swept %+v, want nothing done the second time", s)
	}
	c := w.changes(t)[6]
	must(t, w.inner.Forget(context.Background(), set, catalog.Mark{Seq: c.Seq, At: c.EventTime}))
	if s := w.sweep(t); s.Kept != 3 || s.Removed != 7 || s.Bytes != 7*9 {
		t.Errorf("swept %+v, want 3 kept, 7 of 63 bytes removed", s)
	}
	for _, c := range w.changes(t) {
		if _, kept := w.past(t, &c); !kept {
			t.Errorf("change %d is not kept", c.Seq)
		}
	}
}

// TestSweepOrphans: bytes of a change that was never applied, and foreign blobs
// in the store.
func TestSweepOrphans(t *testing.T) {
	t.Parallel()
	cat := &failing{Catalog: catalog.NewMem(nil)}
	w := newWorld(t, t.TempDir(), cat, nil, bitstream.SetOptions{Past: true})
	w.mark(t)
	write(t, w.root, "a", "text")
	cat.fail = true
	if _, err := w.dir.Scan(context.Background()); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	if n := w.blobs(t); n != 1 {
		t.Errorf("%d kept, want 1", n)
	}
	cat.fail = false
	if s := w.sweep(t); s.Removed != 1 || w.blobs(t) != 0 {
		t.Errorf("swept %+v, want 1 removed", s)
	}
	w.scan(t)
	if s := w.sweep(t); s.Kept != 1 {
		t.Errorf("swept %+v, want 1 kept", s)
	}
}

var errKilled = errors.New("killed")

// failing is a catalog that fails on request.
type failing struct {
	catalog.Catalog
	fail bool
}

func (f *failing) Apply(ctx context.Context, set string, us []catalog.Update) (catalog.Applied, error) {
	if f.fail {
		return catalog.Applied{}, errKilled
	}
	return f.Catalog.Apply(ctx, set, us)
}

// TestSweepUnsure: if a catalog cannot be read, nothing is removed.
func TestSweepUnsure(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir(), nil, nil, bitstream.SetOptions{Past: true})
	w.mark(t)
	write(t, w.root, "a", "text")
	w.scan(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := w.keeper.Sweep(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Sweep = %v, want it cancelled", err)
	}
	if n := w.blobs(t); n != 1 {
		t.Errorf("%d kept, want 1", n)
	}
}

// TestSweepOthers: bytes of a set that no longer exists.
func TestSweepOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir(), nil, nil, bitstream.SetOptions{Past: true})
	w.mark(t)
	write(t, w.root, "a", "text")
	w.scan(t)
	if s, err := bitstream.New(w.store, bitstream.Options{}).Sweep(context.Background()); err != nil || s.Removed != 1 {
		t.Errorf("swept %+v, %v; want 1 removed", s, err)
	}
}

// TestSweepBeside: sweeps concurrent with changes that bring back bytes which
// were unneeded just before.
func TestSweepBeside(t *testing.T) {
	t.Parallel()
	inner := catalog.NewMem(nil)
	var mu sync.Mutex
	now := make(map[string]string)
	k := bitstream.New(newDirStore(t, t.TempDir()), bitstream.Options{})
	cat := k.Catalog(inner, set, bitstream.SetOptions{Past: true, Open: func(_ context.Context, r *catalog.Record) (io.ReadCloser, error) {
		mu.Lock()
		defer mu.Unlock()
		return io.NopCloser(strings.NewReader(now[r.URI])), nil
	}})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_, err := cat.Mark(ctx, set)
	must(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			if _, err := k.Sweep(ctx); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	w := &world{inner: inner, keeper: k}
	for i := range 400 {
		var us []catalog.Update
		for j := range 3 {
			uri, text := fmt.Sprint(base, j), fmt.Sprint((i+j)%4)
			h := resourcesync.NewHasher(resourcesync.SHA256)
			_, _ = io.WriteString(h, text)
			mu.Lock()
			now[uri] = text
			mu.Unlock()
			us = append(us, catalog.Update{Record: catalog.Record{URI: uri, Length: 1, Hashes: h.Sum()}})
		}
		_, err := cat.Apply(ctx, set, us)
		must(t, err)
		cs := w.changes(t)
		for _, c := range cs {
			if _, kept := w.past(t, &c); !kept {
				t.Fatalf("round %d: change %d is not kept", i, c.Seq)
			}
		}
		if c := cs[len(cs)-1]; i%2 == 0 { // none of them is needed now
			must(t, inner.Forget(ctx, set, catalog.Mark{Seq: c.Seq, At: c.EventTime}))
		}
	}
	cancel()
	wg.Wait()
}

// TestDamaged: damaged bytes are never used.
func TestDamaged(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	w := newWorld(t, t.TempDir(), nil, newDirStore(t, path), bitstream.SetOptions{Past: true})
	w.mark(t)
	write(t, w.root, "a", "text")
	w.scan(t)
	var name string
	for info, err := range w.store.List(context.Background(), "") {
		must(t, err)
		name = filepath.Join(path, info.Name)
	}
	c := w.changes(t)[0]
	must(t, os.WriteFile(name, []byte("tex!"), 0o644))
	r, err := w.keeper.Open(context.Background(), &c)
	must(t, err)
	if _, err := io.ReadAll(r); !errors.Is(err, bitstream.ErrDamaged) {
		t.Errorf("flipped: %v, want ErrDamaged", err)
	}
	must(t, r.Close())
	must(t, os.WriteFile(name, []byte("tex"), 0o644))
	if _, kept := w.past(t, &c); kept {
		t.Error("cut short, and opened")
	}
	write(t, w.root, "b", "text")
	w.scan(t)
	if got, kept := w.past(t, &c); !kept || got != "text" {
		t.Error("the same bytes, kept again, do not replace those cut short")
	}
}

// full is a store without free space.
type full struct {
	blob.Store
	create, commit bool
}

var errFull = errors.New("no space left on device")

func (f *full) Create(ctx context.Context, name string) (blob.Writer, error) {
	if f.create {
		return nil, errFull
	}
	return f.Store.Create(ctx, name)
}

func (f *full) Commit(ctx context.Context, ws ...blob.Writer) error {
	if f.commit && len(ws) > 1 { // all but the first
		if err := f.Store.Commit(ctx, ws[0]); err != nil {
			return err
		}
		return &blob.CommitError{Done: 1, Name: ws[1].Name(), Err: errFull}
	}
	return f.Store.Commit(ctx, ws...)
}

// TestFull: a full store loses past bytes, but no current resources.
func TestFull(t *testing.T) {
	t.Parallel()
	for _, size := range []int{10, 1 << 20} {
		for _, store := range []*full{{create: true}, {commit: true}} {
			store.Store = new(blob.Mem)
			w := newWorld(t, t.TempDir(), nil, store, bitstream.SetOptions{Past: true})
			w.mark(t)
			for i := range 9 {
				write(t, w.root, fmt.Sprint(i), strings.Repeat(fmt.Sprint(i), size))
			}
			w.scan(t)
			cs := w.changes(t)
			if len(cs) != 9 {
				t.Errorf("%+v: %d changes, want 9", store, len(cs))
			}
			n := 0
			for _, c := range cs {
				if _, kept := w.past(t, &c); kept {
					n++
				}
			}
			if store.create && n != 0 || store.commit && n != 5 {
				t.Errorf("%+v: %d kept", store, n)
			}
		}
	}
}

// TestHuge: memory does not grow with a representation.
func TestHuge(t *testing.T) {
	w := newWorld(t, t.TempDir(), nil, newDirStore(t, t.TempDir()), bitstream.SetOptions{Past: true,
		Patches: &bitstream.PatchOptions{MaxBytes: 1 << 20}})
	w.mark(t)
	for i := range 2 {
		f, err := os.Create(filepath.Join(w.root, "huge"))
		must(t, err)
		must(t, f.Truncate(64<<20+int64(i)))
		must(t, f.Close())
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		w.scan(t)
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 16<<20 {
			t.Errorf("%d MB allocated for 64 MB", got>>20)
		}
	}
	for _, c := range w.changes(t) {
		r, err := w.keeper.Open(context.Background(), &c)
		must(t, err)
		n, err := io.Copy(io.Discard, r)
		if err != nil || n != c.Length {
			t.Errorf("change %d: %d bytes of %d, %v", c.Seq, n, c.Length, err)
		}
		must(t, r.Close())
	}
}

// TestSweepPatches: the current bytes are needed to make the next patch.
func TestSweepPatches(t *testing.T) {
	t.Parallel()
	const large = 200_000
	w := newWorld(t, t.TempDir(), nil, nil, bitstream.SetOptions{Patches: &bitstream.PatchOptions{MaxBytes: large - 1}})
	write(t, w.root, "a", "first")
	write(t, w.root, "large", strings.Repeat("x", large))
	w.scan(t)
	w.mark(t)
	if s := w.sweep(t); s.Kept != 1 || s.Removed != 0 {
		t.Errorf("swept %+v, want 1 kept", s)
	}
	write(t, w.root, "a", "second")
	w.scan(t)
	if s := w.sweep(t); s.Kept != 1 || s.Removed != 1 {
		t.Errorf("swept %+v, want the present kept, the past removed", s)
	}
	unknown := catalog.Update{Record: catalog.Record{URI: base + "large", Length: -1}}
	_, err := w.cat.Apply(context.Background(), set, []catalog.Update{unknown})
	must(t, err)
	if n := w.blobs(t); n != 1 {
		t.Errorf("%d kept, want nothing that is too large", n)
	}
	w = newWorld(t, w.root, w.inner, w.store, bitstream.SetOptions{Patches: &bitstream.PatchOptions{MaxBytes: 5}})
	if s := w.sweep(t); s.Removed != 1 {
		t.Errorf("swept %+v, want removed what has become too large", s)
	}
}

// slow is a store that runs a function during a removal.
type slow struct {
	blob.Store
	removing func()
}

func (s *slow) Remove(ctx context.Context, names ...string) error {
	if s.removing != nil && len(names) > 0 {
		s.removing()
	}
	return s.Store.Remove(ctx, names...)
}

// TestSweepBack: bytes that are needed again while they are being removed.
func TestSweepBack(t *testing.T) {
	t.Parallel()
	store := &slow{Store: new(blob.Mem)}
	w := newWorld(t, t.TempDir(), nil, store, bitstream.SetOptions{Past: true})
	w.mark(t)
	write(t, w.root, "a", "text")
	w.apply(t, "a", "token", "text")
	c := w.changes(t)[0]
	must(t, w.inner.Forget(context.Background(), set, catalog.Mark{Seq: c.Seq, At: c.EventTime}))
	done := make(chan struct{})
	store.removing = func() {
		go func() {
			defer close(done)
			write(t, w.root, "b", "text")
			w.apply(t, "b", "token", "text")
		}()
		select {
		case <-done: // it did not wait
		case <-time.After(50 * time.Millisecond):
		}
	}
	w.sweep(t)
	<-done
	for _, c := range w.changes(t) {
		if _, kept := w.past(t, &c); !kept {
			t.Errorf("change %d is not kept", c.Seq)
		}
	}
}

// meddling is a catalog that runs a function at a given moment.
type meddling struct {
	catalog.Catalog
	afterStatus, beforeApply func()
}

func (m *meddling) Status(ctx context.Context, set string) (catalog.Status, error) {
	st, err := m.Catalog.Status(ctx, set)
	if f := m.afterStatus; f != nil {
		m.afterStatus = nil
		f()
	}
	return st, err
}

func (m *meddling) Apply(ctx context.Context, set string, us []catalog.Update) (catalog.Applied, error) {
	if f := m.beforeApply; f != nil {
		m.beforeApply = nil
		f()
	}
	return m.Catalog.Apply(ctx, set, us)
}

// TestFirstMark: no change after the first Mark is missed, even if the Mark is
// taken during an Apply.
func TestFirstMark(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		cat := &meddling{Catalog: catalog.NewMem(nil)}
		w := newWorld(t, t.TempDir(), cat, nil, bitstream.SetOptions{Past: true})
		write(t, w.root, "a", "a")
		done := make(chan struct{})
		limit := time.Minute
		mark := func() {
			go func() {
				defer close(done)
				w.mark(t)
			}()
			select {
			case <-done: // before the Apply
			case <-time.After(limit):
			}
		}
		if late {
			limit = 50 * time.Millisecond // it waits, as it must
			cat.beforeApply = mark
		} else {
			cat.afterStatus = mark
		}
		w.apply(t, "a", "token", "a")
		<-done
		cs := w.changes(t)
		if len(cs) != 1 && !late || late && len(cs) != 0 {
			t.Errorf("late %v: %d changes", late, len(cs))
		}
		for _, c := range cs {
			if _, kept := w.past(t, &c); !kept {
				t.Errorf("late %v: change %d is not kept", late, c.Seq)
			}
		}
	}
}
