// Package hiddenfiles remembers for each set of a Source whether files and directories whose
// names begin with a dot are published. New sets leave them out; sets of earlier versions of
// the program, which published them, continue to do so until the user decides.
package hiddenfiles

import (
	"sync"

	"lockstep/internal/statedir"
)

// recordNote is the record, a note of the state: a JSON object of names of sets and
// whether they publish hidden files.
const recordNote = "hidden.json"

// A Record is that of one state. It is safe for concurrent use.
type Record struct {
	mu    sync.Mutex // held while the note is read and written
	Notes statedir.Notes

	// Undecided says that earlier versions, which knew no choice, may have published the sets.
	Undecided bool
}

// Published reports whether a set publishes hidden files: as given says, which may be nil;
// else as it did before; else, if there are resources of the set already, as earlier versions
// did, which knew no choice. The answer is recorded, unless it is that of an earlier version.
func (r *Record) Published(set string, given *bool, isKnown func() (bool, error)) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	choices := map[string]bool{}
	if err := statedir.ReadJSON(r.Notes, recordNote, &choices); err != nil {
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
	case r.Undecided:
		known, err := isKnown()
		if err != nil || known {
			return true, err
		}
	}
	choices[set] = choice
	return choice, statedir.WriteJSON(r.Notes, recordNote, choices)
}
