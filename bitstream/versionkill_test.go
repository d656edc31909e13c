package bitstream_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"lockstep/catalog"
	intakedir "lockstep/intake/dir"
	"lockstep/memento"
	"lockstep/storage/sqlite"
	"lockstep/vault"
)

// pastOnDisk opens a past whose catalog, index and bytes are on disk, filled from
// the directory root.
func pastOnDisk(t *testing.T, root, state string) (*past, *intakedir.Dir) {
	t.Helper()
	db, err := sqlite.Open(filepath.Join(state, "catalog.db"))
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	var dir *intakedir.Dir
	p := newPast(t, func(p *past) {
		p.inner, p.index, p.blobs = db.Catalog(), db.Versions(), newDirStore(t, filepath.Join(state, "versions"))
		p.opts.Versions.Now = nil
		p.opts.Rescans = true
		p.opts.Open = func(_ context.Context, r *catalog.Record) (io.ReadCloser, error) {
			rel, ok := dir.RelPath(r.URI)
			if !ok {
				return nil, fs.ErrNotExist
			}
			f, _, err := dir.Open(rel)
			if err != nil {
				return nil, err
			}
			return f, nil
		}
	})
	dir, err = intakedir.New(root, p.cat, set, intakedir.Options{BaseURI: base, AllowEmpty: true})
	must(t, err)
	t.Cleanup(func() { _ = dir.Close() })
	return p, dir
}

// TestVersionsKilled: a process that scans, drops and sweeps while files change,
// and is killed at any moment, leaves every version that a change names, and
// every one in the index, with its bytes (ME-RET-01).
func TestVersionsKilled(t *testing.T) {
	t.Parallel()
	if root := os.Getenv("VERSIONS_TEST_KILL"); root != "" {
		p, dir := pastOnDisk(t, root, os.Getenv("VERSIONS_TEST_STATE"))
		keepOn(t, p, dir, filepath.Join(os.Getenv("VERSIONS_TEST_STATE"), "alive"))
		return
	}
	root, state := t.TempDir(), t.TempDir()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(stop)
	wg.Go(func() { disturb(t, root, stop) })
	wg.Go(func() { rewrite(filepath.Join(root, "busy"), stop) })
	for round := range *kills {
		c := exec.Command(os.Args[0], "-test.run=^TestVersionsKilled$")
		c.Env = append(os.Environ(), "VERSIONS_TEST_KILL="+root, "VERSIONS_TEST_STATE="+state)
		alive := filepath.Join(state, "alive")
		must(t, os.RemoveAll(alive))
		must(t, c.Start())
		if round%2 == 0 {
			waitForFile(alive)
		}
		time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond)
		must(t, c.Process.Kill())
		_ = c.Wait() // killed
		p, _ := pastOnDisk(t, root, state)
		_, err := p.cat.Status(t.Context(), set)
		must(t, err)
		p.check()
		n := 0
		for v, err := range p.index.Walk(t.Context(), set, "") {
			must(t, err)
			if !v.Gone {
				p.text(v)
				n++
			}
		}
		t.Logf("round %d: %d versions with their bytes", round, n)
		if round == *kills-1 && n == 0 {
			t.Error("no version to look at")
		}
	}
}

// waitForFile waits until there is a file of that name, for a minute at most:
// however busy the machine is, some processes get something done.
func waitForFile(name string) {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if _, err := os.Stat(name); err == nil {
			return
		}
	}
}

// keepOn scans until it is killed, and now and then drops versions, adopts, and
// sweeps. It makes the file alive when it has scanned.
func keepOn(t *testing.T, p *past, dir *intakedir.Dir, alive string) {
	ctx := context.Background()
	for i := 1; ; i++ {
		if _, err := dir.Scan(ctx); err != nil {
			t.Fatal(err)
		}
		m := p.mark()
		must(t, os.WriteFile(alive, nil, 0o644))
		switch i % 4 {
		case 0:
			if old := m.Seq - 10; old > 0 { // earlier changes are no longer published
				for c, err := range p.inner.Changes(ctx, set, 0) {
					must(t, err)
					if c.Seq >= old {
						must(t, p.inner.Forget(ctx, set, catalog.Mark{Seq: c.Seq, At: c.EventTime}))
						break
					}
				}
			}
			st, err := p.inner.Status(ctx, set)
			must(t, err)
			_, err = p.keeper.Retain(ctx, set, memento.Policy{Count: 2, FloorSeq: int64(st.Kept.Seq), SnapshotSeqs: []int64{int64(m.Seq) / 2}})
			must(t, err)
			_, err = p.keeper.SweepVersions(ctx)
			must(t, err)
		case 2:
			_, err := p.keeper.Adopt(ctx, set, nil)
			must(t, err)
		}
	}
}

// TestVersionsSideBySide: versions are stored, dropped and swept concurrently with
// reads.
func TestVersionsSideBySide(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.opts.Versions.Now = time.Now
	p.restart()
	var mu sync.Mutex // guards files
	files := make(map[string]string)
	p.opts.Open = func(_ context.Context, r *catalog.Record) (io.ReadCloser, error) {
		mu.Lock()
		defer mu.Unlock()
		p := past{files: files}
		return p.open(r.URI)
	}
	p.restart()
	p.mark()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var wg sync.WaitGroup
	goOn := func(f func(i int) error) {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if err := f(i); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	goOn(func(i int) error {
		mu.Lock()
		q := past{files: files}
		us := []catalog.Update{q.put(fmt.Sprint(i%7), fmt.Sprint("text ", i%50), time.Time{})}
		if i%5 == 0 {
			us = append(us, q.gone(fmt.Sprint(i%11)))
		}
		mu.Unlock()
		_, err := p.cat.Apply(ctx, set, us)
		return err
	})
	goOn(func(int) error {
		m, err := p.cat.Mark(ctx, set)
		if err != nil {
			return err
		}
		for c, err := range p.cat.Changes(ctx, set, max(0, m.Seq-20)) {
			if err != nil {
				return err
			}
			l := catalog.Memento(c.Links)
			if l == nil || c.Seq > m.Seq {
				continue
			}
			a, err := p.index.Around(ctx, c.URI, l.Modified.Time())
			if err != nil {
				return err
			}
			if !a.Known {
				return fmt.Errorf("change %d names a version nobody knows", c.Seq)
			}
			if c.Seq > m.Seq-10 { // at least these are published
				if err := p.vault.Verify(ctx, vault.Digest([]byte(c.Hashes[0].Digest))); err != nil {
					return fmt.Errorf("change %d of %d: %w", c.Seq, m.Seq, err)
				}
			}
		}
		return nil
	})
	goOn(func(int) error {
		st, err := p.inner.Status(ctx, set)
		if err != nil {
			return err
		}
		if _, err = p.keeper.Retain(ctx, set, memento.Policy{Count: 1, FloorSeq: max(1, int64(st.Last)-100)}); err != nil {
			return err
		}
		_, err = p.keeper.SweepVersions(ctx)
		return err
	})
	goOn(func(int) error { _, err := p.keeper.Adopt(ctx, set, nil); return err })
	wg.Wait()
}
