// Package source publishes the resources of a catalog: it builds the documents of
// ResourceSync from the catalog, keeps them up to date, serves them, and notifies
// others of changes. Package publish does this for a directory in one call.
//
//	docs, err := blob.NewDir("/var/www", blob.DirOptions{})
//	src, err := source.New(cat, docs, source.Options{BaseURL: "https://data.example.org/"})
//	report, err := src.Publish(ctx)
//
// [Source.Publish] brings the documents in step with the catalog: the Resource
// List (the current resources of each set), the Change List (the changes since), the
// Capability List that names both, and the Source Description that names the
// sets. It writes to a [blob.Store], in an order that leaves a valid published
// state wherever it is interrupted, and writes nothing if nothing has changed.
// [Source.PublishDumps] does the same for dumps, which are packages of content and
// take longer to build. [Archive] configures which earlier documents are kept and
// named, and [Versions] offers prior versions of resources.
//
// [Source.Handler] serves the documents, and the resources beside them; any web
// server can do the same with a directory that Publish has filled.
// [Source.Notify] notifies hubs, and the handler offers event streams.
package source

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source/internal/archive"
	"lockstep/source/internal/atom"
	"lockstep/source/internal/describe"
	"lockstep/source/internal/description"
	"lockstep/source/internal/document"
	"lockstep/source/internal/dump"
	"lockstep/source/internal/lists"
	"lockstep/source/internal/names"
	"lockstep/source/internal/notify"
	"lockstep/source/internal/serve"
)

// ErrReplaced is what Set.Bitstream may return for a resource that is being replaced.
var ErrReplaced = serve.ErrReplaced

// What a Source does by default.
const (
	DefaultSet = "main"

	// defaultKeep is how long changes stay in the Change List: a reader that
	// comes once a month finds all it missed.
	defaultKeep = 720 * time.Hour

	// defaultGrace is how long replaced parts stay: a reader half way through
	// the old generation can finish it (RS-IDX-06).
	defaultGrace = 24 * time.Hour

	// defaultSmallSet is how many resources a set has at most whose Resource List
	// is taken again with every publication, see lists.Options.
	defaultSmallSet = 10_000
)

// A Set is resources that share a Capability List (RS-SET-01).
type Set struct {
	Name        string // part of addresses; default DefaultSet
	Path        string // its resources are those at and below this path relative to the base URL; default all
	Elsewhere   bool   // its resources do not lie below the base URL; Path says nothing then
	URI         string // what the URIs of its resources begin with, for Links; default the base URL and Path
	Description string // URI of information about the set (RS-CL-05); default Options.Description
	Title       string // for people, on pages and as the title of its feed; default Name
	Summary     string // what it contains, for people; may be empty

	ChangeList   ChangeList    // how its Change List is cut into parts
	ResourceDump *ResourceDump // nil: the set has none
	ChangeDump   *ChangeDump   // nil: the set has none
	Archive      *Archive      // what stays of its documents of the past; nil: nothing
	Atom         *Atom         // its Atom-PMH feed; nil: it has none
	OAI          string        // the address of a repository of OAI-PMH with it, for pages; empty: none
	Links        []LinkRule    // links every entry gets, beside those in the catalog

	// Private limits the set to its readers: no document or page about the Source as a
	// whole names it, and what belongs to it is answered only to requests that
	// [WithReader] marks. That is what is below its Path, except resources that public sets
	// have there, its documents, and the versions of its resources.
	Private bool

	// Content opens the resources of a private set, which Options.Content must not open.
	// It is otherwise like that. Public sets need none.
	Content func(rel string) (*os.File, fs.FileInfo, error)

	// Bitstream opens the present representation of a resource; it fails with
	// fs.ErrNotExist if it is gone. Dumps need it. What it yields may differ
	// from what r says, if the resource has changed since; with [ErrReplaced] it
	// reports that it would, and is called again with a newer record.
	Bitstream func(ctx context.Context, r *catalog.Record) (io.ReadCloser, error)

	// Serve has the Handler serve the set's resources by Bitstream, where they
	// lie below the base URL and Options.Content has none there.
	Serve bool

	// Sandbox has browsers give the set's resources and their versions an origin of their own
	// (Content-Security-Policy: sandbox), because others have written them: their scripts
	// cannot use a credential for this host that the browser remembers.
	Sandbox bool

	// Past opens the representation a change brought, the very bytes of its
	// hash, however often the resource has changed since; it fails with
	// fs.ErrNotExist if they were not kept. A Change Dump needs it.
	Past func(ctx context.Context, c *catalog.Change) (io.ReadCloser, error)

	Versions *Versions // nil: it keeps no prior versions

	// Hold, if not nil, reports whether the set is not to be published for the first
	// time yet. Until it is, the Source Description names it, and requests for its
	// documents are answered with 503. It says nothing of a set that was published before.
	Hold func() bool
}

// A ChangeList says how a set's Change List is cut and kept. The zero value is
// one open document while the changes fit it, kept for Options.Keep.
type ChangeList struct {
	Rotate  time.Duration // close the open part when its first change is this old; 0 never by age
	Entries int           // and when it has so many; 0: as many as a document may have, or 10,000 once there are parts
	Keep    time.Duration // how long its changes are kept at least; default Options.Keep, never less than Options.Grace
}

// A ResourceDump says when a set's Resource Dump is built, and how it is cut.
type ResourceDump struct {
	Every          time.Duration // build a new one, there being changes, when the last is this old; default 24 h
	Keep           int           // so many stay, the newest included, if each is built when it is due; replaced ones never less than Options.Grace
	PackageBytes   int64         // of content in one package; default 1 GiB; a larger resource is a package of its own
	PackageEntries int           // resources in one package; default and limit 50,000
}

// A ChangeDump says when packages are added to a set's Change Dump.
type ChangeDump struct {
	Every          time.Duration // add a package, there being changes, when the last is this old; default 1 h
	PackageBytes   int64         // as of a ResourceDump
	PackageEntries int
}

// A LinkRule gives entries of a set a link to a related resource (RS-REL-01).
//
// What a record says of itself goes before: a link it has already is not added
// again, nor a second one of a relation that may stand once. A link to the
// resource itself is left out.
type LinkRule struct {
	Match string            // glob on the decoded path below the set's own, ** for any number of directories; default all
	Href  string            // with {path}, the encoded path below the set's own, and {uri}; behind a ? both are encoded once more
	Link  resourcesync.Link // its Href is taken from the rule
}

// described returns what the entries of the set depend on.
func (set *Set) described() *describe.Set {
	d := &describe.Set{Name: set.Name, Path: set.Path, Elsewhere: set.Elsewhere, URI: set.URI, Versions: set.Versions.kept()}
	for _, l := range set.Links {
		d.Links = append(d.Links, describe.LinkRule(l))
	}
	return d
}

// Options configures a [Source]. Only BaseURL is required.
type Options struct {
	BaseURL     string // http or https; all addresses are below it
	Sets        []Set  // default: one set of all resources
	Title       string // of the collection, for people; may be empty
	Summary     string // what it contains, for people; may be empty
	Explore     string // address of pages on which its sets are browsed, for the home page; may be empty
	Description string // URI of information about the Source (RS-SD-03); default the page at BaseURL if Content is given, else the page beside the documents

	// Content opens the resource at the slash-separated path rel below the base
	// URL, in any bytes; it fails with fs.ErrNotExist if there is none. It must
	// itself refuse what is not to be served and stay within its bounds. Without
	// it, only documents are served.
	Content func(rel string) (*os.File, fs.FileInfo, error)

	// Mark distinguishes the state of the file that Content opens at rel from every
	// other state it was or will be in, without opening it; it fails where
	// Content does. Without it, [Source.Front] answers for documents only.
	Mark func(rel string) (string, error)

	// Type returns the media type of a resource, or "", by its path and its
	// first bytes, up to 3 KiB. It should say what the catalog says. Default:
	// by the name's extension.
	Type func(rel string, head []byte) string

	Keep       time.Duration        // how long changes are kept; default 720 h, never less than Grace
	Grace      time.Duration        // how long replaced parts are kept; default 24 h
	SmallSet   int                  // sets up to this size get a new Resource List with every change, larger ones when it pays; default 10,000
	MaxEntries int                  // entries of one document; default and limit resourcesync.MaxEntries
	MaxBytes   int64                // size from which a document is full; default and limit resourcesync.MaxBytes
	Workers    int                  // parts written at once; default: as there are processors, at most 8
	Hubs       []Hub                // are notified of changes; see Source.Notify
	OnNotify   func(Notification)   // called after each attempt to notify a hub, from several goroutines; may be nil
	OnFront    func(*FrontResponse) // called after each response that [Source.Front] has sent by itself, from many goroutines; delays the next one on its connection; may be nil
	Streams    int                  // event streams of notifications at a time, see RelEvents; 0: none. Only the Handler gives them
	Restart    bool                 // what is published is not of this catalog: the first Publish restarts the history of changes
	Static     bool                 // others serve the documents: what is at the topics is written as one of them
	OnDemand   *OnDemand            // dumps of what a client asks for; nil: none. Only the Handler gives them
	OnlySets   bool                 // documents of sets that are not among Sets, and may have been private, are not served; implied if a set is private
	Temp       string               // directory for temporary files, which have no name there; default os.TempDir
	Now        func() time.Time
	Logger     *slog.Logger // default: discards
}

// A Source publishes the sets of a catalog and serves them. All methods are
// safe for concurrent use.
type Source struct {
	catalog catalog.Catalog
	docs    *document.Store
	opts    Options
	rules   map[string]describe.Rules // of each set
	page    atomic.Pointer[summary]   // what the home page says; nil before the first Publish

	publishingAll sync.Mutex // one Publish at a time; held across IO, for that is its purpose

	publishing sync.Mutex   // documents are switched by one goroutine at a time; held across IO
	lists      *lists.Lists // this and what follows is guarded by publishing, except for the Run of a Build
	feeds      *atom.Feeds
	looked     time.Time       // when all documents were last found where they belong; zero: look
	held       map[string]bool // sets that are not published yet; see Set.Hold

	channels *notify.Channels
	states   *serve.States // of what the front may answer for

	description *description.Documents

	archives *archive.Archives

	dumping sync.Mutex // one PublishDumps at a time; held across IO, for that is its purpose
	dumps   *dump.Dumps
}

// New returns a Source of what c holds that keeps its documents in docs. It
// reads and writes nothing yet.
func New(c catalog.Catalog, docs blob.Store, o Options) (*Source, error) {
	b, err := names.ParseBase(o.BaseURL)
	if err != nil {
		return nil, err
	}
	o, err = o.withDefaults(b)
	if err != nil {
		return nil, err
	}
	store := &document.Store{Store: docs, Base: b, MaxEntries: o.MaxEntries, MaxBytes: o.MaxBytes, Now: o.Now, Log: o.Logger}
	s := &Source{catalog: c, docs: store, opts: o, feeds: atom.New(store, c, o.Temp, o.Grace), archives: archive.New(store), rules: make(map[string]describe.Rules), held: make(map[string]bool)}
	for i := range o.Sets {
		if s.rules[o.Sets[i].Name], err = describe.Compile(o.Sets[i].described(), b); err != nil {
			return nil, err
		}
		if err := checkAtom(b, &o.Sets[i]); err != nil {
			return nil, fmt.Errorf("set %q: %w", o.Sets[i].Name, err)
		}
	}
	s.description, s.channels = s.newDescription(), s.newChannels()
	s.states = &serve.States{Docs: store, ID: rand.Text()}
	if o.Content != nil {
		s.states.Mark = o.Mark
	}
	s.dumps = s.newDumps()
	s.lists = s.newLists()
	return s, nil
}

func defaultWorkers() int { return min(runtime.GOMAXPROCS(0), 8) }

func (o Options) withDefaults(b names.Base) (Options, error) {
	o.Sets = append([]Set(nil), o.Sets...)
	if len(o.Sets) == 0 {
		o.Sets = []Set{{}}
	}
	seen := make(map[string]bool)
	for i := range o.Sets {
		set := &o.Sets[i]
		if set.Name == "" {
			set.Name = DefaultSet
		}
		if _, err := CapabilityListURI(o.BaseURL, set.Name); err != nil {
			return o, err
		}
		if seen[set.Name] {
			return o, fmt.Errorf("set %q is configured twice", set.Name)
		}
		seen[set.Name] = true
		if err := set.Archive.check(); err != nil {
			return o, fmt.Errorf("set %q: %w", set.Name, err)
		}
	}
	if err := o.dumpDefaults(); err != nil {
		return o, err
	}
	if err := checkVersions(o.Sets); err != nil {
		return o, err
	}
	if err := o.checkPrivate(); err != nil {
		return o, err
	}
	if err := checkHubs(o.Hubs); err != nil {
		return o, err
	}
	o.Hubs = slices.Clone(o.Hubs)
	switch {
	case o.Description != "":
	case o.Content != nil:
		o.Description = b.URI(names.Home)
	default:
		o.Description = b.URI(names.Hint) // is there whichever server serves the documents
	}
	if o.Type == nil {
		o.Type = typeByExtension
	}
	if o.Grace <= 0 {
		o.Grace = defaultGrace
	}
	if o.Keep <= 0 {
		o.Keep = defaultKeep
	}
	o.Keep = max(o.Keep, o.Grace)
	if o.SmallSet <= 0 {
		o.SmallSet = defaultSmallSet
	}
	if o.MaxEntries <= 0 || o.MaxEntries > resourcesync.MaxEntries {
		o.MaxEntries = resourcesync.MaxEntries
	}
	if o.MaxBytes <= 0 || o.MaxBytes > resourcesync.MaxBytes {
		o.MaxBytes = resourcesync.MaxBytes
	}
	if o.Workers <= 0 {
		o.Workers = defaultWorkers()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}
