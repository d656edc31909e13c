package treewatch_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"lockstep/intake/internal/pathname"
	"lockstep/intake/internal/treewatch"
)

// recorded are the events of a tree.
type recorded struct {
	mu      sync.Mutex // guards the following fields
	touched []string
	renamed []string
}

func (r *recorded) Touched(rel string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.touched = append(r.touched, rel)
}

func (r *recorded) Renamed(rel string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.renamed = append(r.renamed, rel)
}

func (r *recorded) Created(rel string) { r.Touched(rel) }
func (r *recorded) Everything()        {}
func (r *recorded) Lost()              {}

// comes waits until one of the paths, which are guarded by r.mu, is rel.
func (r *recorded) comes(t *testing.T, paths *[]string, rel string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		r.mu.Lock()
		found := slices.Contains(*paths, rel)
		r.mu.Unlock()
		if found {
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t.Fatalf("nothing is reported of %s; touched are %q, renamed are %q", rel, r.touched, r.renamed)
}

// TestMovedWhileAllIsScanned: a directory that is moved before a full scan enters it, and
// that the scan finds at its new path, is watched there; also if a symbolic link continues to
// lead there from the old path.
func TestMovedWhileAllIsScanned(t *testing.T) {
	t.Parallel()
	for _, link := range []bool{false, true} {
		t.Run(fmt.Sprintf("link=%t", link), func(t *testing.T) {
			t.Parallel()
			testMovedWhileAllIsScanned(t, link)
		})
	}
}

func testMovedWhileAllIsScanned(t *testing.T, link bool) {
	root := t.TempDir()
	at := func(rel string) string { return filepath.Join(root, filepath.FromSlash(rel)) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(at("old/below"), 0o755))
	filter, err := pathname.NewFilter(nil, nil)
	must(err)
	var events recorded
	var w treewatch.Tree
	w.Open(root, &events, filter)
	defer w.Close()
	for _, rel := range []string{".", "old", "old/below"} {
		w.Add(rel)
	}
	w.Begin()
	w.Add(".")
	must(os.Rename(at("old"), at("new")))
	if link {
		must(os.Symlink("new", at("old")))
	}
	for _, rel := range []string{"new", "new/below"} {
		w.Add(rel)
	}
	w.End()
	events.comes(t, &events.renamed, "old")
	events.comes(t, &events.touched, "new")
	w.Forget([]string{"old"})
	must(os.WriteFile(at("new/below/file"), nil, 0o644))
	events.comes(t, &events.touched, "new/below/file")
}
