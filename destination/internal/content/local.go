package content

import (
	"context"
	"errors"

	"lockstep/blob"
)

// A LocalError is an error of the store: the fault is on this side, not at the
// Source.
type LocalError struct{ Err error }

func (e *LocalError) Error() string { return e.Err.Error() }
func (e *LocalError) Unwrap() error { return e.Err }

// IsLocal reports whether err comes from the store, not from the Source.
func IsLocal(err error) bool {
	_, local := errors.AsType[*LocalError](err)
	_, commit := errors.AsType[*blob.CommitError](err)
	return local || commit
}

// IsCanceled reports whether err says only that the caller canceled the run, whose
// context is ctx. Without a look at it, a connection that timed out would count, too.
func IsCanceled(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Cause(ctx)))
}
