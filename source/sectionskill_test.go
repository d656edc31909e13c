package source_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/source"
	"lockstep/storage/sqlite"
)

// killedDir names, in the environment of the process that TestKilledWhilePartsAreShared
// kills, the directory that has its catalog and documents.
const killedDir = "LOCKSTEP_TEST_KILLED_SOURCE"

// killedResources is the number of resources of that process.
const killedResources = 400

// killedSource opens the catalog and the documents in dir.
func killedSource(dir string) (*source.Source, catalog.Catalog, *blob.Dir, func(), error) {
	db, err := sqlite.Open(filepath.Join(dir, "catalog.db"))
	if err != nil {
		return nil, nil, nil, nil, err
	}
	docs, err := blob.NewDir(filepath.Join(dir, "out"), blob.DirOptions{})
	if err != nil {
		return nil, nil, nil, nil, errors.Join(err, db.Close())
	}
	s, err := source.New(db.Catalog(), docs, source.Options{BaseURL: baseURL, MaxEntries: 20, SmallSet: 1, Workers: 2})
	return s, db.Catalog(), docs, func() { _, _ = docs.Close(), db.Close() }, err // the files are closed in any case
}

// TestKilledSourceProcess is that process: it changes a tenth of its resources, side by
// side, and publishes, again and again.
func TestKilledSourceProcess(t *testing.T) {
	dir := os.Getenv(killedDir)
	if dir == "" {
		return // only when the test below starts it
	}
	s, cat, _, _, err := killedSource(dir)
	if err != nil {
		t.Fatal(err)
	}
	set, err := source.CapabilityListURI(baseURL, source.DefaultSet)
	if err != nil {
		t.Fatal(err)
	}
	for {
		st, err := cat.Status(context.Background(), set)
		if err != nil {
			t.Fatal(err)
		}
		first, n := rand.IntN(killedResources), killedResources/10+1
		if st.Last == 0 {
			first, n = 0, killedResources
		}
		var updates []catalog.Update
		for i := range n {
			updates = append(updates, catalog.Update{Record: record(fmt.Sprintf("%sr%05d", baseURL, (first+i)%killedResources), fmt.Sprint(rand.Int()))})
			updates[i].Deleted = st.Last > 0 && rand.IntN(10) == 0
		}
		if _, err := cat.Apply(context.Background(), set, updates); err != nil {
			t.Fatal(err)
		}
		r, err := s.Publish(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("published, list: %v\n", r.Sets[0].List)
	}
}

// TestKilledWhilePartsAreShared kills a process with SIGKILL while it publishes lists that
// share parts. Whenever that is, each document names only parts that are there, and what is
// published next is the present of the catalog.
func TestKilledWhilePartsAreShared(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	shared := 0
	for round := 0; round < rounds(12) || shared == 0 && round < 100; round++ {
		before := killedParts(t, dir)
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledSourceProcess$")
		cmd.Env = append(os.Environ(), killedDir+"="+dir)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 1 + rand.IntN(6) {
			lines.Scan()
		}
		time.AfterFunc(time.Duration(rand.IntN(20))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		for lines.Scan() { // until it is dead
		}
		_ = cmd.Wait() // it was killed
		shared += len(killedParts(t, dir)) - missing(killedParts(t, dir), before)
		presentOf(t, dir)
	}
	if shared == 0 {
		t.Error("no two lists share a part")
	}
}

// killedParts crawls what is published, and returns the names of the parts of the Resource
// List.
func killedParts(t *testing.T, dir string) []string {
	t.Helper()
	docs, err := blob.NewDir(filepath.Join(dir, "out"), blob.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer docs.Close() // read from only
	c, err := crawlAll(reader(docs))
	if errors.Is(err, errNothing) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	w := &world{TB: t, docs: docs}
	_, parts := w.partsOf()
	if len(parts) != c.parts {
		t.Fatalf("%d parts, the crawl found %d", len(parts), c.parts)
	}
	return locs(parts)
}

// presentOf publishes, and requires that documents state what the catalog has.
func presentOf(t *testing.T, dir string) {
	t.Helper()
	s, cat, docs, done, err := killedSource(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if _, err := s.Publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := crawlAll(reader(docs))
	if err != nil {
		t.Fatal(err)
	}
	set, err := source.CapabilityListURI(baseURL, source.DefaultSet)
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string]string)
	for r, err := range cat.Resources(t.Context(), set, catalog.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		want[r.URI] = digest(r.Length, r.Hashes)
	}
	if !maps.Equal(c.state, want) {
		t.Fatalf("documents state %d resources, the catalog has %d", len(c.state), len(want))
	}
}
