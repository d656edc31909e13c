// Package place finds out what is at an address, and opens it for the explorer: a Source,
// a Sitemap, a feed, a repository, a package, a mirror or a single document.
package place

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"lockstep/atompmh"
	"lockstep/cmd/lockstep/internal/explorer/annotated"
	"lockstep/cmd/lockstep/internal/explorer/packages"
	"lockstep/cmd/lockstep/internal/explorer/reading"
	"lockstep/cmd/lockstep/internal/explorer/spool"
	"lockstep/destination"
	"lockstep/destination/journal"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/oaipmh"
	"lockstep/resourcesync"
)

// The kinds of places, for people and in JSON.
const (
	Source     = "source"
	Sitemap    = "sitemap"
	Feed       = "feed"
	Repository = "repository"
	Package    = "package"
	Mirror     = "mirror"
	Document   = "document"
)

// A MirrorState is the state of a mirror, open for reading.
type MirrorState struct {
	destination.MirrorState
	Journal journal.Journal
	Close   func() error
}

// Options say how a place is opened.
type Options struct {
	Address string
	Client  *fetch.Client
	Dir     string // for temporary files; "" is the system's
	Start   reading.Start

	// Mirror opens the state of the mirror in a directory for reading; ok is false if
	// there is no mirror.
	Mirror func(ctx context.Context, dir string) (state *MirrorState, ok bool, err error)
}

// A Place is what is at an address. It is safe for concurrent use.
type Place struct {
	Kind    string
	Address string // as given, without user name and password
	Given   string // as given: not for display
	Title   string // its name, if it states one
	Facts   []spool.Fact
	Sets    []*Set
	Way     []discover.Step // how it was found
	Source  string          // of a mirror: the address of its Source

	Client   *fetch.Client
	options  Options
	packages *packages.Shelf
	mirror   *MirrorState

	mu    sync.Mutex // guards what follows
	lists map[string]*reading.List
	byID  []*reading.List
}

// A Set is a set of resources of a place.
type Set struct {
	Name  string
	URI   string          // of its Capability List; may be empty
	Above []*reading.List // documents that lead to the lists, from the set up
	Lists []*reading.List
	Links []spool.Link // and hubs
	Topic string       // of Change Notification; may be empty
	Err   error        // why its Capability List could not be read
}

// Open finds out what is at an address.
func Open(ctx context.Context, o Options) (*Place, error) {
	p := &Place{Address: fetch.WithoutUser(o.Address), Given: o.Address, Client: o.Client, options: o, packages: packages.NewShelf(8), lists: map[string]*reading.List{}}
	if err := p.find(ctx); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Close removes what was stored. Nothing may be read any more.
func (p *Place) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.byID {
		_ = l.Close() // temporary files that are removed already, where that is possible
	}
	p.packages.Close()
	if p.mirror != nil {
		_ = p.mirror.Close() // it was only read
	}
	p.Client.Close()
}

func (p *Place) find(ctx context.Context) error {
	address := strings.TrimSpace(p.options.Address)
	info, err := os.Stat(strings.TrimPrefix(address, "file://"))
	switch {
	case err == nil && info.IsDir():
		return p.findDir(ctx, strings.TrimPrefix(address, "file://"))
	case err == nil:
		return p.findFile(strings.TrimPrefix(address, "file://"))
	}
	home := discover.Home(address)
	isURL := home != nil && home.Scheme != ""
	if isURL {
		home.User = nil
	}
	if isURL && strings.HasSuffix(strings.ToLower(home.Path), ".zip") {
		if _, err := p.Package(ctx, home.String()); err == nil {
			return p.alone(Package, home.String())
		}
	}
	found, err := discover.Find(ctx, p.Client, address)
	if err == nil {
		return p.use(ctx, found)
	}
	if !isURL || ctx.Err() != nil {
		return err
	}
	// An archive, a manifest, a package without the usual name: what discovery has no
	// use for can be looked at.
	if derr := p.Read(home.String()).Open(ctx); derr == nil {
		return p.alone(Document, home.String())
	}
	if _, perr := p.Package(ctx, home.String()); perr == nil {
		return p.alone(Package, home.String())
	}
	return err
}

// findDir opens the mirror in a directory.
func (p *Place) findDir(ctx context.Context, dir string) error {
	var m *MirrorState
	if p.options.Mirror != nil {
		state, ok, err := p.options.Mirror(ctx, dir)
		if err != nil {
			return err
		}
		if ok {
			m = state
		}
	}
	if m == nil {
		if wellKnown := filepath.Join(dir, ".well-known", "resourcesync"); isFile(wellKnown) {
			return p.findFile(wellKnown)
		}
		return fmt.Errorf("explore %s: the directory is neither a mirror nor a published Source", dir)
	}
	p.Kind, p.mirror, p.Source = Mirror, m, m.Source
	fact := func(name, value string) { p.Facts = append(p.Facts, spool.Fact{Name: name, Value: value}) }
	fact("Source", m.Source)
	if m.Open {
		fact("run", "in progress, or killed")
	}
	origin := &reading.Mirror{Journal: m.Journal, Number: -1}
	l := p.list("mirror:", func() *reading.List { return p.newList("resources", origin.First(), origin) })
	p.Sets = append(p.Sets, &Set{Name: filepath.Base(dir), Lists: []*reading.List{l}})
	for _, s := range m.Sets {
		text := fmt.Sprintf("%d resources", s.Resources)
		if !s.Complete {
			text += ", not complete"
		}
		if s.Pending > 0 {
			text += fmt.Sprintf(", %d pending: %s", s.Pending, s.Error)
		}
		if !s.SyncedUntil.IsZero() {
			text += ", in step until " + s.SyncedUntil.UTC().Format("2006-01-02T15:04:05Z")
		}
		fact("set "+s.Name, text)
	}
	return nil
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// findFile opens a document or package in a file.
func (p *Place) findFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	head := make([]byte, 4)
	n, _ := io.ReadFull(f, head) // a shorter file is no package
	if err := f.Close(); err != nil {
		return err
	}
	if bytes.HasPrefix(head[:n], []byte("PK")) {
		return p.alone(Package, name)
	}
	uri := discover.FileURI(name)
	if uri == "" {
		full, err := filepath.Abs(name)
		if err != nil {
			return err
		}
		uri = (&url.URL{Scheme: "file", Path: filepath.ToSlash(full)}).String()
	}
	return p.alone(Document, uri)
}

// alone makes the place a single document or package.
func (p *Place) alone(kind, uri string) error {
	p.Kind = kind
	l := p.Read(uri)
	if kind == Package {
		l = p.Members(uri)
	}
	p.Sets = []*Set{{Name: filepath.Base(uri), Lists: []*reading.List{l}}}
	return nil
}

// use takes over what discovery has found.
func (p *Place) use(ctx context.Context, found *discover.Found) error {
	p.Way = found.Way
	if f := found.Foreign; f != nil {
		p.Title = f.Title
		if f.Kind == discover.AtomPMH {
			p.Kind = Feed
			p.Sets = []*Set{{Name: cmp.Or(f.Title, "feed"), URI: f.URI, Lists: []*reading.List{p.Read(f.URI)}}}
			return nil
		}
		return p.useRepository(ctx, f.URI)
	}
	p.Kind = Source
	if found.SourceDescription != "" {
		p.Facts = append(p.Facts, spool.Fact{Name: "Source Description", Value: found.SourceDescription})
	}
	for i := range found.Sets {
		s := &found.Sets[i]
		if s.Sitemap && len(found.Sets) == 1 {
			p.Kind = Sitemap
		}
		set := &Set{Name: s.Name, URI: s.CapabilityList, Err: s.Err}
		for _, c := range s.Capabilities {
			if c.Capability == resourcesync.ChangeNotification {
				set.Topic = c.URI
				continue
			}
			l := p.Read(c.URI)
			l.Name = cmp.Or(string(c.Capability), "sitemap")
			set.Lists = append(set.Lists, l)
		}
		for _, l := range s.Links {
			if l.Rel == atompmh.RelFeed {
				feed := p.Read(l.URI)
				feed.Name = "atom-pmh"
				set.Lists = append(set.Lists, feed)
			}
			set.Links = append(set.Links, spool.Link{Rel: l.Rel, Href: l.URI})
		}
		for _, hub := range s.Hubs {
			set.Links = append(set.Links, spool.Link{Rel: resourcesync.RelHub, Href: hub})
		}
		p.Sets = append(p.Sets, set)
	}
	for _, set := range p.Sets {
		set.Above = p.above(set.URI, found.SourceDescription)
	}
	return nil
}

// above returns the documents that lead to the lists of a set.
func (p *Place) above(capabilityList, description string) (lists []*reading.List) {
	if capabilityList != "" {
		l := p.Read(capabilityList)
		l.Name = string(resourcesync.CapabilityList)
		lists = append(lists, l)
	}
	if description != "" {
		l := p.Read(description)
		l.Name = string(resourcesync.Description)
		lists = append(lists, l)
	}
	return lists
}

// maxOAISets is how many sets of a repository are shown: each is a request when it is
// looked at, and some repositories have thousands.
const maxOAISets = 500

// useRepository describes a repository.
func (p *Place) useRepository(ctx context.Context, address string) error {
	base, prefix, set, err := oaipmh.ParseAddress(address)
	if err != nil {
		return err
	}
	p.Kind = Repository
	o := &reading.Repository{Client: p.Client, Base: base, Prefix: prefix}
	fact := func(name, value string) {
		if value != "" {
			p.Facts = append(p.Facts, spool.Fact{Name: name, Value: value})
		}
	}
	err = o.Ask(ctx, oaipmh.URL(base, oaipmh.VerbIdentify), func(r *oaipmh.Reader) error {
		id, err := r.Identify()
		p.Title = id.RepositoryName
		fact("name", id.RepositoryName)
		fact("administrator", strings.Join(id.AdminEmails, ", "))
		if !id.EarliestDatestamp.IsZero() {
			fact("earliest datestamp", id.EarliestDatestamp.Format("2006-01-02T15:04:05Z"))
		}
		fact("deleted records", string(id.DeletedRecord))
		fact("granularity", id.Granularity.String())
		return err
	})
	if err != nil {
		return err
	}
	_ = o.Ask(ctx, oaipmh.URL(base, oaipmh.VerbListMetadataFormats), func(r *oaipmh.Reader) error { // a repository can be read without
		formats, err := r.Formats()
		for _, f := range formats {
			fact("format", f.Prefix+" ("+f.Namespace+")")
		}
		return err
	})
	add := func(spec, name string) {
		uri := o.First(spec)
		l := p.list("oai:"+uri, func() *reading.List { return p.newList("records", uri, o) })
		p.Sets = append(p.Sets, &Set{Name: name, URI: uri, Lists: []*reading.List{l}})
	}
	add(set, cmp.Or(set, "all records"))
	if set == "" {
		_ = o.Ask(ctx, oaipmh.URL(base, oaipmh.VerbListSets), func(r *oaipmh.Reader) error { // most repositories have none
			sets, err := r.Sets()
			for _, s := range sets[:min(len(sets), maxOAISets)] {
				add(s.Spec, cmp.Or(s.Name, s.Spec))
			}
			return err
		})
	}
	return nil
}

// maxLists is how many lists a place keeps: each that was looked at has a temporary file.
const maxLists = 20_000

// errTooMany reports that too much was looked at.
var errTooMany = errors.New("too many documents were looked at; run lockstep explore again")

// list returns the list with a key, which create creates if there is none.
func (p *Place) list(key string, create func() *reading.List) *reading.List {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.lists[key]; l != nil {
		return l
	}
	l := create()
	if len(p.byID) >= maxLists {
		return p.newList(l.Name, l.URI, reading.Fixed(func(context.Context, func(*spool.Row) error) (reading.Result, error) {
			return reading.Result{}, errTooMany
		}))
	}
	p.lists[key] = l
	p.byID = append(p.byID, l)
	l.ID = len(p.byID)
	return l
}

// ByID returns the list with a number; nil if there is none.
func (p *Place) ByID(n int) *reading.List {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n < 1 || n > len(p.byID) {
		return nil
	}
	return p.byID[n-1]
}

func (p *Place) newList(name, uri string, o reading.Origin) *reading.List {
	return reading.New(name, uri, o, p.options.Start, p.options.Dir)
}

// Read returns the list of a document of any kind.
func (p *Place) Read(uri string) *reading.List {
	return p.list("document:"+uri, func() *reading.List { return p.newList("document", uri, reading.Any{Client: p.Client}) })
}

// Lines returns the list of the lines of a document.
func (p *Place) Lines(uri string) *reading.List {
	return p.list("lines:"+uri, func() *reading.List {
		return p.newList("xml", uri, &annotated.Document{Address: uri, Dir: p.options.Dir, Open: func(ctx context.Context) (io.ReadCloser, error) {
			body, _, err := reading.Body(ctx, p.Client, uri)
			return body, err
		}})
	})
}

// Package opens the package at an address or in a file.
func (p *Place) Package(ctx context.Context, uri string) (*packages.Package, error) {
	return p.packages.Get(ctx, uri, func() (*packages.Package, error) {
		if p.Kind == Package && len(p.Sets) > 0 && p.Sets[0].Lists[0].URI == uri && !strings.Contains(uri, "://") {
			return packages.File(uri)
		}
		return packages.Open(ctx, p.Client, uri, p.options.Dir)
	})
}

// Members returns the list of the entries and members of a package.
func (p *Place) Members(uri string) *reading.List {
	return p.list("package:"+uri, func() *reading.List {
		return p.newList("package", uri, reading.Fixed(func(ctx context.Context, add func(*spool.Row) error) (reading.Result, error) {
			z, err := p.Package(ctx, uri)
			if err != nil {
				return reading.Result{}, err
			}
			return z.Origin().Read(ctx, uri, add)
		}))
	})
}

// Made returns a list that is made when it is opened: the differences of a comparison,
// or the versions of a resource. Another one with the same key replaces it if again is
// set.
func (p *Place) Made(name, key string, again bool, origin reading.Fixed) *reading.List {
	if again {
		p.mu.Lock()
		delete(p.lists, name+":"+key)
		p.mu.Unlock()
	}
	return p.list(name+":"+key, func() *reading.List { return p.newList(name, key, origin) })
}

// Lists returns all lists of the place's sets.
func (p *Place) Lists() []*reading.List {
	var all []*reading.List
	for _, s := range p.Sets {
		all = append(all, s.Lists...)
	}
	return all
}
