// Package atompmh keeps a set of a catalog in step with a feed by Atom-PMH: it
// reads the documents of the feed, finds the newest entry of each record and
// applies what changed since the harvest before.
package atompmh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/harvest/ledger"
	"lockstep/intake/internal/fault"
	"lockstep/internal/fetch"
	"lockstep/internal/sleep"
	"lockstep/resourcesync"
)

// Options configures a [Harvester]. The zero value is valid.
type Options struct {
	// Types are the media types of the requested representations, including "text/*"
	// and "*/*"; parameters are not compared. Default: all. A record whose newest
	// entry no longer has any of them is treated as deleted (AP-CDL-07), unless
	// KeepVanished is set.
	Types        []string
	KeepVanished bool

	// Content fetches the contents of new and changed resources to state their
	// hash, length and type. Without it the catalog states only what the feed does.
	Content bool

	// Algorithms are the hashes to state with Content; default MD5 and SHA-256.
	Algorithms []resourcesync.Algorithm

	// AllowEmpty lets a harvest delete everything, or most of the set, because
	// it is absent from a complete feed.
	AllowEmpty bool

	// AcceptFeed accepts a feed with another id than before as the origin of the
	// set from now on. Without it a different id is an [AnotherFeedError].
	AcceptFeed bool

	// Overlap is how far before the watermark entries are examined again, for
	// producers that publish entries later than they date them; default 0.
	Overlap time.Duration

	// FullInterval is the time after which the whole chain is read again; default
	// [intake.DefaultFullInterval]; negative: never.
	FullInterval time.Duration

	// TrustArchives uses the remembered contents of an archive document without
	// checking that they are still valid.
	TrustArchives bool

	// AllowHosts are hosts that may have documents of the feed in addition to its
	// own host and hosts below it; "*" allows any.
	AllowHosts []string

	// MaxDocuments and MaxBytes limit one walk; defaults [MaxDocuments] and
	// [MaxBytes].
	MaxDocuments int
	MaxBytes     int64

	// TempDir is for unnamed temporary files in which entries are sorted; default:
	// that of the system.
	TempDir string

	// State is the path of a file that stores the position in the feed between
	// runs; default: the position is not stored, and the next run reads everything.
	State string

	// ScanInterval is how often Watch checks for changes; default [DefaultInterval];
	// negative: never.
	ScanInterval time.Duration

	// OnEvent receives events, never concurrently; may be nil. It must not call
	// the Harvester.
	OnEvent func(intake.Event)
}

// Defaults of [Options].
const (
	DefaultInterval = 5 * time.Minute
	MaxDocuments    = 100_000 // AP-HV-09: each is a request
	MaxBytes        = 1 << 40
)

// ErrEnded reports a feed that has ended (status 410): harvested resources stay,
// and requesting the feed again is pointless.
var ErrEnded = errors.New("the feed has ended")

// An AnotherFeedError reports that the address of a feed now leads to a different feed.
type AnotherFeedError struct {
	Address string // of the subscription document
	Was, Is string // ids of the feeds
}

// Error names both feeds, not the address.
func (e *AnotherFeedError) Error() string {
	return fmt.Sprintf("the feed was replaced by another: its id is %q, and was %q", fetch.Printable(e.Is), fetch.Printable(e.Was))
}

// Hint returns the remedy.
func (e *AnotherFeedError) Hint() string {
	return "see that the address is right; if the other feed is to take its place, say so: accept_feed: true"
}

// Status is the position up to which a feed was harvested.
type Status struct {
	Address   string    // as passed to New, without user name and password
	ID, Title string    // of the feed
	Watermark time.Time // all entries updated before it are applied
	Complete  bool      // the feed lists all records: a record that it does not list is gone
	Whole     bool      // everything available was harvested at least once
	Gap       string    // address of an archive document that is not available; "" if there is none
}

// A Harvester keeps a set of a catalog in step with the logical feed that begins at
// a subscription document (Atom-PMH 1.0). It lists each record as the resources to
// which its alternate links lead.
//
// Every resource has Lastmod from its entry and a link to the record's identifier
// ([catalog.RelRecord]). If a record has several resources, the first has alternate
// links to the others, and these have a canonical link to the first. A length in the
// feed is only a hint, and is not stated.
//
// The state of each record is stored in a [ledger.Ledger]. Only one Harvester may
// fill a set. Its methods are safe for concurrent use; harvests run one at a time.
type Harvester struct {
	in     intake.Origin
	client *fetch.Client
	ledger ledger.Ledger
	o      Options
	web    *intake.Web

	types    []string   // requested types, in lower case
	scanning sync.Mutex // held by a harvest

	mu     sync.Mutex // guards memory, known and ended
	memory feedMemory
	known  bool // memory was read from State
	ended  bool
}

// New returns a Harvester that fills the set of cat from the feed at
// address and stores the state of its records in ledger. It uses the client c, and leaves
// out a user name and password in address, which are for the client's Home.
func New(address string, c *fetch.Client, cat catalog.Catalog, set string, ledger ledger.Ledger, o Options) (*Harvester, error) {
	if address == "" {
		return nil, errors.New("atom-pmh: the address is missing")
	}
	address = fetch.WithoutUser(address)
	if c == nil {
		return nil, fmt.Errorf("atom-pmh %s: %w", fetch.Printable(address), fault.ErrNoClient)
	}
	o.Algorithms = intake.Algorithms(o.Algorithms)
	if o.ScanInterval == 0 {
		o.ScanInterval = DefaultInterval
	}
	if o.FullInterval == 0 {
		o.FullInterval = intake.DefaultFullInterval
	}
	if o.MaxDocuments <= 0 {
		o.MaxDocuments = MaxDocuments
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = MaxBytes
	}
	var types []string
	for _, t := range o.Types {
		types = append(types, strings.ToLower(strings.TrimSpace(t)))
	}
	return &Harvester{
		types:  types,
		in:     intake.Origin{Name: address, Catalog: cat, Set: set, TempDir: o.TempDir, AllowEmpty: o.AllowEmpty, Events: intake.Reporter{OnEvent: o.OnEvent}},
		client: c, ledger: ledger, o: o, web: intake.NewWeb(c),
	}, nil
}

// Scan brings the catalog in step with the feed: it calls [Harvester.Harvest], which
// performs a full harvest when one is due.
func (a *Harvester) Scan(ctx context.Context) (intake.Report, error) { return a.Harvest(ctx, false) }

// Harvest brings the catalog in step with the feed as it is now; if full is set, it
// reads the whole chain of documents. The Report is correct, as far as the harvest
// got, even if there is an error. If something is Unreadable the harvest was not
// complete: everything readable is applied, and the next harvest tries again.
//
// Errors that callers branch on: [ErrEnded], an [AnotherFeedError], [intake.ErrEmpty].
func (a *Harvester) Harvest(ctx context.Context, full bool) (intake.Report, error) {
	a.scanning.Lock()
	defer a.scanning.Unlock()
	start := time.Now()
	r, err := a.harvest(ctx, full)
	r.Elapsed = time.Since(start)
	a.mu.Lock()
	a.ended = errors.Is(err, ErrEnded)
	a.mu.Unlock()
	if err != nil {
		return r, fmt.Errorf("harvest %s: %w", fetch.Printable(a.in.Name), intake.Cause(ctx, err))
	}
	return r, nil
}

// harvest harvests once, and once more if a representation was missing, since a newer
// entry may explain why (AP-CDL-05).
func (a *Harvester) harvest(ctx context.Context, full bool) (intake.Report, error) {
	var before intake.Report
	for again := false; ; again = true {
		h, err := a.newHarvest(full && !again)
		if err != nil {
			return before, err
		}
		err = h.run(ctx)
		r := h.list.Report()
		h.close()
		r.Created += before.Created
		r.Updated += before.Updated
		r.Deleted += before.Deleted
		r.Hashed += before.Hashed
		r.Bytes += before.Bytes
		if again {
			before.Unreadable.Merge(&r.Unreadable)
			before.Skipped.Merge(&r.Skipped)
			r.Unreadable, r.Skipped = before.Unreadable, before.Skipped
		}
		if err != nil || again || !h.pending.Load() {
			return r, err
		}
		before = r
	}
}

// Watch scans at once, and again every [Options.ScanInterval], until ctx
// ends; then it returns the cause. A feed that has ended is not requested again.
// onChange is called for every scan that changed the catalog, or failed: then it may
// have changed more than it reports. The next one waits until it returns. Errors are
// passed to [Options.OnEvent], and the scan is retried.
func (a *Harvester) Watch(ctx context.Context, onChange func(intake.Report)) error {
	return a.in.Watch(ctx, a.Scan, a.due, onChange)
}

// due waits for the time of the next scan.
func (a *Harvester) due(ctx context.Context) error {
	a.mu.Lock()
	ended := a.ended
	a.mu.Unlock()
	if a.o.ScanInterval < 0 || ended {
		return intake.Forever(ctx)
	}
	return sleep.For(ctx, a.o.ScanInterval)
}

// Bitstream opens the representation of r at its URI. See [intake.Web.Bitstream].
func (a *Harvester) Bitstream(ctx context.Context, r *catalog.Record) (io.ReadCloser, error) {
	return a.web.Bitstream(ctx, r)
}
