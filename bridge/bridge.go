package bridge

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"lockstep/destination"
	"lockstep/destination/filename"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/oaipmh"
)

// Options configures a [Bridge]. The zero value is ready to use.
type Options struct {
	// Dir is where what was harvested is remembered, in files whose names begin
	// with "harvest". It is made when there is something to remember. Without it
	// everything is harvested anew for each Origin, in memory, and forgotten; of
	// very many records that is refused with destination.ErrScratch.
	Dir string

	// FullInterval is how long after the last one a harvest reads everything
	// (AP-HV-12); default 30 days, negative never.
	FullInterval time.Duration

	// AllowHosts are hosts that may have documents of a feed besides its own; "*"
	// is any.
	AllowHosts []string

	Logger *slog.Logger // default: discards
}

// A Bridge opens Origins. It is safe for concurrent use, but only one Origin may
// be open on a Dir at a time.
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

// Open opens the Origin of f: it is what destination.Options.Bridge wants.
func (b *Bridge) Open(ctx context.Context, f discover.Foreign, o destination.BridgeOptions) (destination.Origin, error) {
	open := openFeed
	switch f.Kind {
	case discover.AtomPMH:
	case discover.OAIPMH:
		open = openRepository
	default:
		return nil, fmt.Errorf("harvest %s: %s is nothing we know how to", fetch.Printable(f.URI), fetch.Printable(f.Kind))
	}
	m, err := b.remember(ctx, f, o.ReadOnly)
	if err != nil {
		return nil, err
	}
	h, err := open(b, m, f, o)
	if err != nil {
		_ = m.close() // err says more
		return nil, err
	}
	return &origin{memory: m, harvester: h}, nil
}

// Maps says what files the resources of f get in a mirror, where that is another
// than their URIs tell.
func Maps(f discover.Foreign) []filename.Map {
	base, prefix, _, err := oaipmh.ParseAddress(f.URI)
	if f.Kind != discover.OAIPMH || err != nil { // who opens it is told
		return nil
	}
	return repositoryMaps(base, prefix)
}
