package stateplace

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockstep/storage/postgres"
)

// An owner is the right of this process, and no other, to write to a database.
type owner interface {
	Lost() <-chan struct{} // closed when the right has ended
	Err() error            // says why
	Check(ctx context.Context) error
	Since() time.Time
	Close() error
}

// CheckOwner asks the database whether it still belongs to this process, and fails if it does not, or
// does not answer.
func (d *Database) CheckOwner(ctx context.Context) error { return d.owner.Check(ctx) }

// MayWrite returns why this process must not write to places outside of the database any more that
// belong to the state, or nil. It does not ask the database.
func (d *Database) MayWrite() error { return d.owner.Err() }

// Resign gives the database back before it is closed: nothing is written any more.
func (d *Database) Resign() error { return d.owner.Close() }

// OwnedSince returns since when the database belongs to this process, by the clock of its server.
func (d *Database) OwnedSince() time.Time { return d.owner.Since() }

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
	if errors.Is(e.Err, postgres.ErrPromoted) {
		return promotedHint
	}
	return "one process at a time uses a state: stop the other one, or give this one a --state of its own"
}

// promotedHint is the remedy of [postgres.ErrPromoted].
const promotedHint = "start it again: it continues from what the state is now"

// IsLost reports whether an error says that the database belongs to another process, or may.
func IsLost(err error) bool { return errors.Is(err, postgres.ErrLost) }

// IsOutage reports whether an operation failed because the database cannot be used by this process at
// present: a later attempt, perhaps by another process, can succeed.
func (d *Database) IsOutage(err error) bool { return d.owner != nil && postgres.IsOutage(err) }

// Cause returns the LostError with which ctx has ended, if it has; otherwise err.
func Cause(ctx context.Context, err error) error {
	if lost, ok := errors.AsType[*LostError](context.Cause(ctx)); ok {
		return lost
	}
	return err
}
