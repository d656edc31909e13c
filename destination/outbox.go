package destination

import (
	"context"
	"fmt"

	"lockstep/destination/internal/outbox"
	"lockstep/destination/journal"
)

// A DeliveryError reports that [Options.Deliver] did not take a batch. The run
// stopped; what was applied is kept, and handed over again by the next run.
type DeliveryError struct{ Err error }

func (e *DeliveryError) Error() string { return fmt.Sprintf("hand over changes: %v", e.Err) }

// Unwrap returns what Deliver said.
func (e *DeliveryError) Unwrap() error { return e.Err }

// newOutbox returns an outbox in j that calls deliver, if not nil.
func newOutbox(j journal.Journal, deliver func(context.Context, []Change) (int, error)) *outbox.Box[Change] {
	return outbox.New(j, deliver, func(c *Change) any { return c.line() })
}
