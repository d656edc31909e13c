package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"lockstep/internal/private"
)

// restoredName is the file in a state directory that was restored from a copy, until the first
// publication: what was published after the copy was made is not in the state, so that the
// history of changes restarts, and Destinations compare everything.
const restoredName = "restored.json"

// A Restored says that a state directory was restored from a copy.
type Restored struct {
	Saved    time.Time `json:"saved"` // when the copy was made
	Restored time.Time `json:"restored"`
}

// MarkRestored records that the state directory was restored.
func MarkRestored(state string, r Restored) error {
	return WriteJSON(filepath.Join(state, restoredName), r)
}

// markOf returns the path of the mark of a restored state; "" if it was not restored.
func markOf(state string) string {
	path := filepath.Join(state, restoredName)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return path
}

// unmark removes the mark.
func unmark(path string) error {
	err := os.Remove(path)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = private.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("record that the restored state was published: %w", err)
	}
	return nil
}
