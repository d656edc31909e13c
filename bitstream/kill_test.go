package bitstream_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/bitstream"
	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/storage/sqlite"
)

// TestMain reduces the default number of property test runs, because these
// tests wait for files to stop changing.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if !given {
		_ = flag.Set("rapid.checks", "25") // a flag of rapid's
	}
	os.Exit(m.Run())
}

var kills = flag.Int("kills", 8, "how often TestKilled kills")

// onDisk opens a world whose catalog and bytes are on disk.
func onDisk(t *testing.T, root, state string) *world {
	t.Helper()
	db, err := sqlite.Open(filepath.Join(state, "catalog.db"))
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return newWorld(t, root, db.Catalog(), newDirStore(t, filepath.Join(state, "bitstreams")),
		bitstream.SetOptions{Past: true, Rescans: true, Patches: &bitstream.PatchOptions{}})
}

// TestKilled: a process that scans, forgets and sweeps while files change, and
// is killed at any moment, leaves every change in the catalog with its bytes.
func TestKilled(t *testing.T) {
	t.Parallel()
	if root := os.Getenv("BITSTREAM_TEST_KILL"); root != "" {
		state := os.Getenv("BITSTREAM_TEST_STATE")
		liveOn(t, onDisk(t, root, state), filepath.Join(state, "alive"))
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
		c := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		c.Env = append(os.Environ(), "BITSTREAM_TEST_KILL="+root, "BITSTREAM_TEST_STATE="+state)
		alive := filepath.Join(state, "alive")
		must(t, os.RemoveAll(alive))
		must(t, c.Start())
		if round%2 == 0 {
			waitForFile(alive)
		}
		time.Sleep(time.Duration(100+rand.IntN(400)) * time.Millisecond)
		must(t, c.Process.Kill())
		_ = c.Wait() // killed
		w := onDisk(t, root, state)
		n := 0
		for _, c := range w.changes(t) {
			if _, kept := w.past(t, &c); kept {
				n++
			} else if c.Change != resourcesync.Deleted {
				t.Errorf("round %d: change %d of %s is not kept", round, c.Seq, c.URI)
			}
		}
		t.Logf("round %d: %d changes with their bytes", round, n)
		if round == *kills-1 && n == 0 {
			t.Error("no change to look at")
		}
	}
}

// liveOn scans until it is killed, and now and then forgets and sweeps. It makes
// the file alive when it has scanned.
func liveOn(t *testing.T, w *world, alive string) {
	w.mark(t)
	for i := 1; ; i++ {
		if _, err := w.dir.Scan(context.Background()); err != nil {
			t.Fatal(err)
		}
		must(t, os.WriteFile(alive, nil, 0o644))
		if i%4 == 0 {
			cs := w.changes(t)
			if len(cs) > 10 {
				c := cs[len(cs)/3]
				must(t, w.inner.Forget(context.Background(), set, catalog.Mark{Seq: c.Seq, At: c.EventTime}))
			}
			w.sweep(t)
		}
	}
}

// disturb changes files, some of them repeatedly to the same content.
func disturb(t *testing.T, root string, stop <-chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-time.After(time.Millisecond):
		}
		name := filepath.Join(root, fmt.Sprint(rand.IntN(50)))
		text := strings.Repeat(fmt.Sprint(rand.IntN(20), " "), 1+rand.IntN(100_000))
		switch rand.IntN(4) {
		case 0:
			must(t, os.RemoveAll(name))
		case 1:
			must(t, os.WriteFile(name, []byte(text), 0o644))
		default:
			must(t, os.WriteFile(name+".new", []byte(text), 0o644))
			must(t, os.Rename(name+".new", name))
		}
	}
}
