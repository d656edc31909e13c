package treewatch

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"lockstep/intake/internal/pathname"
)

// heard are the paths that a tree reports as touched.
type heard chan string

func (h heard) Touched(rel string) { h <- rel }
func (h heard) Created(rel string) { h <- rel }
func (h heard) Renamed(string)     {}
func (h heard) Everything()        {}
func (h heard) Lost()              {}

// comes waits until rel is reported.
func (h heard) comes(t *testing.T, rel string) {
	t.Helper()
	for end := time.After(time.Minute); ; {
		select {
		case got := <-h:
			if got == rel {
				return
			}
		case <-end:
			t.Fatalf("nothing is reported of %s", rel)
		}
	}
}

// watch returns a tree that watches the directories, which it makes, and what it reports.
func watch(t *testing.T, root string, rels ...string) (*Tree, heard) {
	t.Helper()
	filter, err := pathname.NewFilter(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var w Tree
	h := make(heard, 1000)
	w.Open(root, h, filter)
	t.Cleanup(w.Close)
	w.Begin()
	for _, rel := range rels {
		if err := os.MkdirAll(filepath.Join(root, rel), 0o755); err != nil {
			t.Fatal(err)
		}
		w.Add(rel)
	}
	w.End()
	return &w, h
}

// TestFull: a full scan that begins when no more watches are available does not end those that
// there are. That on a directory which was replaced is used for the new one.
func TestFull(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir := filepath.Join(root, "dir")
	w, h := watch(t, root, ".", "dir")
	w.full = true
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	scan := func() {
		w.Begin()
		for _, rel := range []string{".", "dir", "new"} {
			w.Add(rel)
		}
		w.End()
	}
	must(os.Mkdir(filepath.Join(root, "new"), 0o755))
	scan()
	must(os.WriteFile(filepath.Join(dir, "file"), nil, 0o644))
	h.comes(t, "dir/file")
	must(os.Rename(dir, filepath.Join(t.TempDir(), "old")))
	must(os.Mkdir(dir, 0o755))
	scan()
	must(os.WriteFile(filepath.Join(dir, "second"), nil, 0o644))
	h.comes(t, "dir/second")
	if _, ok := w.watched["new"]; ok {
		t.Error("a new directory is watched, although no more watches are available")
	}
}
