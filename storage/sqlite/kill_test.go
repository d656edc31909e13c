package sqlite_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/storage/sqlite"
)

const (
	killSet     = "set"
	killChanges = 100 // of each Apply
	killEnv     = "LOCKSTEP_TEST_KILL"
)

// TestKill repeatedly kills a process that applies changes. Every reported
// change is in the catalog, and no Apply is there partially.
func TestKill(t *testing.T) {
	if path := os.Getenv(killEnv); path != "" {
		applyForever(path)
		return
	}
	t.Parallel()
	path := filepath.Join(t.TempDir(), "catalog.db")
	for range 20 {
		said := killed(t, path)
		db, err := sqlite.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if last := agree(t, db.Catalog()); last < said || last%killChanges > 0 {
			t.Errorf("last change is %d after %d was reported", last, said)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// killed runs a process and kills it; it returns the last change reported.
func killed(t *testing.T, path string) (said catalog.Seq) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKill$")
	cmd.Env = append(os.Environ(), killEnv+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if said == 0 { // it has begun
			time.AfterFunc(rand.N(30*time.Millisecond), func() { _ = cmd.Process.Kill() }) // it may have exited by itself
		}
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Errorf("child: %s", lines.Text())
			break
		}
		said = catalog.Seq(n)
	}
	if err := cmd.Wait(); err == nil || said == 0 {
		t.Fatalf("child ended by itself, last change %d: %v", said, err)
	}
	return said
}

// applyForever makes random changes to a small set, some in large transactions.
func applyForever(path string) {
	db, err := sqlite.Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	c, ctx := db.Catalog(), context.Background()
	if _, err := c.Mark(ctx, killSet); err != nil {
		fmt.Println(err)
		return
	}
	for {
		there := make(map[string]bool)
		for r, err := range c.Resources(ctx, killSet, catalog.Range{}) {
			if err != nil {
				fmt.Println(err)
				return
			}
			there[r.URI] = true
		}
		var updates []catalog.Update
		for _, i := range rand.Perm(3 * killChanges)[:killChanges] {
			u := catalog.Update{Record: catalog.Record{URI: fmt.Sprintf("u%03d", i), Length: rand.Int64()}}
			u.Deleted = there[u.URI] && rand.IntN(3) == 0
			updates = append(updates, u)
		}
		a, err := c.Apply(ctx, killSet, updates)
		if err != nil || a.Created+a.Updated+a.Deleted != killChanges {
			fmt.Println("apply:", a, err)
			return
		}
		s, err := c.Status(ctx, killSet)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(s.Last)
	}
}

// agree checks that status, resources and changes are consistent.
func agree(t *testing.T, c catalog.Catalog) catalog.Seq {
	t.Helper()
	s, err := c.Status(t.Context(), killSet)
	if err != nil {
		t.Fatal(err)
	}
	now := make(map[string]catalog.Record)
	var last catalog.Seq
	for ch, err := range c.Changes(t.Context(), killSet, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if last++; ch.Seq != last {
			t.Fatalf("change %d follows %d", ch.Seq, last-1)
		}
		now[ch.URI] = ch.Record
		if ch.Length == 0 {
			delete(now, ch.URI)
		}
	}
	n := 0
	for r, err := range c.Resources(t.Context(), killSet, catalog.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if was := now[r.URI]; was.Seq != r.Seq || was.Length != r.Length {
			t.Fatalf("resource %+v, as of its last change %+v", r, was)
		}
		n++
	}
	if n != len(now) || int64(n) != s.Resources || last != s.Last {
		t.Fatalf("%d resources and %d changes, want %d of %+v", n, last, len(now), s)
	}
	return last
}
