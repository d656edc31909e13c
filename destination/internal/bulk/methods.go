package bulk

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/dump"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/scratch"
	"lockstep/destination/internal/transfer"
)

const (
	// packagesAtOnce is the number of packages read concurrently: each is one
	// stream of many resources, and its directory takes memory.
	packagesAtOnce = 4

	// packedAtOnce limits the resources needed from the packages being read, unless
	// it is only one package.
	packedAtOnce = 50_000
)

// Methods are the methods of getting content other than a request for each
// resource: from packages, or many resources with one request. The zero value has
// none.
//
// The caller calls Start once, passes every action that fetches content to Take,
// and then calls Finish before it commits the last batch. Actions for which no
// method yields the content are handed back.
type Methods struct {
	Packages    *dump.Table  // nil: packages are not used
	Demand      *Demand      // nil: no packages are requested on demand
	Only        bool         // content that these methods do not yield is unavailable,
	Unavailable error        // for this reason
	OfPast      bool         // content of a former state is fetched: the current content is useful only if a hash shows that it is the same
	Warnings    warnings     // reported when no request is in progress
	Room        scratch.Room // stores the actions waiting for their packages if they do not fit in memory
	Opener      *dump.Opener

	fetch  *transfer.Fetcher
	done   func(transfer.Outcome)
	single func(*plan.Action)
	packed *packed // actions whose content is in packages

	Members *dump.Members // reads single members of packages; nil if there are no packages
}

// Start starts the methods. done receives outcomes, single receives actions that
// have to be requested on their own; both may be called concurrently until Finish
// returns, and both block while much work is in progress.
func (w *Methods) Start(ctx context.Context, f *transfer.Fetcher, done func(transfer.Outcome), single func(*plan.Action)) {
	w.fetch, w.done, w.single = f, done, single
	if w.Only {
		w.single = func(a *plan.Action) { done(transfer.Outcome{Action: a, Err: w.Unavailable}) }
	}
	w.packed = &packed{room: w.Room}
	if f.Members, w.Members = nil, nil; w.Packages != nil {
		w.Members = dump.NewMembers(w.Opener, w.Packages)
		f.Members = w.Members
	}
	if d := w.Demand; d != nil {
		d.fetch, d.done, d.single, d.warn = f, done, single, w.Warnings.add
		d.start(ctx)
	}
}

// Take reports whether one of the methods accepted a, to fetch its content.
func (w *Methods) Take(a *plan.Action) (bool, error) {
	switch {
	case w.Packages != nil && a.Member.Package > 0 && a.From == "":
		return true, w.packed.add(a)
	case w.OfPast && (!content.HasKnown(a.Hashes) || a.HasMemento()):
	case w.Demand != nil && w.Demand.wants(a):
		w.Demand.add(a)
		return true, nil
	}
	return false, nil
}

// Finish gets the content of all accepted actions that are not finished, or, if
// goOn is false, only waits for requests in progress. It is always called, with the
// context of Start, and neither done nor single is called after it returns. It
// returns only errors that prevent further work.
func (w *Methods) Finish(ctx context.Context, goOn bool) error {
	var wg sync.WaitGroup
	if w.Demand != nil {
		wg.Go(func() { w.Demand.finish(goOn) })
	}
	var err error
	if goOn {
		err = w.unpackAll(ctx)
	}
	wg.Wait()
	if cerr := w.packed.close(); err == nil {
		err = cerr
	}
	return err
}

// unpackAll reads the packages that have needed content, several concurrently.
func (w *Methods) unpackAll(ctx context.Context) error {
	p := newPackager(w.Opener, w.fetch, w.done, w.single, w.Warnings.add)
	var g errgroup.Group
	g.SetLimit(packagesAtOnce)
	room := semaphore.NewWeighted(packedAtOnce)
	for wanted, err := range w.packed.byPackage(ctx) {
		if err != nil {
			_ = g.Wait() // its functions return no error
			return err
		}
		ref, ok := w.Packages.Get(wanted[0].Member.Package)
		if !ok || ref.Refused != "" {
			for _, a := range wanted {
				w.single(a)
			}
			continue
		}
		weight := min(int64(len(wanted)), packedAtOnce)
		if room.Acquire(ctx, weight) != nil {
			break // the run was canceled
		}
		g.Go(func() error {
			defer room.Release(weight)
			job := jobOf(&ref, wanted)
			job.Shelf = &w.Packages.Shelf
			w.Packages.NoteFailure(p.get(ctx, job))
			return nil
		})
	}
	return g.Wait() // its functions return no error
}

// maxWarnings limits the warnings stored.
const maxWarnings = 1000

// warnings stores warnings until they can be reported.
type warnings struct {
	mu   sync.Mutex // guards list
	list []warning
}

type warning struct{ uri, text string }

func (w *warnings) add(uri, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.list) < maxWarnings {
		w.list = append(w.list, warning{uri, text})
	}
}

// Report passes all warnings to warn.
func (w *warnings) Report(warn func(uri, text string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.list {
		warn(one.uri, one.text)
	}
	w.list = nil
}

// jobOf returns the job that gets content from a package for the wanted actions.
func jobOf(ref *dump.Ref, wanted []*plan.Action) *packageJob {
	return &packageJob{Package: ref.Package(), Copy: ref.Copy, Trusted: ref.Listing, Wanted: wanted}
}
