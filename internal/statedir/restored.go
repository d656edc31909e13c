package statedir

import (
	"fmt"
	"time"
)

// Notes that say, until the first publication, that the history of changes restarts, so that
// Destinations compare everything.
const (
	// restoredName: the state was restored from a copy, and what was published after the copy was
	// made is not in it.
	restoredName = "restored.json"

	// lostName: the documents that were published last are not in the local directory of the state.
	lostName = "documents-lost.json"
)

// A Restored says that a state was restored from a copy.
type Restored struct {
	Saved    time.Time `json:"saved"` // when the copy was made
	Restored time.Time `json:"restored"`
}

// MarkRestored records that the state with the notes was restored.
func MarkRestored(notes Notes, r Restored) error { return WriteJSON(notes, restoredName, r) }

// marks returns those of the names under which there is a note.
func marks(notes Notes, names ...string) (found []string, err error) {
	for _, name := range names {
		content, err := notes.Load(name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", notes.Place(name), err)
		}
		if content != nil {
			found = append(found, name)
		}
	}
	return found, nil
}
