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
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/baseurl"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/hubflags"
	"lockstep/cmd/lockstep/internal/hubserver"
	"lockstep/cmd/lockstep/internal/listen"
	"lockstep/cmd/lockstep/internal/network"
	"lockstep/cmd/lockstep/internal/origins"
	"lockstep/cmd/lockstep/internal/publishing"
	"lockstep/cmd/lockstep/internal/sourcefigures"
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

	about      Description
	sets       []*siteSet
	src        *source.Source
	scans      *scanner
	checks     *fileChecks
	publish    publishing.PublishFunc // writes all documents
	dumps      *publishing.Dumps
	versions   *versions.Upkeep
	watcher    *watcher
	hub        *hubserver.Front // embedded; nil: none
	harvesting *harvesting      // nil: no set is offered to harvesters
	front      front
	log        *slog.Logger
	cleanup    []func() // in the order in which the resources were opened
}

// Options configure a site.
type Options struct {
	BaseURL      string
	Sets         []config.Set // settled: what flags and defaults say is filled in
	State        string       // directory for the state that is kept from run to run
	Documents    string       // directory or bucket for the documents
	Gzip         bool         // with compressed variants
	APITokenFile string       // clients that send a token in it may fill sets; "": none may
	AllowEmpty   bool
	TakeOver     bool          // documents of another state are replaced
	ScanInterval time.Duration // of sets that do not say; 0: the default of the origin, negative: never
	Rehash       float64       // share of the files that is read again in a day
	Watching     bool          // continue after the first publication
	Hubs         hubflags.Hubs
	OAI          OAIFlags
	Embedding    *Embedding // nil: nothing but documents and resources is served
	Content      bool       // serve the resources too, if they are here
	Command      string     // named in the lock
	Release      func()     // of the state's lock, if it is locked already
	Network      *network.Options
	IO           term.IO
	Log          *slog.Logger
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
	s := &Site{log: o.Log}
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
	if s.hub, err = openHub(ctx, &o, st.db.Hub()); err != nil {
		return nil, err
	}
	access, err := openAdmin(ctx, &o)
	if err != nil {
		return nil, err
	}
	s.onClose(access.Close)
	if err := s.wire(&o, st, access); err != nil {
		return nil, err
	}
	if err := st.claim.Take(ctx); err != nil {
		return nil, err
	}
	moved := make([]baseurl.Set, len(s.sets))
	for i, set := range s.sets {
		moved[i] = baseurl.Set{Name: set.name, List: set.list, Away: set.from.Kind.Away}
	}
	if err := baseurl.Move(ctx, o.State, moved, st.db.Catalog(), st.versions.Marked, o.Log); err != nil {
		return nil, err
	}
	return s, s.versions.Begin(ctx)
}

// wire makes the parts of a site.
func (s *Site) wire(o *Options, st *storage, access *admin.Access) (err error) {
	tally, failures := &sourcefigures.Tally{}, &sourcefigures.Origins{}
	so := sourceOptions(o, tally)
	so.Restart = st.claim.Restarts()
	if so.Hubs, err = o.Hubs.ForSource(s.hub, o.Network); err != nil {
		return err
	}
	requests := &clients{network: o.Network, lookupEnv: o.IO.LookupEnv, log: o.Log}
	s.onClose(requests.close)
	api := &origins.API{BaseURL: o.BaseURL, State: o.State, TokenFile: o.APITokenFile, Admin: access.Trusts(), Log: o.Log}
	s.onClose(func() {
		if err := api.Close(); err != nil {
			o.Log.Warn("close the API", slog.Any("err", err))
		}
	})
	s.checks = &fileChecks{tally: tally, log: o.Log}
	builder := &setBuilder{
		opts: o, origins: newOpener(o, st, requests.client, api, s.onClose), versions: st.versions, keeper: st.keeper, checks: s.checks, failures: failures,
		putPatch: func(ctx context.Context, set, mediaType string, patch []byte) (string, error) {
			return s.src.PutPatch(ctx, set, mediaType, patch)
		},
	}
	cat := catalog.Catalog(st.db.Catalog())
	if s.sets, cat, err = builder.build(cat); err != nil {
		return err
	}
	for _, set := range s.sets {
		so.Sets = append(so.Sets, set.source)
	}
	files := resourceFiles(s.sets)
	if o.Content {
		so.Content, so.Mark, so.OnDemand, so.Streams = files.open, files.mark, &source.OnDemand{}, min(maxStreams, max(listen.Connections()/2, 1))
	}
	docs := blob.Store(st.docs)
	if o.Gzip {
		docs = source.Compressed(docs)
	}
	if s.src, err = source.New(cat, docs, so); err != nil {
		return term.Usage(err, "")
	}
	if s.harvesting, err = openHarvesting(o, s.sets, st.db.Catalog(), files.have); err != nil {
		return err
	}
	s.versions = newVersionsUpkeep(s.sets, st, s.src, o.Log)
	s.front = front{callbacks: builder.origins.Upstreams.Callbacks, hub: s.hub, harvesting: s.harvesting, api: api, have: files.have}
	if o.Embedding != nil {
		base, err := parseBase(o.BaseURL)
		if err != nil {
			return err
		}
		s.Pages = newPages(base, access, &monitored{
			tally: tally, failures: failures, versions: s.versions, channels: s.src.Channels, database: st.db.Check, hub: s.hub, log: o.Log,
		})
		s.front.pages, s.front.hubPath = s.Pages, base.EscapedPath()+hubserver.Path
	}
	s.scans = &scanner{sets: s.sets, status: st.db.Catalog().Status, failures: failures, watching: o.Watching}
	s.wirePublishing(o, st, tally)
	s.about = Description{BaseURL: o.BaseURL, Versions: versions.Any(o.Sets), Admin: access}
	for _, set := range s.sets {
		s.about.Lists = append(s.about.Lists, set.list)
	}
	if api.Used() {
		s.about.API = origins.APIDir
	}
	if s.harvesting != nil {
		s.about.OAI = oaiAddress(o.BaseURL)
	}
	return nil
}

// wirePublishing makes the parts that publish.
func (s *Site) wirePublishing(o *Options, st *storage, tally *sourcefigures.Tally) {
	s.dumps = &publishing.Dumps{Check: publishing.CheckInterval(o.Sets), Publish: s.src.PublishDumps, Sweep: st.sweep}
	done := &published{tally: tally, claim: st.claim, place: o.Documents}
	s.publish = done.after(s.src.Publish)
	s.watcher = &watcher{
		sets: s.sets, checks: s.checks, waiting: st.waiting,
		changes: &publishing.Changes{
			Delay: o.Hubs.Delay, All: s.publish, Urgent: done.after(s.src.PublishChanges),
			IsHeard: func() bool {
				return len(o.Hubs.Elsewhere()) > 0 || s.src.Streams() > 0 || s.hub != nil && s.hub.Subscriptions() > 0
			},
		},
	}
}

// newVersionsUpkeep returns the upkeep of the prior versions of the sets.
func newVersionsUpkeep(sets []*siteSet, st *storage, src *source.Source, log *slog.Logger) *versions.Upkeep {
	u := &versions.Upkeep{Store: st.versions, Keeper: st.keeper, Status: st.db.Catalog().Status, Listed: src.Listed, Log: log}
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
	return source.Options{
		BaseURL: o.BaseURL, Temp: o.State, Logger: o.Log, Static: !o.Content,
		Type: mediatype.Of, // the types with which files are served
		OnNotify: func(n source.Notification) {
			tally.Notified(&n)
			if o.OnNotify != nil {
				o.OnNotify(n)
			}
		},
	}
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
