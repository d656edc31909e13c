package blob_test

import (
	"io"
	"path/filepath"
	"testing"

	"lockstep/blob"
)

// TestScratch: written bytes are read back, and no file is left.
func TestScratch(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	d, err := blob.NewDir(root, blob.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	var files []blob.Scratch
	for range 2 {
		s, err := d.Scratch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, s)
	}
	for i, s := range files {
		for _, text := range []string{"something longer", "abc"} {
			if err := s.Restart(); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(s, text); err != nil {
				t.Fatal(err)
			}
		}
		got, err := io.ReadAll(io.NewSectionReader(s, 0, 100))
		if string(got) != "abc" || err != nil {
			t.Errorf("file %d holds %q, %v", i, got, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(root, ".lockstep/tmp/*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}
