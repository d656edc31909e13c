package dir_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/dir"
)

// watched is a directory under watch.
type watched struct {
	root    string
	cat     catalog.Catalog
	changes atomic.Int64 // calls of onChange
	scans   atomic.Int64 // full or failed scans, and those that changed something
}

func watchDir(t *testing.T, root string, o dir.Options) *watched {
	t.Helper()
	return watchInto(t, root, catalog.NewMem(nil), o)
}

func watchInto(t *testing.T, root string, cat catalog.Catalog, o dir.Options) *watched {
	t.Helper()
	w := &watched{root: root, cat: cat}
	ready := make(chan struct{}, 1)
	o.OnEvent = func(e intake.Event) {
		if e.Kind == intake.EventScanned {
			w.scans.Add(1)
			select {
			case ready <- struct{}{}:
			default:
			}
		}
	}
	d := newDir(t, root, w.cat, o)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Watch(ctx, func(intake.Report) { w.changes.Add(1) }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Watch ended with %v", err)
		}
	})
	<-ready
	return w
}

// settles waits until the catalog is the tree, and returns how long it took.
func (w *watched) settles(t *testing.T) time.Duration {
	t.Helper()
	start := time.Now()
	const deadline = time.Minute // machines under test are busy
	for {
		want, got := look(t, w.root).want(nil), holds(t, w.cat)
		diff := cmp.Diff(want, got)
		if diff == "" {
			return time.Since(start)
		}
		if time.Since(start) > deadline {
			t.Fatalf("after %v the catalog differs from the tree (-want +got):\n%s", deadline, diff)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, "d/e/f.txt", "one")
	write(t, root, "d/g.txt", "one")
	must(t, os.Symlink("d/g.txt", filepath.Join(root, "link")))
	must(t, os.Link(filepath.Join(root, "d/g.txt"), filepath.Join(root, "hard")))
	w := watchDir(t, root, dir.Options{})
	w.settles(t)
	at := func(rel string) string { return filepath.Join(root, rel) }
	steps := []struct {
		name string
		do   func()
	}{
		{"write", func() { write(t, root, "d/e/f.txt", "two") }},
		{"create", func() { write(t, root, "d/e/new.txt", "new") }},
		{"write through links", func() { write(t, root, "d/g.txt", "two") }},
		{"link", func() { must(t, os.Link(at("d/e/new.txt"), at("second"))) }},
		{"write through the new link", func() { write(t, root, "second", "through the link") }},
		{"link to nothing", func() {
			must(t, os.Symlink("late/target", at("tolate")))
			time.Sleep(500 * time.Millisecond) // it changes nothing to wait for
		}},
		{"its target comes", func() { write(t, root, "late/target", "late") }},
		{"and goes", func() { must(t, os.Rename(at("late/target"), at("late/else"))) }},
		{"and is another", func() { must(t, os.Rename(at("late/else"), at("late/target"))) }},
		{"remove", func() { must(t, os.Remove(at("d/e/new.txt"))) }},
		{"new directories at once", func() { write(t, root, "n1/n2/n3/n4/x.txt", "deep") }},
		{"in the new directory", func() { write(t, root, "n1/n2/n3/n4/y.txt", "deep") }},
		{"replace", func() {
			write(t, root, "tmp", "three")
			must(t, os.Rename(at("tmp"), at("d/e/f.txt")))
		}},
		{"rename a directory", func() { must(t, os.Rename(at("n1"), at("m1"))) }},
		{"below the renamed directory", func() { write(t, root, "m1/n2/n3/n4/y.txt", "changed") }},
		{"in the renamed directory", func() { write(t, root, "m1/z.txt", "z") }},
		{"another takes the old name", func() { write(t, root, "n1/n2/x.txt", "other") }},
		{"in that one", func() { write(t, root, "n1/n2/y.txt", "other") }},
		{"swap", func() {
			must(t, os.Rename(at("n1"), at("tmp")))
			must(t, os.Rename(at("m1"), at("n1")))
			must(t, os.Rename(at("tmp"), at("m1")))
		}},
		{"after the swap", func() {
			write(t, root, "n1/n2/n3/n4/x.txt", "swapped")
			write(t, root, "m1/n2/x.txt", "swapped")
		}},
		{"remove a directory", func() { must(t, os.RemoveAll(at("d"))) }},
		{"make it again", func() { write(t, root, "d/e/f.txt", "again") }},
		{"many at once", func() {
			for i := range 1500 {
				write(t, root, fmt.Sprintf("many/%d/%d", i%7, i), "x")
			}
		}},
		{"move out of the tree", func() { must(t, os.Rename(at("many"), filepath.Join(t.TempDir(), "out"))) }},
	}
	for _, s := range steps {
		s.do()
		t.Logf("%s: %v", s.name, w.settles(t))
	}
}

// TestWatchNameOfAnotherHardLink: a name that belonged to one file with several
// names belongs to another one now. A write through it changes that one under
// its other name, too.
func TestWatchNameOfAnotherHardLink(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	write(t, root, "a", "one")
	write(t, root, "c", "two")
	must(t, os.Link(at("c"), at("b")))
	w := watchDir(t, root, dir.Options{})
	w.settles(t)
	must(t, os.Link(at("a"), at("tmp")))
	must(t, os.Rename(at("tmp"), at("b")))
	w.settles(t)
	write(t, root, "b", "changed")
	w.settles(t)
}

// TestWatchBriefHardLink: a file is written through another name that comes and goes before
// it can be looked at.
func TestWatchBriefHardLink(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	write(t, root, "a", "one")
	write(t, root, "d/b", "one")
	w := watchDir(t, root, dir.Options{})
	w.settles(t)
	for i := range 3 {
		for _, name := range []string{"a", "d/b"} {
			must(t, os.Link(at(name), at("brief")))
			write(t, root, "brief", fmt.Sprint("through the other name ", i))
			must(t, os.Remove(at("brief")))
		}
		w.settles(t)
	}
}

// TestWatchOutsideHardLink: a file is written through a name outside of the directory, and nothing
// happens in that.
func TestWatchOutsideHardLink(t *testing.T) {
	t.Parallel()
	root, outside := t.TempDir(), t.TempDir()
	write(t, root, "a", "one")
	must(t, os.Link(filepath.Join(root, "a"), filepath.Join(outside, "b")))
	w := watchDir(t, root, dir.Options{})
	w.settles(t)
	for i := range 2 {
		write(t, outside, "b", fmt.Sprint("through the name outside ", i))
		w.settles(t)
	}
}

// TestWatchStorm: files and directories come, go and change places at random;
// when the storm is over the catalog is the tree.
func TestWatchStorm(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, "a", "first")
	w := watchDir(t, root, dir.Options{AllowEmpty: true})
	rnd := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	at := func() string {
		names := []string{"a", "b", "c d", "e"}
		rel := root
		for range 1 + rnd.IntN(4) {
			rel = filepath.Join(rel, names[rnd.IntN(len(names))])
		}
		return rel
	}
	for range 3 {
		for i := range 400 {
			switch rnd.IntN(8) {
			case 0:
				_ = os.RemoveAll(at())
			case 1, 2:
				_ = os.Rename(at(), at())
			case 3:
				_ = os.Symlink([]string{"a", "../b", "b/a"}[rnd.IntN(3)], at())
			case 4:
				_ = os.Link(at(), at())
			default:
				name := at()
				_ = os.MkdirAll(filepath.Dir(name), 0o755)
				_ = os.WriteFile(name, fmt.Append(nil, i%10), 0o644)
			}
			time.Sleep(time.Duration(rnd.IntN(2000)) * time.Microsecond)
		}
		w.settles(t)
	}
}

// TestWatchQuiet: what is none of our business does not wake anybody,
// and what changes nothing is no change.
func TestWatchQuiet(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, "a", "one")
	w := watchDir(t, root, dir.Options{Exclude: []string{"*.tmp"}})
	w.settles(t)
	for w.changes.Load() == 0 { // the first scan is reported after it has ended
		time.Sleep(time.Millisecond)
	}
	changes, scans := w.changes.Load(), w.scans.Load()
	write(t, root, "x.tmp", "excluded")
	write(t, root, "resourcesync/main/changelist.xml", "our own")
	must(t, os.Chtimes(filepath.Join(root, "a"), time.Time{}, time.Now()))
	time.Sleep(time.Second)
	if n := w.changes.Load(); n != changes {
		t.Errorf("onChange was called %d times, nothing changed", n-changes)
	}
	if n := w.scans.Load(); n != scans {
		t.Errorf("%d full scans, nothing changed", n-scans)
	}
}

// TestWatchRoot: the root may be replaced, be away and come back.
func TestWatchRoot(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	root := filepath.Join(parent, "current")
	write(t, parent, "one/a", "1")
	write(t, parent, "two/a", "2")
	write(t, parent, "two/b/c", "2")
	must(t, os.Symlink("one", root))
	w := watchDir(t, root, dir.Options{})
	got := func(want string) {
		t.Helper()
		for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			h := holds(t, w.cat)
			if h[base+"b/c"] == of([]byte(want)) {
				return
			}
			if time.Since(start) > time.Minute {
				t.Fatalf("catalog holds %v, want b/c of %q", h, want)
			}
		}
	}
	must(t, os.Remove(root))
	must(t, os.Symlink("two", root))
	got("2")
	write(t, parent, "two/b/c", "3")
	got("3")
	must(t, os.Rename(filepath.Join(parent, "two"), filepath.Join(parent, "away")))
	time.Sleep(2500 * time.Millisecond)
	if n := len(holds(t, w.cat)); n != 2 {
		t.Fatalf("%d resources while the root is away, want 2", n)
	}
	write(t, parent, "away/b/c", "4")
	must(t, os.Rename(filepath.Join(parent, "away"), filepath.Join(parent, "two")))
	got("4")
	write(t, parent, "two/b/c", "5")
	got("5")
}

// fullCatalog takes nothing while it is full.
type fullCatalog struct {
	catalog.Catalog
	full atomic.Bool
}

func (c *fullCatalog) Apply(ctx context.Context, set string, us []catalog.Update) (catalog.Applied, error) {
	if c.full.Load() {
		return catalog.Applied{}, syscall.ENOSPC
	}
	return c.Catalog.Apply(ctx, set, us)
}

// However many changes could not be recorded, the next try is near.
func TestWatchRetry(t *testing.T) {
	t.Parallel()
	cat := &fullCatalog{Catalog: catalog.NewMem(nil)}
	root := t.TempDir()
	w := watchInto(t, root, cat, dir.Options{ScanInterval: -1})
	cat.full.Store(true)
	for i := range 8 {
		before := w.scans.Load()
		if err := os.WriteFile(filepath.Join(root, fmt.Sprint(i)), []byte("text"), 0o644); err != nil {
			t.Fatal(err)
		}
		for w.scans.Load() == before {
			time.Sleep(10 * time.Millisecond)
		}
	}
	cat.full.Store(false)
	w.settles(t)
}

// A lossyCatalog loses the answer to an Apply, as a database does if the connection to it
// breaks during the commit.
type lossyCatalog struct {
	catalog.Catalog
	lose atomic.Bool // the next one
}

func (c *lossyCatalog) Apply(ctx context.Context, set string, us []catalog.Update) (catalog.Applied, error) {
	a, err := c.Catalog.Apply(ctx, set, us)
	if err == nil && c.lose.Swap(false) {
		return catalog.Applied{}, errors.New("connection reset by peer")
	}
	return a, err
}

// TestWatchReportsAFailure: a change is reported although the scan that applied it failed
// and the next one finds it in the catalog.
func TestWatchReportsAFailure(t *testing.T) {
	t.Parallel()
	cat := &lossyCatalog{Catalog: catalog.NewMem(nil)}
	root := t.TempDir()
	w := watchInto(t, root, cat, dir.Options{ScanInterval: -1})
	cat.lose.Store(true)
	write(t, root, "a", "text")
	w.settles(t)
	for end := time.Now().Add(time.Minute); w.changes.Load() == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the change was not reported, after %d scans", w.scans.Load())
		}
	}
}
