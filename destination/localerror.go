package destination

import (
	"errors"

	"lockstep/blob"
)

// A localError is an error of the store: the fault is on this side, not at the
// Source.
type localError struct{ err error }

func (e *localError) Error() string { return e.err.Error() }
func (e *localError) Unwrap() error { return e.err }

// isLocal reports whether err comes from the store, not from the Source.
func isLocal(err error) bool {
	var local *localError
	var commit *blob.CommitError
	return errors.As(err, &local) || errors.As(err, &commit)
}

