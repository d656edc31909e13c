// Package simulate is a Source whose resources keep changing.
//
// Nothing of it is stored: a seed, the number of a resource and its version determine the content.
// Two Sources with equal Options and equally many changes are identical, to the byte, whenever and
// wherever they run.
//
//	sim, err := simulate.New(ctx, simulate.Options{BaseURL: "http://127.0.0.1:8080/", Resources: 10_000, Rate: 10})
//	go sim.Run(ctx)
//	http.Serve(listener, sim.Handler())
//
// [Faults] makes it answer like a bad network or a broken server.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/source"
)

// Defaults of a simulation.
const (
	DefaultResources = 1000
	DefaultEvery     = time.Second

	// maxResources is the number for which addresses have enough digits.
	maxResources = 1_000_000_000
)

// DefaultMix is the default proportion of changes: mostly updates, and as many
// creations as deletions.
var DefaultMix = Mix{Created: 10, Updated: 80, Deleted: 10}

// A Mix is the proportion of changes that create, update and delete.
type Mix struct{ Created, Updated, Deleted uint }

func (m Mix) sum() uint { return m.Created + m.Updated + m.Deleted }

// Options configures a [Source]. Only BaseURL is required.
type Options struct {
	BaseURL   string
	Seed      uint64
	Resources int           // initial number; default 1000, negative none
	Sizes     Sizes         // of resources; default 4 KiB each
	Rate      float64       // changes per second while Run runs; 0 none
	Changes   int64         // maximum number for Run; 0 means unlimited
	Mix       Mix           // default DefaultMix
	Every     time.Duration // how often Run publishes; default 1 s
	Faults    Faults        // how Handler fails; the zero value never does

	ChangeList   source.ChangeList
	ResourceDump *source.ResourceDump
	ChangeDump   *source.ChangeDump

	Catalog catalog.Catalog // empty; default in memory
	Docs    blob.Store      // empty; default in memory
	OnDone  func(Progress)  // called by Run after each publication; may be nil
	Logger  *slog.Logger    // default: discards
}

// Progress is the progress of a simulation.
type Progress struct {
	Resources int64 // current number
	Changes   int64 // made so far
}

// A Source is a simulated one. Its methods are safe for concurrent use.
type Source struct {
	o    Options
	base string
	set  string // in the catalog
	cat  catalog.Catalog
	src  *source.Source

	mu      sync.Mutex // held by Apply; guards what follows
	random  *rand.Rand
	alive   []int64  // numbers of the current resources
	version []uint32 // by number; 0: deleted, or not yet created
	done    int64    // changes made
}

// New returns a Source with its first resources, published.
func New(ctx context.Context, o Options) (*Source, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Source{o: o, cat: o.Catalog, random: rand.New(rand.NewPCG(o.Seed, o.Seed^golden))}
	if s.base, err = source.BaseURL(o.BaseURL); err != nil {
		return nil, err
	}
	if s.set, err = source.CapabilityListURI(o.BaseURL, source.DefaultSet); err != nil {
		return nil, err
	}
	s.src, err = source.New(o.Catalog, o.Docs, source.Options{
		BaseURL: o.BaseURL, Logger: o.Logger, OnDemand: new(source.OnDemand),
		Sets: []source.Set{{
			Bitstream: s.bitstream, Past: s.past, Serve: true,
			ChangeList: o.ChangeList, ResourceDump: o.ResourceDump, ChangeDump: o.ChangeDump,
		}},
	})
	if err != nil {
		return nil, err
	}
	if err := s.populate(ctx); err != nil {
		return nil, fmt.Errorf("make %d resources: %w", o.Resources, err)
	}
	return s, s.Publish(ctx)
}

// Check returns an error for options that New refuses. It creates nothing; the
// base URL may be missing.
func (o Options) Check() error {
	o, err := o.withDefaults()
	if err == nil && o.BaseURL != "" {
		_, err = source.BaseURL(o.BaseURL)
	}
	return err
}

func (o Options) withDefaults() (Options, error) {
	if o.Resources == 0 {
		o.Resources = DefaultResources
	}
	o.Resources = max(o.Resources, 0)
	if o.Sizes == (Sizes{}) {
		o.Sizes = defaultSizes
	}
	if o.Mix == (Mix{}) {
		o.Mix = DefaultMix
	}
	if o.Every <= 0 {
		o.Every = DefaultEvery
	}
	if o.Catalog == nil {
		o.Catalog = catalog.NewMem(nil)
	}
	if o.Docs == nil {
		o.Docs = new(blob.Mem)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case o.Resources > maxResources:
		return o, fmt.Errorf("%d resources: at most %d can be simulated", o.Resources, maxResources)
	case o.Rate < 0 || math.IsNaN(o.Rate) || math.IsInf(o.Rate, 0):
		return o, fmt.Errorf("%v changes a second: want a number that is not negative", o.Rate)
	}
	return o, o.Faults.check()
}

// Handler serves documents and resources, with the faults of Options.Faults.
func (s *Source) Handler() http.Handler { return s.o.Faults.wrap(s.src.Handler(), s.o.Seed) }

// Publish updates the documents, including dumps, to the changes made.
func (s *Source) Publish(ctx context.Context) error {
	if _, err := s.src.Publish(ctx); err != nil {
		return err
	}
	_, err := s.src.PublishDumps(ctx)
	return err
}

// Progress returns the progress of the simulation.
func (s *Source) Progress() Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Progress{Resources: int64(len(s.alive)), Changes: s.done}
}

// Resources yields the current resources, ordered by URI: the state that a
// Destination should reach.
func (s *Source) Resources(ctx context.Context) iter.Seq2[catalog.Record, error] {
	return s.cat.Resources(ctx, s.set, catalog.Range{})
}

// Run makes changes, Options.Rate a second, and publishes them, until ctx ends,
// which is not an error. After Options.Changes it only waits.
func (s *Source) Run(ctx context.Context) error {
	tick := time.NewTicker(s.o.Every)
	defer tick.Stop()
	start, made := time.Now(), int64(0)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		due := int64(time.Since(start).Seconds()*s.o.Rate) - made
		if s.o.Changes > 0 {
			due = min(due, s.o.Changes-s.Progress().Changes)
		}
		if due <= 0 {
			continue
		}
		if err := s.step(ctx, due); err != nil && ctx.Err() == nil {
			return err
		}
		made += due
	}
}

func (s *Source) step(ctx context.Context, n int64) error {
	if err := s.Apply(ctx, n); err != nil {
		return err
	}
	err := s.Publish(ctx)
	if err == nil && s.o.OnDone != nil {
		s.o.OnDone(s.Progress())
	}
	return err
}

// errFull reports that no number is left for another resource.
var errFull = errors.New("no more resources can be simulated")
