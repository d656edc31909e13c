package sqlite_test

import (
	"path/filepath"
	"testing"

	"lockstep/memento"
	"lockstep/memento/mementotest"
	"lockstep/storage/sqlite"
)

func TestVersions(t *testing.T) {
	t.Parallel()
	mementotest.Run(t, func(t *testing.T) memento.Store {
		return open(t, sqlite.Options{}, filepath.Join(t.TempDir(), "state.db")).Versions()
	})
}
