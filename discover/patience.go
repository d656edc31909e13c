package discover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockstep/internal/fetch"
)

// setTime is how long a document that leads to a set may take to arrive while there are other
// sets, which one that arrives very slowly must not delay. It is a variable for tests.
var setTime = fetch.MaxRetryAfter + time.Minute

// A lateError is the cause of a context that ended after setTime.
type lateError struct {
	uri string
	d   time.Duration
}

func (e *lateError) Error() string {
	return fmt.Sprintf("read %s: it has not arrived completely within %v, and other sets are waiting", fetch.Printable(e.uri), e.d)
}

// withinSetTime calls do with a context that ends after setTime, or with ctx if alone says that no
// other set would have to wait.
func withinSetTime(ctx context.Context, uri string, alone bool, do func(context.Context) error) error {
	if alone {
		return do(ctx)
	}
	late := &lateError{uri, setTime}
	within, cancel := context.WithTimeoutCause(ctx, setTime, late)
	defer cancel()
	if err := do(within); err == nil || !errors.Is(context.Cause(within), late) {
		return err
	}
	return late
}
