// Package lastrun records the result of the last run of a mirror beside its state, for
// programs that show it while no process works on the mirror.
package lastrun

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"lockstep/internal/note"
)

// Name is the name of the note that records the last run: of a file in the state directory
// of a mirror, or of a document in its journal.
const Name = "last-run.json"

// A Result says how a run ended.
type Result string

// The results of runs.
const (
	InStep      Result = "in step"
	Incomplete  Result = "incomplete" // some resources failed, or a document could not be read
	Refused     Result = "refused"    // for safety
	Failed      Result = "failed"
	Interrupted Result = "interrupted"
)

// A Run is the last run of a mirror, and what is known of those before. Times are those of
// this machine's clock. Fields may be added, but not renamed or removed.
type Run struct {
	Source  string    `json:"source"`  // without user and password
	Command string    `json:"command"` // "sync", "follow", "audit" (with repairs), or the function of package mirror
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended"`
	Result  Result    `json:"result"`
	Error   string    `json:"error,omitempty"`
	Hint    string    `json:"hint,omitempty"` // what to do about the error

	LastSuccess  time.Time `json:"last_success,omitzero"`     // when the mirror was last known to be in step
	FailingSince time.Time `json:"failing_since,omitzero"`    // when the first of the failed runs ended
	Attempts     int       `json:"failed_attempts,omitempty"` // runs in a row that failed
	NotBefore    time.Time `json:"not_before,omitzero"`       // the Source wishes not to be asked before

	SyncedUntil time.Time `json:"synced_until,omitzero"` // by the Source's clock
	At          time.Time `json:"at,omitzero"`           // the past instant to which the mirror was restored

	Created   int64 `json:"created"`
	Updated   int64 `json:"updated"`
	Deleted   int64 `json:"deleted"`
	Unchanged int64 `json:"unchanged"`
	Failed    int64 `json:"failed"`
	Refused   int64 `json:"refused"`
	Bytes     int64 `json:"bytes"`
	Requests  int64 `json:"requests"`

	Sets    []Set `json:"sets,omitempty"`     // the sets that the run reached; absent in records of earlier versions
	SetsCut bool  `json:"sets_cut,omitempty"` // they were more than maxSets: Sets has only those with an error

	Unproven []Unproven `json:"unproven,omitempty"` // why the mirror is not known to be complete, besides failures; the first of them
}

// maxSets is how many sets are recorded at most: a file written each minute that grows with them.
const maxSets = 1000

// A Set says how the last run ended for one set.
type Set struct {
	URI   string `json:"uri"`
	Error string `json:"error,omitempty"` // why it is not in step
}

// Unproven is one reason why a mirror is not known to be complete.
type Unproven struct {
	Set    string `json:"set"`    // its URI
	Reason string `json:"reason"` // and what closes it, as a sentence
}

// Read returns the last run that a note records; ok is false if there is none.
func Read(in note.Note) (r Run, ok bool, err error) {
	text, err := in.Read()
	if err == nil && text == nil {
		return r, false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return Run{}, false, fmt.Errorf("read the last run: %w", err)
	}
	return r, true, nil
}

// Record records a run in a note, with what is known of earlier runs: of one that
// did not succeed, since when. A record that cannot be read is replaced.
func Record(in note.Note, r Run) error {
	before, _, _ := Read(in) // of a damaged one nothing is known
	r.settle(&before)
	if len(r.Sets) > maxSets {
		r.SetsCut = true
		r.Sets = slices.DeleteFunc(slices.Clone(r.Sets), func(s Set) bool { return s.Error == "" })
		r.Sets = r.Sets[:min(len(r.Sets), maxSets)]
	}
	r.Unproven = r.Unproven[:min(len(r.Unproven), maxSets)]
	text, err := json.Marshal(r)
	if err == nil {
		err = in.Write(append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("record the last run: %w", err)
	}
	return nil
}

// settle fills in what follows from the run before.
func (r *Run) settle(before *Run) {
	switch r.Result {
	case InStep:
		if r.LastSuccess.IsZero() {
			r.LastSuccess = r.Ended
		}
		return
	case Interrupted: // says nothing about the Source
		r.FailingSince, r.Attempts = before.FailingSince, before.Attempts
	default:
		if r.FailingSince.IsZero() {
			r.FailingSince = before.FailingSince
		}
		if r.FailingSince.IsZero() {
			r.FailingSince = r.Ended
		}
		if r.Attempts == 0 {
			r.Attempts = before.Attempts + 1
		}
	}
	if r.LastSuccess.IsZero() {
		r.LastSuccess = before.LastSuccess
	}
}
