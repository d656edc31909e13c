//go:build unix

package dir

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/intake/internal/filestat"
	"lockstep/resourcesync"
)

// TestSmallFilesReplaced: a file that is no longer what the walk found is recorded as
// what it is now, and nothing is read from a pipe in its place.
func TestSmallFilesReplaced(t *testing.T) {
	t.Parallel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	root := t.TempDir()
	at := func(rel string) string { return filepath.Join(root, rel) }
	rels := []string{"changed", "gone", "grown", "pipe", "same", "shrunk"}
	for _, rel := range rels {
		must(os.WriteFile(at(rel), []byte("before"), 0o644))
	}
	d, err := New(root, catalog.NewMem(nil), "set", Options{BaseURI: "https://example.org/"})
	must(err)
	tree, err := d.acquire()
	must(err)
	defer tree.release()
	jobs := make([]job, len(rels))
	for i, rel := range rels {
		st, err := tree.lstat(rel)
		must(err)
		jobs[i] = job{uri: d.URI(rel), rel: rel, st: st}
	}

	for rel, text := range map[string]string{"changed": "after!", "grown": strings.Repeat("after", 100), "shrunk": "a"} {
		must(os.WriteFile(at(rel), []byte(text), 0o644))
	}
	must(os.Remove(at("gone")))
	must(os.Remove(at("pipe")))
	must(syscall.Mkfifo(at("pipe"), 0o644))
	pipe, err := os.OpenFile(at("pipe"), os.O_RDWR, 0)
	must(err)
	defer pipe.Close()
	_, err = pipe.WriteString("for another")
	must(err)

	must(newHasher(newScan(d, tree)).readAll(context.Background(), jobs))
	for i := range jobs {
		j := &jobs[i]
		if j.rel == "gone" || j.rel == "pipe" {
			if j.outcome != readVanished {
				t.Errorf("%s: outcome %d, want that it has vanished", j.rel, j.outcome)
			}
			continue
		}
		text, err := os.ReadFile(at(j.rel))
		must(err)
		sum := resourcesync.NewHasher(resourcesync.MD5, resourcesync.SHA256)
		_, _ = sum.Write(text)
		st, err := tree.lstat(j.rel)
		must(err)
		if !slices.Equal(j.record.Hashes, sum.Sum()) || j.record.Length != st.Size || !strings.HasPrefix(j.record.Token, string(st.AppendToken(nil, d.prefix))) {
			t.Errorf("%s: %+v is not the record of %q", j.rel, j.record, text)
		}
	}
	text := make([]byte, 100)
	n, err := pipe.Read(text)
	must(err)
	if string(text[:n]) != "for another" {
		t.Errorf("the pipe still contains %q", text[:n])
	}
}

// TestSmallFilesInAnotherState: a file is recorded with others only if its state is that
// in which the walk found it.
func TestSmallFilesInAnotherState(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	d, err := New(root, catalog.NewMem(nil), "set", Options{BaseURI: "https://example.org/"})
	if err != nil {
		t.Fatal(err)
	}
	tree, err := d.acquire()
	if err != nil {
		t.Fatal(err)
	}
	defer tree.release()
	other := map[string]func(*filestat.Stat){
		"same": func(*filestat.Stat) {},
		"time": func(st *filestat.Stat) { st.Mtime++ }, "change": func(st *filestat.Stat) { st.Ctime-- },
		"file": func(st *filestat.Stat) { st.Ino++ }, "disk": func(st *filestat.Stat) { st.Dev++ }, "size": func(st *filestat.Stat) { st.Size++ },
	}
	var jobs []job
	for rel, change := range other {
		if err := os.WriteFile(filepath.Join(root, rel), []byte("text"), 0o644); err != nil {
			t.Fatal(err)
		}
		st, err := tree.lstat(rel)
		if err != nil {
			t.Fatal(err)
		}
		for st.Fresh(time.Now()) {
			time.Sleep(time.Millisecond)
		}
		change(&st)
		jobs = append(jobs, job{uri: d.URI(rel), rel: rel, st: st})
	}
	if err := newHasher(newScan(d, tree)).readSmall(context.Background(), jobs); err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		if recorded := j.outcome == readWhole; recorded != (j.rel == "same") {
			t.Errorf("another %s: recorded = %v", j.rel, recorded)
		}
	}
}

// TestCollected: a catalog receives the results of all hashers in the order of URIs.
func TestCollected(t *testing.T) {
	t.Parallel()
	var c collected
	for range 2 {
		for _, first := range []int{30, 10, 20, 0} {
			start := len(c.updates)
			for i := range 10 {
				c.updates = append(c.updates, catalog.Update{Record: catalog.Record{URI: fmt.Sprintf("%02d", first+i)}})
			}
			c.runs = append(c.runs, run{start, len(c.updates)})
		}
		all := c.take()
		if len(all) != 40 || !slices.IsSortedFunc(all, func(a, b catalog.Update) int { return strings.Compare(a.URI, b.URI) }) {
			t.Errorf("%d updates, want 40, sorted", len(all))
		}
		if len(c.updates) != 0 || len(c.runs) != 0 {
			t.Error("updates remain")
		}
	}
}
