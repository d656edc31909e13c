// Package hiddenfiles remembers for each set of a Source whether files and directories whose
// names begin with a dot are published. New sets leave them out; sets of earlier versions of
// the program, which published them, continue to do so until the user decides.
package hiddenfiles

import (
	"path/filepath"
	"sync"

	"lockstep/internal/statedir"
)

// recordFile is the record in the state directory: a JSON object of names of sets and
// whether they publish hidden files.
const recordFile = "hidden.json"

// A Record is that of one state directory. It is safe for concurrent use.
type Record struct {
	mu sync.Mutex // held while the file is read and written
	// State is the state directory.
	State string
}

// Published reports whether a set publishes hidden files: as given says, which may be nil;
// else as it did before; else, if there are resources of the set already, as earlier versions
// did, which knew no choice. The answer is recorded, unless it is that of an earlier version.
func (r *Record) Published(set string, given *bool, isKnown func() (bool, error)) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	path := filepath.Join(r.State, recordFile)
	choices := map[string]bool{}
	if err := statedir.ReadJSON(path, &choices); err != nil {
		return false, err
	}
	choice, chosen := choices[set]
	switch {
	case given != nil && chosen && choice == *given:
		return choice, nil
	case given != nil:
		choice = *given
	case chosen:
		return choice, nil
	default:
		known, err := isKnown()
		if err != nil || known {
			return true, err
		}
	}
	choices[set] = choice
	return choice, statedir.WriteJSON(path, choices)
}
