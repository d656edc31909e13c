// Package oaipmh keeps a set of a catalog in step with a repository by OAI-PMH: it
// lists the records that changed since the harvest before, and stores their
// metadata.
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
	"lockstep/oaipmh"
	"lockstep/resourcesync"
)

// Options configures a [Harvester]. The zero value is ready to use.
type Options struct {
	Prefix  string // metadataPrefix, of the format; default [oaipmh.DublinCore]
	SetSpec string // harvest this set of the repository only

	// URI gives a record the URI it gets in the catalog; two never the same.
	// A record for which it returns "" is passed over: it cannot be named there.
	// Default: its GetRecord address, [oaipmh.RecordURL].
	URI func(identifier string) string

	// Contents keeps the bytes of the records; default none: then each is asked
	// for, by GetRecord, when it is opened.
	Contents intake.Contents

	// Algorithms are the hashes to state, SHA-256 always among them; default MD5
	// and SHA-256.
	Algorithms []resourcesync.Algorithm

	// AllowEmpty lets a full harvest delete everything, or most of the set.
	AllowEmpty bool

	// State is the path of a file in which is kept, from run to run, how far the
	// harvest is; default: that is forgotten with the Harvester.
	State string

	// TempDir is for a file without a name, of what is to be deleted; default the
	// system's.
	TempDir string

	// ScanInterval is how often Watch harvests; default [DefaultInterval],
	// negative never.
	ScanInterval time.Duration

	// FullInterval is how often everything is harvested anew, which alone shows
	// what is gone without a trace; default [intake.DefaultFullInterval], negative never.
	FullInterval time.Duration

	// OnEvent is told what happens, never concurrently; may be nil. It must not
	// call the Harvester.
	OnEvent func(intake.Event)
}

const (
	// DefaultInterval is polite: a question costs a repository a search.
	DefaultInterval = 10 * time.Minute

	// harvestOverlap is how much earlier a harvest begins than the one before it
	// was answered: what a repository stamps, it may list a little later.
	harvestOverlap = time.Minute
)

// A Harvester keeps a set of a catalog in step with a repository that speaks
// OAI-PMH 2.0: each record in one format is a resource, the bytes of which are the
// element in <metadata> as a document of its own.
//
// The first harvest asks for everything, those after it for what has a datestamp
// of the last one's first response or later, by the repository's own clock. A
// record that is marked deleted is deleted; one that is gone without a mark is
// seen to be by the next full harvest ([Options.FullInterval]). What cannot
// be read is a Problem and stays as it was, and then nothing is deleted for not
// being listed.
//
// Order of writes: contents, catalog, how far the harvest is; so that a crash at
// any point costs a repetition of what came last.
//
// Only one Harvester may fill a set. Its methods are safe for concurrent use;
// harvests take turns.
type Harvester struct {
	in     intake.Origin
	client *fetch.Client
	o      Options
	base   string
	algs   []resourcesync.Algorithm

	scanning sync.Mutex // held by a harvest, guards what follows
	memory   memory
	saved    time.Time // when memory was saved last
	recalled bool      // memory was read from State
	stale    bool      // the harvest under way was broken off before
	server   *oaipmh.Identify

	junk sync.Map // verbs whose responses have something in front of the XML document, and of which that was reported
}

// A Stretch bounds a [Harvester.Harvest]; zero is no bound.
type Stretch struct {
	Full    bool          // everything is harvested anew; if that is under way it goes on
	Records int64         // listed
	Time    time.Duration // spent
}

// New returns a Harvester that fills the set of cat from the repository at
// base, its base URL. It asks through c.
func New(base string, c *fetch.Client, cat catalog.Catalog, set string, o Options) (*Harvester, error) {
	if base == "" {
		return nil, errors.New("OAI-PMH: the address is missing")
	}
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

// Scan brings the catalog in step with the repository: with what has changed
// since the last time, or all of it where that is due. The Report is right, as far
// as the harvest came, with an error too.
func (h *Harvester) Scan(ctx context.Context) (intake.Report, error) {
	r, _, err := h.Harvest(ctx, Stretch{})
	return r, err
}

// Harvest is Scan in stretches: it returns when s is used up, with more if the
// harvest is not at its end; the next call goes on. What was listed is in the
// catalog then. After a crash it goes on where the repository still lets it.
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

// Watch scans at once, and again every [Options.ScanInterval], until ctx
// ends; then it returns the cause. onChange is told of every scan that changed
// the catalog; the next one waits until it returns. What goes wrong is told to
// [Options.OnEvent], and tried again.
func (h *Harvester) Watch(ctx context.Context, onChange func(intake.Report)) error {
	return h.in.Watch(ctx, h.Scan, func(ctx context.Context) error {
		if h.o.ScanInterval < 0 {
			return intake.Forever(ctx)
		}
		return intake.Sleep(ctx, h.o.ScanInterval)
	}, onChange)
}

// A Status is how far the harvests are.
type Status struct {
	Whole    bool      // everything was harvested at least once, and nothing missed
	Complete bool      // the last harvest came to its end, and all it was sent could be read
	Until    time.Time // by the repository's clock: all changes before it were harvested; zero if none were
}

// Status tells how far the harvests are, those of earlier runs included.
func (h *Harvester) Status() Status {
	h.scanning.Lock()
	defer h.scanning.Unlock()
	h.recall()
	m := &h.memory
	return Status{Whole: m.Whole, Complete: m.Complete && m.Run == nil, Until: m.From}
}

// A memory is how far the harvests of a set are.
type memory struct {
	Rules      string       `json:"rules"`             // what is harvested, and how
	Point      intake.Point `json:"point"`             // of the catalog, when it was saved
	Generation int64        `json:"generation"`        // of full harvests: their Tokens begin with it
	From       time.Time    `json:"from"`              // the next one asks for what changed from here on
	FullAt     time.Time    `json:"full_at"`           // when, by our clock, the last full one ended
	Listed     bool         `json:"listed"`            // there was one
	Whole      bool         `json:"whole"`             // and it missed nothing
	Complete   bool         `json:"complete"`          // the last one missed nothing
	Coarse     bool         `json:"coarse"`            // the repository takes days only, whatever it says
	Held       int          `json:"held"`              // harvests since From rose: not all of theirs was listed
	Lost       []string     `json:"lost,omitempty"`    // records that could not be read when they were listed
	Absent     bool         `json:"absent"`            // what is of earlier generations is to be deleted
	Reported   time.Time    `json:"reported,omitzero"` // the latest time in our future that was reported
	Run        *progress    `json:"run,omitempty"`     // under way
}

// A progress is how far a harvest is.
type progress struct {
	Full       bool      `json:"full"`
	From       string    `json:"from"`           // argument of its list
	Began      time.Time `json:"began"`          // of its first response, by the repository's clock, or ours if that is ahead
	Ahead      time.Time `json:"ahead,omitzero"` // the time of that response, if the clock is ahead
	Token      string    `json:"token"`          // of the next page; empty: the first
	Listed     int64     `json:"listed"`         // records so far, since the list began
	Incomplete bool      `json:"incomplete"`     // something could not be read
	Fresh      bool      `json:"fresh"`          // the set was empty
	Anew       bool      `json:"anew"`           // nobody knew what is in the Contents

	// For when the repository refuses the token.
	Restarts int       `json:"restarts"`
	Latest   time.Time `json:"latest"`   // datestamp, of all so far
	Mixed    bool      `json:"mixed"`    // datestamps did not rise
	Stuck    int       `json:"stuck"`    // restarts since Latest rose
	Restart  time.Time `json:"restart"`  // Latest at the last restart
	Windowed bool      `json:"windowed"` // the list was begun anew from Latest

	// By which one that repeats itself is found.
	Pages     int64  `json:"pages"`
	MarkToken uint64 `json:"mark_token"` // hash of the token of a page before,
	MarkPage  uint64 `json:"mark_page"`  // and of its records
	Again     int    `json:"again"`      // pages with these records since

	// Lost names records that could not be read, to be asked for one by one.
	Lost []string `json:"lost,omitempty"`

	Coarse bool `json:"coarse"` // the repository refused a datestamp with a time

	// What it says of its size, as long as that holds together.
	Size  int64 `json:"size"`  // completeListSize; 0: not known
	Wrong bool  `json:"wrong"` // it does not
}

// rules tells what is harvested and how: with other rules it is harvested anew.
func (h *Harvester) rules() string {
	rules := []string{"1", h.base, h.o.Prefix, h.o.SetSpec, h.o.URI("x")}
	for _, a := range h.algs {
		rules = append(rules, a.String())
	}
	return strings.Join(rules, " ")
}

// recall reads how far the harvests are, once.
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

// verify forgets how far the harvests are where that does not fit the set: one
// that was lost, or filled by others. While a harvest is under way the set may be
// ahead, by what came last before a crash.
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

// saveEvery is how old what is saved of a harvest that finds nothing may be.
const saveEvery = time.Hour

// save keeps how far the harvests are.
func (h *Harvester) save(ctx context.Context) error {
	at, err := h.in.Point(ctx)
	if err != nil {
		return err
	}
	h.memory.Point = at
	if err := intake.Remember(h.o.State, &h.memory); err != nil {
		return fmt.Errorf("keep how far the harvest is: %w", err)
	}
	h.saved = time.Now()
	return nil
}
