package site

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"lockstep/aggregator"
	"lockstep/bitstream"
	"lockstep/catalog"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/hiddenfiles"
	"lockstep/cmd/lockstep/internal/network"
	"lockstep/cmd/lockstep/internal/origins"
	"lockstep/cmd/lockstep/internal/sourcefigures"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/cmd/lockstep/internal/versions"
	"lockstep/intake"
	"lockstep/intake/dir"
	"lockstep/internal/fetch"
	"lockstep/source"
)

// A siteSet is one set of a site.
type siteSet struct {
	name     string
	list     string // URI of its Capability List, and its name in the catalog
	uri      string // that the URIs of its resources usually begin with
	later    bool   // its origin may have no end: it is read while the site watches
	from     config.Address
	origin   origins.Origin
	source   source.Set
	versions *versions.Set // nil: it keeps no versions, and did not

	added  bool        // by a reload: what there is was not scanned yet
	stop   func()      // ends watching, and waits for that; nil: it is not watched
	opened []func()    // that close what was opened for it, in the order in which it was opened
	closed atomic.Bool // they were called
}

// close closes what was opened for the set. It may be called again.
func (set *siteSet) close() {
	if set.closed.Swap(true) {
		return
	}
	if o, ok := set.origin.(origins.Subscriber); ok {
		o.Leave()
	}
	for _, f := range slices.Backward(set.opened) {
		f()
	}
}

// A setBuilder makes the sets of a site.
type setBuilder struct {
	opts     *Options
	origins  *origins.Opener
	versions *versions.Store
	keeper   *bitstream.Keeper // nil if no set needs past representations
	checks   *fileChecks
	failures *sourcefigures.Origins
	onClose  func(func()) // takes functions to be called when the site is closed
	putPatch func(ctx context.Context, set, mediaType string, patch []byte) (string, error)
}

// build makes all sets, and returns cat as their Source is to see it.
func (b *setBuilder) build(cat catalog.Catalog) (sets []*siteSet, _ catalog.Catalog, err error) {
	for i := range b.opts.Sets {
		var set *siteSet
		if set, cat, err = b.newSet(&b.opts.Sets[i], cat); err != nil {
			return nil, nil, err
		}
		sets = append(sets, set)
	}
	return sets, cat, nil
}

// newSet makes the set that a configuration describes, which fills inner, and returns
// the catalog as the sets after it are to see it.
func (b *setBuilder) newSet(c *config.Set, inner catalog.Catalog) (*siteSet, catalog.Catalog, error) {
	set := &siteSet{name: c.Name, from: c.Origin, later: b.opts.Watching && c.Origin.Place == config.Stdin}
	if set.name == "" {
		set.name = source.DefaultSet
	}
	var err error
	if set.list, err = source.CapabilityListURI(b.opts.BaseURL, set.name); err != nil {
		return nil, nil, term.Usage(err, "")
	}
	set.source = offered(c, set.name, b.opts)
	uri, err := set.locate(c, b.opts.BaseURL)
	if err != nil {
		return nil, nil, err
	}
	set.uri = uri
	if set.source.Links, err = c.LinkRules(); err != nil {
		return nil, nil, term.Usagef("set %s: %w", set.name, err)
	}
	own := *c // what is left out below was not configured: reloads compare with that
	c = &own
	if !set.source.Elsewhere && !c.Origin.Kind.Away {
		if err := b.versions.LeaveRoom(c, set.source.Path, b.opts.IO.Notef); err != nil {
			return nil, nil, term.Usage(fmt.Errorf("set %s: %w", set.name, err), term.HintOf(err))
		}
	}
	cat, err := b.keeping(inner, set, c)
	if err != nil {
		return nil, nil, err
	}
	from := &origins.Set{
		Config: c, Name: set.name, List: set.list, URI: uri, Catalog: cat,
		ScanInterval: b.opts.ScanInterval, OnEvent: func(e intake.Event) { b.report(set.name, e) },
	}
	if set.isUpstream() {
		if from.Others, err = b.otherURIs(set, c); err != nil {
			return nil, nil, err
		}
	}
	if c.ScanInterval != nil {
		from.ScanInterval = origins.Interval(time.Duration(*c.ScanInterval))
	}
	if from.Hashes, err = origins.Hashes(c.Hash); err != nil {
		return nil, nil, err
	}
	b.origins.Upstreams.OnClose = func(f func()) { set.opened = append(set.opened, f) }
	b.onClose(set.close)
	if set.origin, err = b.origins.Open(from); err != nil {
		set.close()
		return nil, nil, term.Usage(fmt.Errorf("set %s: %w", set.name, err), term.HintOf(err))
	}
	b.checks.add(set.name, func(onDamage func(dir.Damage)) *dir.Rehasher {
		return b.origins.Rehasher(set.origin, from, b.opts.Rehash, onDamage)
	})
	if o, ok := set.origin.(interface{ Awaited() bool }); ok {
		set.source.Hold = o.Awaited
	}
	open, serve, err := b.origins.Content(set.origin, from)
	if set.source.Bitstream, set.source.Serve = open, serve; open != nil && set.isUpstream() {
		set.source.Bitstream = func(ctx context.Context, r *catalog.Record) (io.ReadCloser, error) {
			f, err := open(ctx, r)
			if err != nil && set.closed.Load() { // a reload opens it again
				err = fmt.Errorf("%w: %w", source.ErrReplaced, err)
			}
			return f, err
		}
	}
	return set, cat, err
}

// otherURIs returns with what the URIs of the other sets begin. Two sets of upstreams
// cannot begin alike: their resources would have the same addresses.
func (b *setBuilder) otherURIs(set *siteSet, c *config.Set) (uris []string, err error) {
	own, err := set.locate(c, b.opts.BaseURL)
	if err != nil {
		return nil, err
	}
	for i := range b.opts.Sets {
		o := &b.opts.Sets[i]
		if o.Name == c.Name {
			continue
		}
		other := siteSet{name: o.Name, from: o.Origin}
		uri, err := other.locate(o, b.opts.BaseURL)
		if err != nil {
			return nil, err
		}
		if uri == own && other.isUpstream() {
			return nil, term.Usage(fmt.Errorf("sets %s and %s: both republish other Sources at %s", c.Name, o.Name, uri),
				"give one of them another uri, or write them as upstreams of one set")
		}
		uris = append(uris, uri)
	}
	return uris, nil
}

// offered returns which documents of a set a Source offers.
func offered(c *config.Set, name string, o *Options) source.Set {
	about, summary := config.SplitDescription(c.Description)
	s := source.Set{
		Name: name, Title: c.Title, Summary: summary, Description: about, Sandbox: c.Origin.Kind.Foreign,
		ChangeList: source.ChangeList{
			Rotate: time.Duration(c.ChangeList.Rotate), Entries: int(c.ChangeList.Entries), Keep: time.Duration(c.ChangeList.Keep),
		},
		Archive: c.Archive.Archive(o.Watching), Atom: c.AtomPMH.Atom(),
	}
	if d := c.ResourceDump; d != nil {
		s.ResourceDump = &source.ResourceDump{
			Every: time.Duration(d.Every), Keep: int(d.Keep), PackageBytes: int64(d.PackageSize), PackageEntries: int(d.PackageCount),
		}
	}
	if d := c.ChangeDump; d != nil {
		s.ChangeDump = &source.ChangeDump{
			Every: time.Duration(d.Every), PackageBytes: int64(d.PackageSize), PackageEntries: int(d.PackageCount),
		}
	}
	if c.OffersOAI() {
		s.OAI = oaiAddress(o.BaseURL)
	}
	if s.Atom != nil && len(o.Sets) == 1 { // the feed is that of the collection
		s.Atom.Title = cmp.Or(s.Atom.Title, s.Title, o.Title)
	}
	return s
}

// locate determines the prefix of the set's URIs, and its path below the base
// URL, if it is there.
func (set *siteSet) locate(c *config.Set, baseURL string) (string, error) {
	base := strings.TrimSuffix(baseURL, "/") + "/"
	uri := base
	if set.isUpstream() && c.Name != "" { // several upstreams have resources at the same paths
		uri += c.Name + "/"
	}
	if c.URI != "" {
		uri = strings.TrimSuffix(c.URI, "/") + "/"
	}
	rest, below := strings.CutPrefix(uri, base)
	if !below || c.Origin.Kind.Away {
		set.source.Elsewhere, set.source.URI = true, uri
		return uri, nil
	}
	var err error
	if set.source.Path, err = url.PathUnescape(rest); err != nil {
		return "", term.Usagef("set %s: uri %s: %w", set.name, uri, err)
	}
	return uri, nil
}

// keeping returns the catalog that the origin of set fills: cat, or, if the bytes of
// past representations are needed, a catalog that keeps them.
func (b *setBuilder) keeping(cat catalog.Catalog, set *siteSet, c *config.Set) (catalog.Catalog, error) {
	kept, err := b.versions.Options(set.list, c, b.opts.BaseURL)
	if err != nil || !c.KeepsBytes() && kept == nil {
		return cat, err
	}
	if kept != nil {
		set.versions = &versions.Set{Name: set.name, List: set.list, Ending: kept.Ending, Policy: c.Versions.Policy()}
		if b.opts.Content {
			set.source.Versions = &source.Versions{Store: b.versions.Index(), Open: b.keeper.OpenVersion, Ending: kept.Ending}
		}
	}
	o := bitstream.SetOptions{
		Versions: kept,
		Open: func(ctx context.Context, r *catalog.Record) (io.ReadCloser, error) {
			return set.source.Bitstream(ctx, r)
		},
		Rescans: c.Origin.Kind.Rescans,
		Past:    c.ChangeDump != nil,
	}
	if c.Patches {
		o.Patches = &bitstream.PatchOptions{Put: func(ctx context.Context, mediaType string, patch []byte) (string, error) {
			return b.putPatch(ctx, set.name, mediaType, patch)
		}}
	}
	if o.Past {
		set.source.Past = b.keeper.Open
	}
	return b.keeper.Catalog(cat, set.list, o), nil
}

// report passes an event of an origin on, unless it repeats a failure that was
// reported a short time ago.
func (b *setBuilder) report(set string, e intake.Event) {
	again := b.failures.Note(set, &e)
	if b.opts.OnEvent != nil && !b.failures.IsRepeated(set, &e, time.Now()) {
		b.opts.OnEvent(set, e)
	}
	if again != "" && b.opts.IO.Err != nil {
		b.opts.IO.Notef("%s", again)
	}
}

// newOpener returns the opener of the origins of a site.
func newOpener(o *Options, st *storage, client func(home string) (*fetch.Client, error), api *origins.API) *origins.Opener {
	opener := &origins.Opener{
		Upstreams: origins.Upstreams{BaseURL: o.BaseURL, Network: o.Network, Watching: o.Watching, Static: !o.Content, IO: o.IO, Memory: o.memory(st.db), Fleet: aggregator.NewFleet(aggregator.FleetOptions{})}, Log: o.Log,
		State: o.State.Dir, AllowEmpty: o.AllowEmpty, Hidden: &hiddenfiles.Record{Notes: st.db.State.Notes, Undecided: !o.State.InDatabase()}, Stdin: o.IO.In, LookupEnv: o.IO.LookupEnv, Client: client,
		Ledger: st.db.Ledger, Contents: st.db.Contents, API: api,
	}
	if o.Network != nil && o.Network.Limits == nil {
		o.Network.Limits = &fetch.Limits{} // hosts are asked by several sets
		o.Network.ShareBandwidth()
	}
	opener.Upstreams.Several = o.HasSeveralUpstreams()
	if o.Network != nil && opener.Upstreams.Several {
		o.Network.MostJobs = origins.RequestsMost
	}
	if need := followed(o.Sets) * filesPerUpstream; need > fetch.OpenFiles()*3/4 && o.IO.Err != nil {
		o.IO.Errorf("warning: %d upstreams need %d open files or more, and this process may have %d\nhint: raise the limit, as with ulimit -n %d\n", followed(o.Sets), need, fetch.OpenFiles(), 2*need)
	}
	if o.Content && o.Watching {
		opener.Upstreams.Callbacks = &origins.Callbacks{}
	}
	if !o.Content { // the site is nothing but files
		opener.Files = &origins.RecordFiles{Store: st.docs, Place: o.Documents, BaseURL: o.BaseURL}
	}
	return opener
}

// filesPerUpstream is how many files the mirror of an upstream has open: directories, its
// lock, and from time to time its database.
const filesPerUpstream = 5

// HasSeveralUpstreams reports whether more than one upstream fills sets.
func (o *Options) HasSeveralUpstreams() bool { return followed(o.Sets) > 1 }

// followed returns how many upstreams fill sets.
func followed(sets []config.Set) (n int) {
	for i := range sets {
		if sets[i].Origin.Kind.Scheme == "resourcesync" {
			n += max(len(sets[i].Upstreams), 1)
		}
	}
	return n
}

// clients opens the clients with which a site sends requests, and closes them together.
type clients struct {
	network   *network.Options
	lookupEnv func(string) (string, bool)
	log       *slog.Logger
	opened    []*fetch.Client
}

// client returns a client for requests to the server of home, as the network flags
// describe it.
func (cs *clients) client(home string) (*fetch.Client, error) {
	c, err := cs.network.Client(home, cs.lookupEnv, cs.log)
	if err == nil {
		cs.opened = append(cs.opened, c)
	}
	return c, err
}

func (cs *clients) close() {
	for _, c := range cs.opened {
		c.Close()
	}
}

// resourceFiles opens the resources of sets that are files on this machine, by their
// path below the base URL.
type resourceFiles []*siteSet

// open opens the file behind the path rel, if it is a resource.
func (sets resourceFiles) open(rel string) (*os.File, fs.FileInfo, error) {
	for _, set := range sets {
		files, inner, ok := set.files(rel)
		if !ok {
			continue
		}
		f, info, err := files.Open(inner)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, info, err
		}
	}
	return nil, nil, fs.ErrNotExist
}

// mark returns a string that identifies the current state of the file that open
// opens.
func (sets resourceFiles) mark(rel string) (string, error) {
	for _, set := range sets {
		files, inner, ok := set.files(rel)
		if !ok {
			continue
		}
		mark, err := files.Mark(inner)
		if !errors.Is(err, fs.ErrNotExist) {
			return set.name + " " + mark, err
		}
	}
	return "", fs.ErrNotExist
}

// have reports whether a resource is at the path rel.
func (sets resourceFiles) have(rel string) bool {
	f, _, err := sets.open(rel)
	if err != nil {
		return false
	}
	_ = f.Close() // nothing was read from it
	return true
}

// files returns the origin of the set and the path in it, if the set may have a file
// at the path rel below the base URL.
func (set *siteSet) files(rel string) (files origins.Files, inner string, ok bool) {
	if files, ok = set.origin.(origins.Files); !ok || set.source.Elsewhere {
		return nil, "", false
	}
	inner, ok = strings.CutPrefix(rel, set.source.Path)
	return files, inner, ok
}
