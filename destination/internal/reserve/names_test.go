package reserve_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"lockstep/blob"
	"lockstep/destination/filename"
	"lockstep/destination/internal/reserve"
)

// TestFresh gives names in a directory that does not exist: they are given without asking
// the file system, until it is to be asked again; names elsewhere are not.
func TestFresh(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	d, err := blob.NewDir(root, blob.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filename.New(filename.Options{Origin: "http://h"})
	if err != nil {
		t.Fatal(err)
	}
	n := reserve.New(paths, d)
	give := func(dir string, i int) string {
		t.Helper()
		path, err := n.Give(context.Background(), fmt.Sprintf("http://h/%s/%d", dir, i))
		if err != nil {
			t.Logf("%s/%d: %v", dir, i, err)
		}
		return path
	}
	put := func(name string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	put("old/3")
	for i := range 3 {
		give("new/below", i)
		give("old", i)
	}
	put("new/below/3")
	if got := give("new/below", 3); got != "new/below/3" {
		t.Errorf("in a directory that did not exist, the path is %q", got)
	}
	if got := give("old", 3); got != "" {
		t.Errorf("in a directory that existed, the path of a file that exists is %q", got)
	}
	n.Release("new/below/3")
	n.Recheck()
	if got := give("new/below", 3); got != "" {
		t.Errorf("the path of a file that exists is %q when the file system is to be asked again", got)
	}
}
