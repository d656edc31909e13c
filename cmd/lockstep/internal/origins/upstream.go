package origins

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"lockstep/aggregator"
	"lockstep/catalog"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/network"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
	"lockstep/discover"
	"lockstep/intake"
	"lockstep/internal/mirrordir"
	"lockstep/source"
)

// Upstreams is what sets need that republish another Source.
type Upstreams struct {
	BaseURL  string // of the Source here
	Network  *network.Options
	Watching bool // the Source continues after the first publication
	IO       term.IO
	OnClose  func(func()) // takes functions that close what was opened
}

// mirrorsDir is where mirrors of upstreams are stored, below the state directory, unless a
// set names another place.
const mirrorsDir = "upstreams"

// openUpstream opens another Source whose resources are republished.
func (o *Opener) openUpstream(s *Set) (Origin, error) {
	c := s.Config
	if err := discover.Check(c.Origin.WithoutUser()); err != nil {
		return nil, err
	}
	base, err := source.BaseURL(o.Upstreams.BaseURL)
	if err != nil {
		return nil, err
	}
	ao := aggregator.Options{
		Name: s.Name, Address: c.Origin.WithoutUser(), URI: s.URI, BaseURL: base, InPlace: c.InPlace(), Chain: c.Via == config.ViaChain,
		Collection: c.Collection, Reserved: source.Reserved, AllowEmpty: o.AllowEmpty, Continue: o.Upstreams.Watching,
		Interval: s.ScanInterval, TempDir: o.State, OnEvent: s.OnEvent,
	}
	if c.Poll != nil {
		ao.Follow.Poll = time.Duration(*c.Poll)
	}
	u, err := aggregator.New(s.Catalog, s.List, ao, func(deliver func(context.Context, []destination.Change) error) (aggregator.Mirror, error) {
		return o.openMirror(s, deliver)
	})
	if err != nil {
		return nil, err
	}
	opened := upstream{Upstream: u}
	if c.InPlace() {
		client, err := o.Client(c.Origin.Place)
		if err != nil {
			return nil, err
		}
		opened.web = intake.NewWeb(client)
	}
	return opened, nil
}

// openMirror opens the mirror of the upstream of a set.
func (o *Opener) openMirror(s *Set, deliver func(context.Context, []destination.Change) error) (m aggregator.Mirror, err error) {
	c := s.Config
	do := destination.Options{
		Include: c.Include, Exclude: c.Exclude, Types: c.Types, AllowHosts: c.AllowHosts, MaxDelete: int(c.MaxDelete),
		Deliver: deliver, Logger: o.Log,
	}
	state := filepath.Join(o.State, mirrorsDir, s.Name)
	if c.InPlace() {
		return o.openSink(s, state, do)
	}
	sel := &mirror.Selection{Source: c.Origin.Place, Dest: state}
	switch {
	case mirror.IsBucket(c.Store):
		sel.Dest, sel.State = c.Store, state
	case c.Store != "":
		sel.Dest = c.Store
	}
	do.Dest = sel.Dest
	r, err := mirror.Open(sel, o.Upstreams.Network, do, false, o.Upstreams.IO)
	if err != nil {
		return m, fmt.Errorf("open the mirror of %s: %w", c.Origin.WithoutUser(), mirror.Explain(err, sel.Dest))
	}
	o.Upstreams.OnClose(r.Close)
	return aggregator.Mirror{Store: r.State.Store, Journal: r.State.Journal, Destination: r.Dest}, nil
}

// openSink opens the memory in the directory state of an upstream whose resources are
// verified and not stored.
func (o *Opener) openSink(s *Set, state string, do destination.Options) (m aggregator.Mirror, err error) {
	client, err := o.Client(s.Config.Origin.Place)
	if err != nil {
		return m, err
	}
	d, err := mirrordir.Open(state)
	if err != nil {
		return m, err
	}
	o.Upstreams.OnClose(func() {
		if err := d.Close(); err != nil {
			o.Log.Warn("close the memory of an upstream", slog.Any("err", err))
		}
	})
	do.Versions, do.Dest = d.Versions, state
	m = aggregator.Mirror{Store: destination.NewSinkStore(discard{}, destination.SinkOptions{Dir: state}), Journal: d.Journal}
	m.Destination, err = destination.New(m.Store, m.Journal, client, do)
	return m, err
}

// discard is a Sink that keeps nothing.
type discard struct{}

// Apply implements [destination.Sink].
func (discard) Apply(context.Context, []destination.Delivery) error { return nil }

// An upstream opens the resources of a set.
type upstream struct {
	*aggregator.Upstream
	web *intake.Web // opens those that are not stored here; nil: all are
}

// Bitstream implements [Bitstreams].
func (u upstream) Bitstream(ctx context.Context, r *catalog.Record) (io.ReadCloser, error) {
	if u.web != nil {
		return u.web.Bitstream(ctx, r)
	}
	b, err := u.Upstream.Bitstream(ctx, r)
	if errors.Is(err, aggregator.ErrReplaced) {
		err = fmt.Errorf("%w: %w", source.ErrReplaced, err)
	}
	return b, err
}
