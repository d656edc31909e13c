package treewatch

import (
	"os"
	"path/filepath"
	"testing"
)

// TestSwappedWhileAdded: directories are swapped between the two calls of the system with which
// Add looks at one and watches it. Their watches can be ended nevertheless.
func TestSwappedWhileAdded(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	at := func(rel string) string { return filepath.Join(root, rel) }
	w, h := watch(t, root, ".", "a", "a/below", "b", "b/below")
	for _, move := range [][2]string{{"a", "tmp"}, {"b", "a"}, {"tmp", "b"}} {
		if err := os.Rename(at(move[0]), at(move[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.fs.Add(at("a/below")); err != nil { // as Add does, which has looked before
		t.Fatal(err)
	}
	w.Forget([]string{"a", "b"})
	for _, rel := range []string{"a", "a/below", "b", "b/below"} {
		w.Add(rel)
	}
	for _, rel := range []string{"a/below/file", "b/below/file"} {
		if err := os.WriteFile(at(rel), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		h.comes(t, rel)
	}
}
