package stateplace

import (
	"context"
	"errors"
	"fmt"
)

// An owner is the right of this process, and no other, to write to a database.
type owner interface {
	Lost() <-chan struct{} // closed when the right has ended
	Err() error            // says why
	Close() error
}

// WhileOwned returns a context that ends when this process is no longer the owner of the database:
// then another one writes to it. Its cause says so. stop releases what it needs.
func (d *Database) WhileOwned(ctx context.Context) (_ context.Context, stop func()) {
	if d.owner == nil {
		return ctx, func() {}
	}
	owned, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-d.owner.Lost():
			cancel(&LostError{Name: d.State.Name, Err: d.owner.Err()})
		case <-owned.Done():
		}
	}()
	return owned, func() { cancel(nil) }
}

// A LostError reports that another process has become the owner of the database.
type LostError struct {
	Name string // of the database
	Err  error
}

func (e *LostError) Error() string {
	return fmt.Sprintf("the state in %s is no longer that of this process: %v", e.Name, e.Err)
}

// Unwrap returns the reason.
func (e *LostError) Unwrap() error { return e.Err }

// Hint returns what to do.
func (e *LostError) Hint() string {
	return "one process at a time uses a state: stop the other one, or give this one a --state of its own"
}

// Cause returns the LostError with which ctx has ended, if it has; otherwise err.
func Cause(ctx context.Context, err error) error {
	if lost, ok := errors.AsType[*LostError](context.Cause(ctx)); ok {
		return lost
	}
	return err
}
