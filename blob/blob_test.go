package blob_test

import (
	"path/filepath"
	"testing"

	"lockstep/blob"
	"lockstep/blob/blobtest"
)

func TestMem(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, func(t *testing.T) blob.Store { return new(blob.Mem) })
}

func TestDir(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, func(t *testing.T) blob.Store { return newDir(t, filepath.Join(t.TempDir(), "root"), blob.DirOptions{}) })
}

func TestDirOptions(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, func(t *testing.T) blob.Store {
		return newDir(t, t.TempDir(), blob.DirOptions{Tmp: "shared/deep/tmp"})
	})
}

func newDir(t testing.TB, root string, o blob.DirOptions) *blob.Dir {
	t.Helper()
	d, err := blob.NewDir(root, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}
