package destination

import (
	"context"

	"lockstep/destination/internal/outbox"
	"lockstep/destination/journal"
	"lockstep/destination/report"
)

// newOutbox returns an outbox in j that calls deliver, if not nil.
func newOutbox(j journal.Journal, deliver func(context.Context, []Change) (int, error)) *outbox.Box[Change] {
	return outbox.New(j, deliver, func(c *Change) any { return report.Line(c) })
}
