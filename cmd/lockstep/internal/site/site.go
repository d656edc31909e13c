// Package site runs a Source for serve, publish and demo: it opens the origins of its
// sets, the catalog and the place of the documents, publishes changes as they are found,
// and serves documents, resources, pages, hub and repository.
//
// [Open] wires it together: each part is a type of its own, which gets the values and
// functions that it needs.
package site

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"lockstep/catalog"
	"lockstep/cmd/lockstep/internal/accesslog"
	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/dashboard"
	"lockstep/cmd/lockstep/internal/hubflags"
	"lockstep/cmd/lockstep/internal/hubserver"
	"lockstep/cmd/lockstep/internal/network"
	"lockstep/cmd/lockstep/internal/origins"
	"lockstep/cmd/lockstep/internal/sourcefigures"
	"lockstep/cmd/lockstep/internal/stateplace"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/cmd/lockstep/internal/versions"
	"lockstep/intake"
	"lockstep/internal/mediatype"
	"lockstep/source"
)

// A Site is a Source as serve and publish run it: sets, each with an origin, one
// catalog, one store of documents.
type Site struct {
	Pages *admin.Pages // about the Source; nil: none

	setup    atomic.Pointer[setup] // in effect
	reloads  chan *reload          // that [Site.Reload] has requested
	builder  *setupBuilder
	ready    func() error         // says why the site is not ready; nil: see Pages
	board    *dashboard.Dashboard // nil: see Pages
	requests *accesslog.Log
	about    Description
	checks   *fileChecks
	versions *versions.Upkeep
	changed  chan struct{}    // receives a value when there are changes to be published
	hub      *hubserver.Front // embedded; nil: none
	api      *origins.API
	log      *slog.Logger
	cleanup  []func() // in the order in which the resources were opened
}

// Options configure a site.
type Options struct {
	BaseURL      string
	Title        string           // of the collection, for people; may be empty
	Description  string           // what it contains, or the URI of information about it; may be empty
	Sets         []config.Set     // settled: what flags and defaults say is filled in
	State        stateplace.Place // of what is kept from run to run
	Documents    string           // directory or bucket for the documents
	Contents     string           // directory or bucket for what is kept of contents; "": the state directory
	Gzip         bool             // with compressed variants
	APITokenFile string           // clients that send a token in it may fill sets; "": none may
	AllowEmpty   bool
	TakeOver     bool          // documents of another state are replaced
	ScanInterval time.Duration // of sets that do not say; 0: the default of the origin, negative: never
	Rehash       float64       // share of the files that is read again in a day
	Watching     bool          // continue after the first publication
	Hubs         hubflags.Hubs
	OAI          OAIFlags
	Embedding    *Embedding // nil: nothing but documents and resources is served
	Shared       *Shared    // of one of several processes with the same state; nil: there is one
	Content      bool       // serve the resources too, if they are here
	Command      string     // named in the lock
	Release      func()     // of the state's lock, if it is locked already
	Network      *network.Options
	IO           term.IO
	Log          *slog.Logger
	Verbose      bool // the resources of changes are named when they are published
	OnEvent      func(set string, e intake.Event)
	OnNotify     func(source.Notification) // may be nil
}

// Open opens the state of a site and locks it. Nothing is scanned yet.
func Open(ctx context.Context, o Options) (_ *Site, err error) {
	if o.Release == nil {
		if err := o.Check(); err != nil {
			return nil, err
		}
		if err := o.Lock(); err != nil {
			return nil, err
		}
	}
	s := &Site{log: o.Log, reloads: make(chan *reload), changed: make(chan struct{}, 1)}
	s.onClose(o.Release)
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	st, err := openStorage(ctx, &o, s.onClose)
	if err != nil {
		return nil, err
	}
	if s.hub, err = openHub(ctx, &o, st.db, s.maySubscribe); err != nil {
		return nil, err
	}
	var access *admin.Access
	if s.requests, access, err = openFront(ctx, &o, s.onClose); err != nil {
		return nil, err
	}
	if err := s.wire(&o, st, access); err != nil {
		return nil, err
	}
	if o.isStandby() {
		return s, nil
	}
	if err := st.claim.Take(ctx); err != nil {
		return nil, err
	}
	if err := s.builder.awaitClock(ctx, s.setup.Load().sets); err != nil {
		return nil, err
	}
	if err := s.builder.move(ctx, s.setup.Load().sets); err != nil {
		return nil, err
	}
	return s, s.versions.Begin(ctx)
}

// wire makes the parts of a site.
func (s *Site) wire(o *Options, st *storage, access *admin.Access) (err error) {
	tally, failures := &sourcefigures.Tally{}, &sourcefigures.Origins{}
	so := sourceOptions(o, tally)
	so.OnFront = s.requests.Front
	so.Restart = st.claim.Restarts()
	if so.Hubs, err = o.Hubs.ForSource(s.hub, o.Network, o.Log); err != nil {
		return err
	}
	so.Hubs = append(so.Hubs, o.hubOfPublisher()...)
	requests := &clients{network: o.Network, lookupEnv: o.IO.LookupEnv, log: o.Log}
	s.onClose(requests.close)
	s.api = &origins.API{BaseURL: o.BaseURL, State: o.State.Dir, Keys: apiKeys(st.db), TokenFile: o.APITokenFile, Admin: access.Trusts(), Retry: st.db.IsOutage, Log: o.Log}
	s.onClose(func() {
		if err := s.api.Close(); err != nil && !stateplace.IsLost(err) {
			o.Log.Warn("close the API", slog.Any("err", err))
		}
	})
	s.checks = &fileChecks{tally: tally, log: o.Log}
	sets := &setBuilder{
		opts: o, origins: newOpener(o, st, requests.client, s.api), versions: st.versions, keeper: st.keeper, checks: s.checks, failures: failures,
		onClose: s.onClose,
		putPatch: func(ctx context.Context, set, mediaType string, patch []byte) (string, error) {
			return s.setup.Load().src.PutPatch(ctx, set, mediaType, patch)
		},
	}
	s.builder = &setupBuilder{opts: o, storage: st, sets: sets, source: so, tally: tally, failures: failures, api: s.api, hub: s.hub}
	if o.Verbose {
		s.builder.names = newChangeNamer(st.db.Catalog, o.IO)
	}
	if err := s.builder.openReaders(); err != nil {
		return err
	}
	built, cat, err := sets.build(st.db.Catalog)
	if err != nil {
		return err
	}
	s.builder.catalog = cat
	s.versions = s.newVersionsUpkeep(built, st, o.Log)
	if o.Embedding != nil {
		base, err := parseBase(o.BaseURL)
		if err != nil {
			return err
		}
		database := admin.Database(st.db.Check)
		if s.hub != nil {
			database.Check = s.hub.Check // of the same database, and of the hub
		}
		s.ready = admin.NewReadiness(o.Log, database, st.documents(o.isStandby())).Ready
		seen := &monitored{
			tally: tally, failures: failures, versions: s.versions, hub: s.hub, requests: s.requests,
			isPublic:  func(set string) bool { return !s.setup.Load().readers.Guards(set) },
			channels:  func() []source.ChannelStatus { return s.setup.Load().src.Channels() },
			upstreams: s.upstreams, standby: o.isStandby(),
		}
		s.Pages, s.board = newPages(base, access, s.ready, seen), newDashboard(o.State.Dir, seen, s.ownProblem)
		s.Pages.Dashboard(access, s.board)
		s.builder.pages, s.builder.hubPath = s.Pages, base.EscapedPath()+hubserver.Path
	}
	first, err := s.builder.build(built, o.Sets)
	if err != nil {
		return err
	}
	if !o.isStandby() {
		if err := first.keepFormer(s.builder.former); err != nil {
			return err
		}
	}
	s.setup.Store(first)
	s.builder.source.Restart = false // the first Source restarts the history, if at all
	s.about = Description{BaseURL: o.BaseURL, Versions: versions.Any(o.Sets), Admin: access}
	for _, set := range built {
		s.about.Lists = append(s.about.Lists, set.list)
	}
	if s.api.Used() {
		s.about.API = origins.APIDir
	}
	if first.harvesting != nil {
		s.about.OAI = oaiAddress(o.BaseURL)
	}
	return nil
}

// newVersionsUpkeep returns the upkeep of the prior versions of the sets.
func (s *Site) newVersionsUpkeep(sets []*siteSet, st *storage, log *slog.Logger) *versions.Upkeep {
	u := &versions.Upkeep{
		Store: st.versions, Keeper: st.keeper, Status: st.db.Catalog.Status, Log: log,
		Listed: func(ctx context.Context, set string) (catalog.Seq, []catalog.Mark, error) {
			return s.setup.Load().src.Listed(ctx, set)
		},
	}
	for _, set := range sets {
		if set.versions != nil {
			u.Sets = append(u.Sets, *set.versions)
		}
	}
	return u
}

// maxStreams is how many event streams serve has open at a time: memory filled
// by Destinations that no hub can call.
const maxStreams = 1000

// sourceOptions returns the options of the Source that do not depend on its sets.
func sourceOptions(o *Options, tally *sourcefigures.Tally) source.Options {
	about, summary := config.SplitDescription(o.Description)
	return source.Options{
		BaseURL: o.BaseURL, Title: o.Title, Summary: summary, Description: about, Explore: o.exploreURI(), Temp: o.State.Dir, Logger: o.Log, Static: !o.Content,
		Type: mediatype.Of, // the types with which files are served
		OnNotify: func(n source.Notification) {
			tally.Notified(&n)
			if o.OnNotify != nil {
				o.OnNotify(n)
			}
		},
	}
}

// WhileOwned returns a context that ends when the state is no longer that of this process; see
// [stateplace.Database.WhileOwned].
func (s *Site) WhileOwned(ctx context.Context) (_ context.Context, stop func()) {
	return s.builder.storage.db.WhileOwned(ctx)
}

// onClose has Close call f, before the functions that it was given earlier.
func (s *Site) onClose(f func()) { s.cleanup = append(s.cleanup, f) }

// Close closes everything that was opened. It may be called on a site half opened.
func (s *Site) Close() {
	for _, f := range slices.Backward(s.cleanup) {
		f()
	}
	s.cleanup = nil
}
