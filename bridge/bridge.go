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
	// Dir is where harvested data is stored, in files whose names begin with
	// "harvest". It is created when there is something to store. Without it every
	// Origin harvests everything again, in memory, and discards it; a harvest of
	// very many records then fails with destination.ErrScratch.
	Dir string

	// FullInterval is the maximum time between harvests that read everything
	// (AP-HV-12); default 30 days, negative never.
	FullInterval time.Duration

	// AllowHosts are hosts besides the feed's own that may serve documents of the
	// feed; "*" allows any.
	AllowHosts []string

	Logger *slog.Logger // default: discards
}

// A Bridge opens Origins. It is safe for concurrent use, but only one Origin may
// be open on a Dir at a time.
type Bridge struct {
	client *fetch.Client
	opts   Options
}

// New returns a Bridge that sends its requests through c.
func New(c *fetch.Client, o Options) *Bridge {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Bridge{client: c, opts: o}
}

// Open opens the Origin of f. It has the type of destination.Options.Bridge.
func (b *Bridge) Open(ctx context.Context, f discover.Foreign, o destination.BridgeOptions) (destination.Origin, error) {
	open := openFeed
	switch f.Kind {
	case discover.AtomPMH:
	case discover.OAIPMH:
		open = openRepository
	default:
		return nil, fmt.Errorf("harvest %s: unknown protocol %s", fetch.Printable(f.URI), fetch.Printable(f.Kind))
	}
	m, err := b.remember(ctx, f, o.ReadOnly)
	if err != nil {
		return nil, err
	}
	h, err := open(b, m, f, o)
	if err != nil {
		_ = m.close() // err is more important
		return nil, err
	}
	return &origin{memory: m, harvester: h}, nil
}

// Maps returns rules for the file names of f's resources in a mirror, where
// these differ from the names derived from their URIs.
func Maps(f discover.Foreign) []filename.Map {
	base, prefix, _, err := oaipmh.ParseAddress(f.URI)
	if f.Kind != discover.OAIPMH || err != nil { // Open reports the error
		return nil
	}
	return repositoryMaps(base, prefix)
}
