package origins

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lockstep/aggregator"
	"lockstep/catalog"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/network"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
	"lockstep/destination/journal"
	"lockstep/discover"
	"lockstep/intake"
	"lockstep/internal/mirrordir"
	"lockstep/internal/statedir"
	"lockstep/source"
	"lockstep/storage/sqlite"
)

// Upstreams is what sets need that republish another Source.
type Upstreams struct {
	BaseURL  string // of the Source here
	Network  *network.Options
	Watching bool // the Source continues after the first publication
	Static   bool // a web server serves the resources
	Several  bool // upstreams are followed
	IO       term.IO
	OnClose  func(func()) // takes functions that close what was opened

	Memory    *Memory           // of the mirrors; nil: it is in their directories
	Fleet     *aggregator.Fleet // of the process
	Callbacks *Callbacks        // serves what hubs of upstreams call; nil: no hub is used

	opened []subscriber // of the set that is being opened
}

// failingMost is the most to which the time between attempts to read one of several
// upstreams grows while it fails.
const failingMost = 15 * time.Minute

// idleFor is after which time without use the databases of one of several mirrors are
// closed: each open one has files and memory.
const idleFor = 2 * time.Second

// connectionIdleFor is how long connections to one of several upstreams stay open
// without requests. Each has buffers, and there are some of each upstream after a run.
const connectionIdleFor = 2 * time.Second

// RequestsMost is the most to which the number of concurrent requests to one host grows
// if there are several upstreams: some 16 are read for the first time together, each by twice as
// many goroutines.
const RequestsMost = 64

// cacheOfMirror is the size of the caches of the database of one of several mirrors, in KiB.
// They are no part of Go's heap: no memory limit applies to them.
const cacheOfMirror = 2 << 10

// database returns the options of the databases of mirrors.
func (u *Upstreams) database() sqlite.Options {
	if u.Several {
		return sqlite.Options{Idle: idleFor, Cache: cacheOfMirror}
	}
	return sqlite.Options{}
}

// openUpstream opens another Source, or several, whose resources are republished.
func (o *Opener) openUpstream(s *Set) (Origin, error) {
	c := s.Config
	opened := upstream{callbacks: o.Upstreams.Callbacks, log: o.Log}
	o.Upstreams.opened = nil
	if c.InPlace() {
		home := c.Origin.Place
		if len(c.Upstreams) > 0 {
			home = c.Upstreams[0].Origin.Place
		}
		client, err := o.Client(home)
		if err != nil {
			return nil, err
		}
		opened.web = intake.NewWeb(client)
	}
	if len(c.Upstreams) == 0 {
		m := &config.Member{Name: s.Name, Include: c.Include, Exclude: c.Exclude, Types: c.Types, Upstream: c.Upstream, Origin: c.Origin}
		ao, err := o.upstreamOptions(s, m)
		if err != nil {
			return nil, err
		}
		ao.Follow.Callback = o.Upstreams.Callbacks.address(base(o.Upstreams.BaseURL), ao.Address, s.Name)
		u, err := aggregator.New(s.Catalog, s.List, ao, func(deliver func(context.Context, []destination.Change) error) (aggregator.Mirror, error) {
			return o.openMirror(m, s.Name, deliver)
		})
		if err != nil {
			return nil, err
		}
		o.Upstreams.Callbacks.add(ao.Follow.Callback, u.Handler())
		subscribed := o.Upstreams.opened
		opened.follower, opened.subscribed = u, func() []subscriber { return subscribed }
		return opened, nil
	}
	return o.openGroup(s, opened)
}

// base returns a base URL with a slash at its end.
func base(baseURL string) string { return strings.TrimSuffix(baseURL, "/") + "/" }

// upstreamOptions returns what the configuration of an upstream means.
func (o *Opener) upstreamOptions(s *Set, m *config.Member) (ao aggregator.Options, err error) {
	address := m.Origin.WithoutUser()
	if err := discover.Check(address); err != nil {
		return ao, err
	}
	base, err := source.BaseURL(o.Upstreams.BaseURL)
	if err != nil {
		return ao, err
	}
	ao = aggregator.Options{
		Name: s.Name, Address: address, URI: s.URI, BaseURL: base, InPlace: m.InPlace(), Static: o.Upstreams.Static, Chain: m.Via == config.ViaChain,
		Collection: m.Collection, Reserved: s.isReserved(base), AllowEmpty: o.AllowEmpty, Continue: o.Upstreams.Watching, Later: o.Upstreams.Several && o.Upstreams.Watching,
		Interval: s.ScanInterval, TempDir: o.State, OnEvent: s.OnEvent,
		Fleet: o.Upstreams.Fleet,
	}
	if m.Poll != nil {
		ao.Follow.Poll = time.Duration(*m.Poll)
	}
	if m.PollMost != nil {
		ao.Follow.PollMost = time.Duration(*m.PollMost)
	}
	if m.FirstWait != nil {
		ao.FirstWait = Interval(time.Duration(*m.FirstWait)) // 0: it is not waited for
	}
	if o.Upstreams.Several {
		ao.Follow.PauseMost = failingMost
	}
	return ao, nil
}

// isReserved returns whether a path below base is that of a document, or belongs to a set
// whose URIs are below those of this one: no upstream takes the place of another.
func (s *Set) isReserved(base string) func(rel string) bool {
	var others []string
	for _, uri := range s.Others {
		if uri != s.URI && strings.HasPrefix(uri, s.URI) {
			others = append(others, uri)
		}
	}
	return func(rel string) bool {
		return source.Reserved(rel) || slices.ContainsFunc(others, func(uri string) bool { return strings.HasPrefix(base+rel, uri) })
	}
}

// openMirror opens the mirror of an upstream, by default in the directory with a name.
func (o *Opener) openMirror(u *config.Member, name string, deliver func(context.Context, []destination.Change) error) (m aggregator.Mirror, err error) {
	do := destination.Options{
		Include: u.Include, Exclude: u.Exclude, Types: u.Types, AllowHosts: u.AllowHosts, MaxDelete: int(u.MaxDelete),
		VerifyAll: true, // what is verified is published again
		Deliver:   deliver, DeliverStatements: true, Logger: o.Log,
	}
	state := filepath.Join(o.State, statedir.UpstreamsDir, name)
	part, err := o.Upstreams.Memory.part(name)
	switch {
	case err != nil:
		return m, err
	case part != nil && o.Upstreams.Memory.Standby:
		return o.openServed(u, part)
	case u.InPlace() && part != nil:
		return o.openDescriptions(u, state, do, part.Journal)
	case u.InPlace():
		return o.openSink(u, state, do)
	}
	sel := &mirror.Selection{Source: u.Origin.Place, Dest: state, Database: o.Upstreams.database()}
	switch {
	case mirror.IsBucket(u.Store):
		sel.Dest, sel.State, sel.Part = u.Store, state, part
	case u.Store != "":
		sel.Dest = u.Store
	}
	do.Dest = sel.Dest
	net := *o.Upstreams.Network
	if o.Upstreams.Several {
		net.Idle = connectionIdleFor
	}
	r, err := mirror.Open(context.Background(), "serve", sel, &net, do, false, o.Upstreams.IO)
	if err != nil {
		return m, fmt.Errorf("open the mirror of %s: %w", u.Origin.WithoutUser(), mirror.Explain(err, sel.Dest))
	}
	o.Upstreams.OnClose(r.Close)
	o.note(u, r.State.Journal, r.Client)
	return aggregator.Mirror{Store: r.State.Store, Journal: r.State.Journal, Destination: r.Dest}, nil
}

// openSink opens the memory in the directory state of an upstream of which only
// descriptions are republished: no resource is fetched.
func (o *Opener) openSink(u *config.Member, state string, do destination.Options) (m aggregator.Mirror, err error) {
	d, err := mirrordir.OpenWith(state, o.Upstreams.database())
	if err != nil {
		return m, err
	}
	o.Upstreams.OnClose(func() {
		if err := d.Close(); err != nil {
			o.Log.Warn("close the memory of an upstream", slog.Any("err", err))
		}
	})
	do.Versions = d.Versions
	return o.openDescriptions(u, state, do, d.Journal)
}

// openDescriptions opens what openSink opens over a Journal, with a directory for temporary files.
func (o *Opener) openDescriptions(u *config.Member, dir string, do destination.Options, j journal.Journal) (m aggregator.Mirror, err error) {
	client, err := o.Client(u.Origin.Place)
	if err != nil {
		return m, err
	}
	do.Dest, do.Via = dir, destination.ViaList
	m = aggregator.Mirror{Store: destination.NewSinkStore(discard{}, destination.SinkOptions{Dir: dir, DescriptionsOnly: true}), Journal: j}
	o.note(u, j, client)
	m.Destination, err = destination.New(m.Store, m.Journal, client, do)
	return m, err
}

// discard is a Sink that keeps nothing.
type discard struct{}

// Apply implements [destination.Sink].
func (discard) Apply(context.Context, []destination.Delivery) error { return nil }

// A follower follows one upstream or several.
type follower interface {
	Origin
	Bitstreams
	Leave()
	Awaited() bool
}

// An upstream opens the resources of a set.
type upstream struct {
	follower
	web        *intake.Web // opens those that are not stored here; nil: all are
	callbacks  *Callbacks  // nil: no hub is used
	subscribed func() []subscriber
	log        *slog.Logger
}

// Bitstream implements [Bitstreams].
func (u upstream) Bitstream(ctx context.Context, r *catalog.Record) (io.ReadCloser, error) {
	if u.web != nil {
		return u.web.Bitstream(ctx, r)
	}
	b, err := u.follower.Bitstream(ctx, r)
	if errors.Is(err, aggregator.ErrReplaced) {
		err = fmt.Errorf("%w: %w", source.ErrReplaced, err)
	}
	return b, err
}
