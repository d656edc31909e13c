package bitstream_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"lockstep/bitstream"
	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/resourcesync"
)

// mortal is the store and the catalog of a process that dies at a given step:
// from then on nothing it does has any effect.
type mortal struct {
	blob.Store
	catalog.Catalog
	steps atomic.Int64 // remaining steps; negative: unlimited
}

func (m *mortal) dead() bool {
	n := m.steps.Load()
	return n == 0 || n > 0 && m.steps.Add(-1) <= 0
}

func (m *mortal) Create(ctx context.Context, name string) (blob.Writer, error) {
	if m.dead() {
		return nil, errKilled
	}
	return m.Store.Create(ctx, name)
}

// Commit of a process that dies commits some.
func (m *mortal) Commit(ctx context.Context, ws ...blob.Writer) error {
	for i, w := range ws {
		if m.dead() {
			return &blob.CommitError{Done: i, Name: w.Name(), Err: errKilled}
		}
		if err := m.Store.Commit(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

func (m *mortal) Remove(ctx context.Context, names ...string) error {
	for _, name := range names {
		if m.dead() {
			return errKilled
		}
		if err := m.Store.Remove(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (m *mortal) Apply(ctx context.Context, set string, us []catalog.Update) (catalog.Applied, error) {
	if m.dead() {
		return catalog.Applied{}, errKilled
	}
	return m.Catalog.Apply(ctx, set, us)
}

// A life is a directory with its past, and a sequence of processes.
type life struct {
	*rapid.T
	*world
	opts  bitstream.SetOptions
	store blob.Store
	cat   catalog.Catalog
	m     *mortal
	n     int // of versions
}

// begin starts a process, which dies after that many steps; negative: never.
func (l *life) begin(steps int64) {
	l.m = &mortal{Store: l.store, Catalog: l.cat}
	l.m.steps.Store(steps)
	l.world = newWorld(l.T, l.root, l.m, l.m, l.opts)
}

// change changes a file in a random manner.
func (l *life) change() {
	name := filepath.Join(l.root, rapid.SampledFrom([]string{"a", "b", "c/d", "c/e.json"}).Draw(l.T, "name"))
	must(l, os.MkdirAll(filepath.Dir(name), 0o755))
	l.n++
	text := fmt.Sprintf(`{"version":%d,"text":"%s"}`, l.n, strings.Repeat("text ", rapid.SampledFrom([]int{0, 1, 500, 40_000}).Draw(l.T, "size")))
	switch rapid.IntRange(0, 5).Draw(l.T, "what") {
	case 0:
		must(l, os.RemoveAll(name))
	case 1:
		f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		must(l, err)
		_, err = f.WriteString(text)
		must(l, err)
		must(l, f.Close())
	case 2: // to an earlier content
		must(l, os.WriteFile(name, []byte("same"), 0o644))
	default:
		must(l, os.WriteFile(name, []byte(text), 0o644))
	}
}

// scan scans, perhaps while a file changes.
func (l *life) scan() {
	var wg sync.WaitGroup
	stop := make(chan struct{})
	if rapid.Bool().Draw(l.T, "busy") {
		wg.Go(func() { rewrite(filepath.Join(l.root, "busy"), stop) })
	}
	_, err := l.dir.Scan(context.Background())
	close(stop)
	wg.Wait()
	if err != nil && (l.m.steps.Load() != 0 || !errors.Is(err, errKilled)) {
		l.Fatal(err)
	}
}

// rewrite writes a file repeatedly, in place and torn.
func rewrite(name string, stop <-chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
			_ = os.WriteFile(name, []byte(strings.Repeat(fmt.Sprint(i, " "), i%1000)), 0o644) // if it fails, nothing changes
		}
	}
}

// check opens every stored change: it has the bytes of its hash. A scan
// compares, so none is ever recorded without.
func (l *life) check() {
	l.Helper()
	w := *l.world
	w.inner = l.cat
	w.keeper = bitstream.New(l.store, bitstream.Options{}) // a separate process
	for _, c := range w.changes(l) {
		if _, kept := w.past(l, &c); kept == (c.Change == resourcesync.Deleted) {
			l.Fatalf("change %d of %s, %v: kept is %v", c.Seq, c.URI, c.Change, kept)
		}
		for _, link := range c.Links {
			if c.Change != resourcesync.Updated {
				l.Fatalf("change %d, %v, has a link %v", c.Seq, c.Change, link)
			}
		}
	}
}

func (l *life) forget() {
	cs := (&world{inner: l.cat}).changes(l)
	if len(cs) == 0 {
		return
	}
	c := cs[rapid.IntRange(0, len(cs)-1).Draw(l.T, "until")]
	must(l, l.cat.Forget(context.Background(), set, catalog.Mark{Seq: c.Seq, At: c.EventTime}))
}

// TestLives: whatever happens to files and processes, every stored change opens
// with the bytes of its hash.
func TestLives(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		root, err := os.MkdirTemp(t.TempDir(), "")
		must(rt, err)
		store, err := blob.NewDir(filepath.Join(root, "store"), blob.DirOptions{})
		must(rt, err)
		defer store.Close() // everything was committed
		l := &life{T: rt, world: &world{root: filepath.Join(root, "files")}, store: store, cat: catalog.NewMem(nil)}
		must(rt, os.Mkdir(l.root, 0o755))
		l.opts.Past, l.opts.Rescans = true, true
		if rapid.Bool().Draw(rt, "patches") {
			l.opts.Patches = &bitstream.PatchOptions{}
		}
		l.begin(-1)
		for range rapid.IntRange(3, 12).Draw(rt, "steps") {
			switch rapid.IntRange(0, 7).Draw(rt, "step") {
			case 0:
				l.mark(rt)
			case 1:
				l.forget()
			case 2:
				if _, err := l.keeper.Sweep(context.Background()); err != nil && !errors.Is(err, errKilled) {
					rt.Fatal(err)
				}
			case 3:
				l.begin(int64(rapid.IntRange(1, 12).Draw(rt, "life")))
			default:
				l.change()
				l.scan()
			}
			if l.m.steps.Load() == 0 {
				l.begin(-1)
			}
			l.check()
		}
		l.begin(-1)
		l.scan()
		l.sweep(rt)
		l.check()
	})
}
