// Package oaipmh keeps a set of a catalog in step with a repository by OAI-PMH: it
// lists the records that changed since the last harvest, and stores their metadata.
package oaipmh

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/internal/fault"
	"lockstep/internal/fetch"
	"lockstep/internal/sleep"
	"lockstep/oaipmh"
	"lockstep/resourcesync"
)

// Options configures a [Harvester]. The zero value is ready to use.
type Options struct {
	Prefix  string // metadataPrefix, of the format; default [oaipmh.DublinCore]
	SetSpec string // harvest this set of the repository only

	// URI returns the URI of a record in the catalog, a different one for each
	// record. A record for which it returns "" has none and is skipped.
	// Default: its GetRecord address, [oaipmh.RecordURL].
	URI func(identifier string) string

	// Contents stores the bytes of the records. Default: none, and each record is
	// requested by GetRecord when it is opened.
	Contents intake.Contents

	// Algorithms are the hashes to compute; SHA-256 is always added. Default MD5 and
	// SHA-256.
	Algorithms []resourcesync.Algorithm

	// AllowEmpty lets a full harvest delete everything, or most of the set.
	AllowEmpty bool

	// State is the path of a file that stores the progress of the harvests from run to
	// run. Default: none, and the progress is lost with the Harvester.
	State string

	// TempDir is for an unnamed temporary file that lists the resources to delete;
	// default: that of the system.
	TempDir string

	// ScanInterval is how often Watch harvests; default [DefaultInterval];
	// negative: never.
	ScanInterval time.Duration

	// FullInterval is how often everything is harvested again, which alone detects
	// records that were removed without being marked as deleted; default
	// [intake.DefaultFullInterval]; negative: never.
	FullInterval time.Duration

	// OnEvent receives events, never concurrently; may be nil. It must not call the
	// Harvester.
	OnEvent func(intake.Event)
}

const (
	// DefaultInterval limits the load: each request costs a repository a search.
	DefaultInterval = 10 * time.Minute

	// harvestOverlap is how much earlier than the first response of the last harvest
	// the next one starts: a repository may list a record a little later than its
	// datestamp says.
	harvestOverlap = time.Minute
)

// A Harvester keeps a set of a catalog in step with a repository that speaks
// OAI-PMH 2.0: each record in one format is a resource, the bytes of which are the
// element in <metadata> as a document of its own.
//
// The first harvest requests everything. Later ones request the records with a
// datestamp at or after the time of the last harvest's first response, by the
// repository's own clock. A record that is marked as deleted is deleted; one that was
// removed without such a mark is detected by the next full harvest
// ([Options.FullInterval]). A record that cannot be read is a Problem and stays as it
// was, and then no record is deleted because it is not listed.
//
// Order of writes: contents, catalog, progress of the harvest; so a crash at any point
// only repeats the last batch.
//
// Only one Harvester may fill a set. Its methods are safe for concurrent use; harvests
// run one at a time.
type Harvester struct {
	in     intake.Origin
	client *fetch.Client
	o      Options
	base   string
	algs   []resourcesync.Algorithm

	scanning sync.Mutex // held by a harvest; guards the following fields
	memory   memory
	saved    time.Time // when memory was saved last
	recalled bool      // memory was read from State
	stale    bool      // the harvest in progress was interrupted before
	server   *oaipmh.Identify

	junk sync.Map // verbs whose responses have something in front of the XML document, and of which that was reported
}

// A Stretch limits one call of [Harvester.Harvest]; zero means no limit.
type Stretch struct {
	Full    bool          // harvest everything again; a full harvest in progress is continued
	Records int64         // how many records are listed
	Time    time.Duration // how long it may take
}

// New returns a Harvester that fills the set of cat from the repository at
// base, its base URL. Requests are sent through c; a user name and password in base, which
// are for the Home of c, are left out.
func New(base string, c *fetch.Client, cat catalog.Catalog, set string, o Options) (*Harvester, error) {
	if base == "" {
		return nil, errors.New("OAI-PMH: the address is missing")
	}
	base = fetch.WithoutUser(base)
	if c == nil {
		return nil, fmt.Errorf("OAI-PMH %s: %w", fetch.Printable(base), fault.ErrNoClient)
	}
	base, _, _ = strings.Cut(base, "#")
	if o.Prefix == "" {
		o.Prefix = oaipmh.DublinCore
	}
	if o.ScanInterval == 0 {
		o.ScanInterval = DefaultInterval
	}
	if o.FullInterval == 0 {
		o.FullInterval = intake.DefaultFullInterval
	}
	h := &Harvester{
		in:     intake.Origin{Name: base, Catalog: cat, Set: set, TempDir: o.TempDir, AllowEmpty: o.AllowEmpty, Events: intake.Reporter{OnEvent: o.OnEvent}},
		client: c, o: o, base: base, algs: intake.Algorithms(o.Algorithms),
	}
	if h.o.URI == nil {
		h.o.URI = func(id string) string { return oaipmh.RecordURL(base, o.Prefix, id) }
	}
	if !slices.Contains(h.algs, resourcesync.SHA256) {
		h.algs = append(h.algs, resourcesync.SHA256)
	}
	return h, nil
}

// Scan brings the catalog in step with the repository: with the changes since the
// last harvest, or with all of it if a full harvest is due. The Report is correct, as
// far as the harvest got, even if there is an error.
func (h *Harvester) Scan(ctx context.Context) (intake.Report, error) {
	r, _, err := h.Harvest(ctx, Stretch{})
	return r, err
}

// Harvest is Scan in stretches: it returns when s is used up, and reports more if the
// harvest has not reached its end; the next call continues it. The records listed so
// far are in the catalog by then. After a crash the harvest continues if the
// repository still accepts its resumption token.
func (h *Harvester) Harvest(ctx context.Context, s Stretch) (r intake.Report, more bool, err error) {
	h.scanning.Lock()
	defer h.scanning.Unlock()
	v := &harvest{h: h, list: h.in.NewListing(), stretch: s, began: time.Now()}
	defer v.list.Close()
	stop := v.list.Progress()
	more, err = v.run(ctx)
	stop()
	r = v.list.Report()
	if err != nil {
		return r, false, fmt.Errorf("harvest %s: %w", fetch.Printable(h.base), intake.Cause(ctx, err))
	}
	return r, more, nil
}

// Watch scans at once, and again every [Options.ScanInterval], until ctx ends; then
// it returns the cause. onChange is called after every scan that changed the catalog, or
// failed: then it may have changed more than it reports. The next scan waits until it
// returns. Errors are reported to [Options.OnEvent], and the scan is retried.
func (h *Harvester) Watch(ctx context.Context, onChange func(intake.Report)) error {
	return h.in.Watch(ctx, h.Scan, func(ctx context.Context) error {
		if h.o.ScanInterval < 0 {
			return intake.Forever(ctx)
		}
		return sleep.For(ctx, h.o.ScanInterval)
	}, onChange)
}

// A Status is the progress of the harvests.
type Status struct {
	Whole    bool      // everything was harvested at least once, and nothing was missed
	Complete bool      // the last harvest reached its end, and all of it could be read
	Until    time.Time // by the repository's clock: all changes before it were harvested; zero if none were
}

// Status returns the progress of the harvests, including those of earlier runs.
func (h *Harvester) Status() Status {
	h.scanning.Lock()
	defer h.scanning.Unlock()
	h.recall()
	m := &h.memory
	return Status{Whole: m.Whole, Complete: m.Complete && m.Run == nil, Until: m.From}
}

// A memory is the progress of the harvests of a set.
type memory struct {
	Rules      string       `json:"rules"`              // what is harvested, and how
	Point      intake.Point `json:"point"`              // of the catalog, when it was saved
	Generation int64        `json:"generation"`         // of the last full harvest; part of the Tokens of its records
	From       time.Time    `json:"from"`               // the next harvest requests changes from this time on
	FullAt     time.Time    `json:"full_at"`            // when the last full harvest ended, by our clock
	Listed     bool         `json:"listed"`             // a full harvest has ended
	Whole      bool         `json:"whole"`              // a full harvest has ended and missed nothing
	Complete   bool         `json:"complete"`           // the last harvest missed nothing
	Coarse     bool         `json:"coarse"`             // the repository accepts only days, whatever granularity it states
	Held       int          `json:"held"`               // harvests since From advanced, whose lists had gaps
	Lost       []string     `json:"lost,omitempty"`     // records that could not be read when they were listed
	Absent     bool         `json:"absent"`             // records of earlier generations are to be deleted
	Doubtful   bool         `json:"doubtful,omitempty"` // the last full harvest listed nothing, or less than half of what was there
	Reported   time.Time    `json:"reported,omitzero"`  // the latest time in our future that was reported
	Run        *progress    `json:"run,omitempty"`      // the harvest in progress
}

// A progress is the state of a harvest in progress.
type progress struct {
	Full       bool      `json:"full"`
	From       string    `json:"from"`           // argument of its list
	Began      time.Time `json:"began"`          // of its first response, by the repository's clock, or ours if that is ahead
	Ahead      time.Time `json:"ahead,omitzero"` // the time of that response, if the clock is ahead
	Token      string    `json:"token"`          // of the next page; empty: the first
	Listed     int64     `json:"listed"`         // records so far, since the list began
	Incomplete bool      `json:"incomplete"`     // a part of the list could not be read
	Fresh      bool      `json:"fresh"`          // the set was empty
	StoreAll   bool      `json:"anew"`           // it is not known which versions are in the Contents

	// In case the repository refuses the token:
	Restarts int       `json:"restarts"`
	Latest   time.Time `json:"latest"`   // latest datestamp so far
	Mixed    bool      `json:"mixed"`    // datestamps were not in ascending order
	Stuck    int       `json:"stuck"`    // restarts since Latest advanced
	Restart  time.Time `json:"restart"`  // Latest at the last restart
	Windowed bool      `json:"windowed"` // the list was restarted from Latest

	// To detect a list that repeats itself:
	Pages     int64  `json:"pages"`
	MarkToken uint64 `json:"mark_token"` // hash of the token of an earlier page,
	MarkPage  uint64 `json:"mark_page"`  // and hash of its records
	Again     int    `json:"again"`      // later pages with the same records

	// Lost names records that could not be read, to be requested one by one.
	Lost []string `json:"lost,omitempty"`

	Coarse bool `json:"coarse"` // the repository refused a datestamp with a time

	// The size that the repository states, as long as that is consistent.
	Size  int64 `json:"size"`  // completeListSize; 0: not known
	Wrong bool  `json:"wrong"` // it is inconsistent
}

// rules identifies what is harvested and how: if it changes, everything is harvested
// again.
func (h *Harvester) rules() string {
	rules := []string{"1", h.base, h.o.Prefix, h.o.SetSpec, h.o.URI("x")}
	for _, a := range h.algs {
		rules = append(rules, a.String())
	}
	return strings.Join(rules, " ")
}

// recall reads the progress of the harvests from the file State, once.
func (h *Harvester) recall() {
	if h.recalled {
		return
	}
	h.recalled = true
	if !intake.Recall(h.o.State, &h.memory) || h.memory.Rules != h.rules() {
		h.memory = memory{Rules: h.rules(), Generation: h.memory.Generation}
	}
	h.stale = h.memory.Run != nil
}

// verify discards the progress of the harvests if it does not match the set, because
// the set was lost or filled by another process. While a harvest is in progress the
// set may be ahead, by the last batch before a crash.
func (h *Harvester) verify(ctx context.Context) error {
	h.recall()
	at, err := h.in.Point(ctx)
	if err != nil {
		return err
	}
	m := &h.memory
	if at == m.Point || m.Run != nil && at.Last >= m.Point.Last {
		return nil
	}
	*m = memory{Rules: m.Rules, Generation: m.Generation, Coarse: m.Coarse}
	return nil
}

// saveEvery is how much From may advance in harvests that find nothing before it is
// saved.
const saveEvery = time.Hour

// save stores the progress of the harvests.
func (h *Harvester) save(ctx context.Context) error {
	at, err := h.in.Point(ctx)
	if err != nil {
		return err
	}
	h.memory.Point = at
	if err := intake.Remember(h.o.State, &h.memory); err != nil {
		return fmt.Errorf("save the progress of the harvest: %w", err)
	}
	h.saved = time.Now()
	return nil
}
