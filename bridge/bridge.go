package bridge

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"lockstep/destination"
	"lockstep/discover"
	"lockstep/internal/fetch"
)

// Options configures a [Bridge]. The zero value is ready to use.
type Options struct {
	// Dir is where what was harvested is remembered, in files whose names begin
	// with "harvest"; "" is in memory, for as long as the Origin is open.
	Dir string

	// Scratch is for files that go with the run; default the system's.
	Scratch string

	// FullEvery is how long after the last one a harvest reads everything
	// (AP-HV-12); default 30 days, negative never.
	FullEvery time.Duration

	Logger *slog.Logger // default: discards
}

// A Bridge opens Origins.
type Bridge struct {
	client *fetch.Client
	opts   Options
}

// New returns a Bridge that asks through c.
func New(c *fetch.Client, o Options) *Bridge {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Bridge{client: c, opts: o}
}

// Open opens the Origin of f: it is what destination.Options.Bridge wants. Only
// one may be open on a Dir at a time.
func (b *Bridge) Open(_ context.Context, f discover.Foreign, _ destination.BridgeOptions) (destination.Origin, error) {
	return nil, fmt.Errorf("harvest %s: %s is not known", fetch.Printable(f.URI), fetch.Printable(f.Kind))
}
