package destination

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/dump"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/planner"
	"lockstep/destination/internal/scratch"
	"lockstep/destination/internal/transfer"
)

const (
	// packagesAtOnce is how many packages are read at a time: each is one stream
	// of many resources, and costs the memory of its directory.
	packagesAtOnce = 4

	// packedAtOnce bounds how many are wanted of the packages read at a time,
	// unless it is only one.
	packedAtOnce = 50_000
)

// ways are the methods to get content other than a request for each resource:
// out of packages, or many with one request. The zero value has none.
//
// The applier calls start once, then offers every action with Fetch by
// takes, then calls finish; all before it commits the last batch. What none of
// the methods yields is given back by single.
type ways struct {
	packages *dump.Table  // nil: members are not taken from packages
	demand   *demand      // nil: nothing is asked for on demand
	only     bool         // what these methods do not yield is unavailable
	past     bool         // contents are of the past: the current content is of use only if a hash shows that it is the same
	warnings warnings     // reported when nothing is in progress
	room     scratch.Room // where more wait for their packages than fit in memory
	opener   *dump.Opener

	ctx    context.Context // from start to finish
	fetch  *transfer.Fetcher
	done   func(transfer.Outcome)
	single func(*plan.Action)
	packed *packed // have their content in packages

	members *dump.Members // reads single members of packages; nil: it has none
}

// start begins. done takes outcomes, single takes actions back that have to be
// fetched alone after all; both may be called concurrently, until finish
// returns, and both block while much is under way.
func (w *ways) start(ctx context.Context, f *transfer.Fetcher, done func(transfer.Outcome), single func(*plan.Action)) {
	w.ctx, w.fetch, w.done, w.single = ctx, f, done, single
	if w.only {
		w.single = func(a *plan.Action) { done(transfer.Outcome{Action: a, Err: planner.ErrNoVersion}) }
	}
	w.packed = &packed{room: w.room}
	if f.Members, w.members = nil, nil; w.packages != nil {
		w.members = dump.NewMembers(w.opener, w.packages)
		f.Members = w.members
	}
	if d := w.demand; d != nil {
		d.fetch, d.done, d.single, d.warn = f, done, single, w.warnings.add
		d.start(ctx)
	}
}

// takes reports whether the content of a is had by one of the ways. If so, a
// belongs to them.
func (w *ways) takes(a *plan.Action) (bool, error) {
	switch {
	case w.packages != nil && a.Member.Package > 0 && a.From == "":
		return true, w.packed.add(a)
	case w.past && (!content.HasKnown(a.Hashes) || a.HasMemento()):
	case w.demand != nil && w.demand.wants(a):
		w.demand.add(a)
		return true, nil
	}
	return false, nil
}

// finish gets all that was taken and is not had yet, or, if it is not to go
// on, waits for what is under way. It is always called, and nothing calls done
// or single after it. It returns only errors after which nothing more can be
// done.
func (w *ways) finish(goOn bool) error {
	var wg sync.WaitGroup
	if w.demand != nil {
		wg.Go(func() { w.demand.finish(goOn) })
	}
	var err error
	if goOn {
		err = w.unpackAll()
	}
	wg.Wait()
	if cerr := w.packed.close(); err == nil {
		err = cerr
	}
	return err
}

// unpackAll reads the packages that something is wanted of, several at a time.
func (w *ways) unpackAll() error {
	p := newPackager(w.opener, w.fetch, w.done, w.single, w.warnings.add)
	var g errgroup.Group
	g.SetLimit(packagesAtOnce)
	room := semaphore.NewWeighted(packedAtOnce)
	for wanted, err := range w.packed.byPackage(w.ctx) {
		if err != nil {
			_ = g.Wait() // no function returns an error
			return err
		}
		ref, ok := w.packages.Get(wanted[0].Member.Package)
		if !ok || ref.Refused != "" {
			for _, a := range wanted {
				w.single(a)
			}
			continue
		}
		weight := min(int64(len(wanted)), packedAtOnce)
		if room.Acquire(w.ctx, weight) != nil {
			break // the run ends
		}
		g.Go(func() error {
			defer room.Release(weight)
			job := jobOf(&ref, wanted)
			job.Shelf = &w.packages.Shelf
			p.get(w.ctx, job)
			return nil
		})
	}
	return g.Wait() // no function returns an error
}

// warnings are kept until they can be reported.
type warnings struct {
	mu   sync.Mutex // guards list
	list []warning
}

type warning struct{ uri, text string }

func (w *warnings) add(uri, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.list) < maxListed {
		w.list = append(w.list, warning{uri, text})
	}
}

// tell passes all warnings to warn.
func (w *warnings) tell(warn func(uri, text string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.list {
		warn(one.uri, one.text)
	}
	w.list = nil
}

// jobOf returns what is wanted of a package.
func jobOf(ref *dump.Ref, wanted []*plan.Action) *packageJob {
	return &packageJob{Package: ref.Package(), Copy: ref.Copy, Trusted: ref.Listing, Wanted: wanted}
}
