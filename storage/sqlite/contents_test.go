package sqlite_test

import (
	"path/filepath"
	"testing"

	"lockstep/intake"
	"lockstep/intake/contentstest"
	"lockstep/storage/sqlite"
)

func TestContents(t *testing.T) {
	t.Parallel()
	contentstest.Run(t, func(t *testing.T) intake.Contents {
		return open(t, sqlite.Options{}, filepath.Join(t.TempDir(), "state.db")).Contents()
	})
}

func TestContentsReopen(t *testing.T) {
	t.Parallel()
	open, shut := again(t, filepath.Join(t.TempDir(), "state.db"))
	contentstest.RunReopen(t, func() intake.Contents { return open().Contents() }, shut)
}
