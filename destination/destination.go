package destination

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"lockstep/blob"
	"lockstep/destination/filename"
	"lockstep/destination/internal/apply"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/dump"
	"lockstep/destination/internal/reserve"
	"lockstep/destination/internal/selection"
	"lockstep/destination/internal/transfer"
	"lockstep/destination/internal/turns"
	"lockstep/destination/journal"
	"lockstep/destination/share"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/vault"
)

// StateFile is the path of the Journal below a mirror's directory.
const StateFile = filename.StateDir + "/state.db"

// Delete says what happens to resources the Source no longer has.
type Delete string

// Values of Options.Delete. The default is DeleteApply for documents that state what
// they cover, and DeleteKeep for plain Sitemaps, which do not (RS-RL-12).
const (
	DeleteApply Delete = "apply"
	DeleteKeep  Delete = "keep"
)

// DefaultMaxDelete is the share of a set, in percent, that a run may delete without
// explicit consent.
const DefaultMaxDelete = 50

// Options configures a [Destination]. The zero value is ready to use.
type Options struct {
	Sets       []string       // names or URIs of the sets to follow; default: all
	Include    []string       // globs on the URI; default: all
	Exclude    []string       // globs on the URI, stronger than Include
	Types      []string       // globs on the media type; default: all
	With       []string       // relations of links to resources that are selected together with the one that has them: "describedby"; default: none
	Filters    []Filter       // rules on the URI, of which the first that matches decides; default: none
	MinSize    int64          // only resources of at least this length, or without a stated length
	MaxSize    int64          // only resources of at most this length, or without a stated length; default: any
	MinAge     time.Duration  // a resource is taken when it was last modified this long ago, or has no stated time
	MaxAge     time.Duration  // a resource is taken only if it was last modified within this time, or has no stated time; one that the mirror has stays when it grows older; default: any
	Since      time.Time      // only resources last modified then or later, or without a stated time; default: all
	Maps       []filename.Map // where the files of resources are stored that are not to be named by their URI
	AllowHosts []string       // hosts whose resources the Source may name besides its own; "*" is any (RS-SEC-01)
	Prefer     []string       // globs on the media type, best first: the representation to keep where the Source names several (RS-REL-23); default: the one at the resource's own URI
	Delete     Delete
	MaxDelete  int        // in percent; default DefaultMaxDelete; 100 permits every deletion
	Baseline   bool       // ignore saved progress: compare all resources, and accept the Source's state even if it is older
	AskNow     bool       // also request what servers have asked not to be requested before a later time
	DryRun     bool       // plan and report only
	NamePlans  bool       // with DryRun: an [EventPlanned] for each resource that would change
	Adopt      bool       // make existing files part of the mirror if their content is right
	Replace    bool       // with Adopt: replace those whose content is not right
	CheckLocal CheckLocal // when to examine the mirror's own files
	VerifyAll  bool       // verify all hashes that the Source states, not only the strongest (RS-HASH-06)
	Jobs       int        // concurrent fetches; default: those of the Client
	OpenFiles  int        // that may be open at a time; default: as many as the process may have

	// Via restricts the transfer methods: "" or ViaAuto chooses the cheapest,
	// ViaList uses single requests only, ViaDump uses packages wherever there
	// are any.
	Via string

	// AllVersions applies every available version of a resource that changed more
	// than once, in order, instead of the last one only.
	AllVersions bool

	// Keep selects the versions of replaced and removed resources that the mirror
	// stores in Versions, so that it can be brought back to a past state (see
	// [Destination.SyncPast]). All operations on a mirror that keeps versions need
	// Versions; a mirror that keeps none does not use it.
	Keep     Keep
	Versions blob.Store

	// At, if not zero, brings the mirror to the state of the collection at that
	// instant (RA-DST-02, RA-DST-03). The next run without it continues from there.
	At time.Time

	// Bridge opens the Origin at an address that has no ResourceSync documents but
	// can be harvested. Without it, such a Source is an error. Each pass over the
	// set opens the Origin and closes it.
	Bridge func(ctx context.Context, f discover.Foreign, o BridgeOptions) (Origin, error)

	Portable bool // name files for file systems that fold case or refuse characters, see [filename.ProbePortable]

	// Deliver, if not nil, receives the changes of each batch when they are
	// durable, in order, one batch at a time; the run continues when it has
	// returned. Each change is delivered at least once: the Journal keeps them
	// until Deliver has returned nil. If it returns an error, the run stops
	// with a [DeliveryError], and the next run delivers them again. The callee
	// owns the slice.
	Deliver func(ctx context.Context, batch []Change) error

	// DeliverStatements has Deliver also receive resources of which nothing has changed
	// but what the Source states of their content, such as its lastmod
	// ([journal.Stated]). Their Content is ContentSame; Reports and events do not count
	// them as changes.
	DeliverStatements bool

	// Scratch stores packages that have to be available as a whole; default: the
	// store, if it is able to.
	Scratch blob.Scratcher

	// Share, if not nil, has other processes fetch contents. Store must commit what they
	// have with [share.Pool.Commit].
	Share *share.Pool

	Dest    string       // name of the mirror in reports
	OnEvent func(Event)  // called in order, never concurrently; may be nil
	Logger  *slog.Logger // default: discards
}

// A Filter selects the resources whose URI matches a glob, or leaves them out. What no filter
// matches is selected.
type Filter = selection.Filter

// A Destination keeps the contents of a store in step with a Source.
type Destination struct {
	store    blob.Store
	journal  journal.Journal
	client   *fetch.Client
	opts     Options
	selects  *selection.Selection
	vault    *vault.Vault     // nil: no version store is configured
	clock    func() time.Time // of the mirror
	jobs     int              // concurrent transfers from one host
	open     int              // files of a batch that may be open
	kept     int              // versions that may be open while they are stored
	log      *slog.Logger
	shared   *transfer.Shared // by all transfers
	packages *dump.Opener     // opens packages
	compare  bool             // runs compare all resources, whatever is known
	patience time.Duration    // for which a set may be slow while others wait

	follows    bool          // used by a Follower
	doubtEvery time.Duration // of a Follower: how often all of a set is compared because its documents do not list what was notified

	eventMu sync.Mutex // one event at a time
}

// Validate returns an error that says what to change if the options contradict each other,
// or one of them is not valid.
func (o Options) Validate() error {
	_, err := o.selection()
	return err
}

// selection checks the options and returns what they select.
func (o *Options) selection() (*selection.Selection, error) {
	if o.MaxDelete < 0 || o.MaxDelete > 100 {
		return nil, fmt.Errorf("max-delete %d: want a share of 1 to 100 percent", o.MaxDelete)
	}
	switch o.Delete {
	case "", DeleteApply, DeleteKeep:
	default:
		return nil, fmt.Errorf("delete %q: want %s or %s", o.Delete, DeleteApply, DeleteKeep)
	}
	switch o.Via {
	case "", ViaAuto, ViaList, ViaDump:
	default:
		return nil, fmt.Errorf("via %q: want %s, %s or %s", o.Via, ViaAuto, ViaList, ViaDump)
	}
	switch o.CheckLocal {
	case CheckAuto, CheckAlways, CheckDaily, CheckNever:
	default:
		return nil, fmt.Errorf("check-local %q: want %s, %s or %s", o.CheckLocal, CheckAlways, CheckDaily, CheckNever)
	}
	sel, err := selection.New(selection.Rules{Include: o.Include, Exclude: o.Exclude, Types: o.Types, Filters: o.Filters,
		MinSize: o.MinSize, MaxSize: o.MaxSize, MinAge: o.MinAge, MaxAge: o.MaxAge, Since: o.Since, Hosts: o.AllowHosts, Prefer: o.Prefer, With: o.With})
	if err != nil {
		return nil, err
	}
	return sel, o.Keep.check()
}

// New returns a Destination that keeps resources in store and its state in j. If the
// options contradict each other, it returns an error that says what to change.
func New(store blob.Store, j journal.Journal, c *fetch.Client, o Options) (*Destination, error) {
	if o.MaxDelete == 0 {
		o.MaxDelete = DefaultMaxDelete
	}
	sel, err := o.selection()
	if err != nil {
		return nil, err
	}
	jobs := min(o.Jobs, fetch.MaxJobs)
	if jobs <= 0 {
		// Twice what the Client allows: a job that waits for a retry does not
		// block others.
		o.Jobs, jobs = c.Jobs(), 2*c.Jobs()
	}
	open, kept := mostOpen, mostOpen
	if n := cmp.Or(o.OpenFiles, fetch.OpenFiles()); n > 0 { // a job takes a file, the directories it is made in and perhaps a connection; one batch gathers while one is committed; and there is more to be open
		spare := max(n-fetch.OwnFiles, 0)
		jobs, open, kept = max(min(jobs, spare/8), 1), max(min(open, spare/8), 1), max(min(kept, spare/16), 1)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	d := &Destination{store: store, journal: j, client: c, opts: o, jobs: jobs, open: open, kept: kept, selects: sel,
		shared: transfer.NewShared(), log: o.Logger, clock: time.Now, patience: turns.Patience}
	room := o.Scratch
	if room == nil {
		room, _ = store.(blob.Scratcher)
	}
	d.packages = dump.NewOpener(c, room, o.VerifyAll)
	if o.Versions != nil {
		d.vault = vault.New(o.Versions, vault.Options{Compress: true, Logger: o.Logger})
	}
	switch keeps := o.Keep != (Keep{}) && !o.Keep.None; {
	case keeps && d.isForgetful():
		return nil, errors.New("a mirror without files has no versions to keep")
	case keeps && d.vault == nil:
		return nil, errors.New("no version store is configured (Options.Versions)")
	}
	return d, nil
}

// newFetcher returns what fetches content of a set, of now, to files named by paths.
func newFetcher(d *Destination, set int, paths *filename.Mapping) *transfer.Fetcher {
	return &transfer.Fetcher{
		Client: d.client, Store: d.store, Shared: d.shared, Log: d.log, Clock: d.clock, Lookup: d.journal.Lookup, OnDisk: apply.OnDisk(d.store, d.inDest()),
		Set: set, Names: reserve.New(paths, d.store), Adopt: d.opts.Adopt, FilesReadable: !d.isForgetful(),
		Hashers: content.Hashers{All: d.opts.VerifyAll},
	}
}

// mostOpen caps the files that a run may have open at a time.
const mostOpen = 256

// inDest names the mirror in the middle of a sentence.
func (d *Destination) inDest() string {
	if d.opts.Dest == "" {
		return ""
	}
	return " in " + d.opts.Dest
}
