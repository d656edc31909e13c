package aggregator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/destination"
	"lockstep/destination/journal"
	"lockstep/intake"
	"lockstep/internal/sleep"
)

// DefaultInterval is how often Watch compares all of a mirror with the catalog, in case
// a batch that was delivered left something out. It does so soon after the deletion of
// a resource without links, to which others may have links.
const DefaultInterval = time.Hour

// Options configures an [Upstream].
type Options struct {
	// Name distinguishes the upstream from others that fill the same set. It has no
	// blanks, and remains the same from run to run.
	Name string

	// Address is where the upstream is found: whatever a Destination accepts.
	Address string

	// URI is the prefix of the own URIs. It ends with a slash. The rest of each follows
	// from the URI of the resource at the upstream alone: see [destination.Names].
	URI string

	// Static refuses resources whose file in the mirror has another path than the rest
	// of their own URI: a web server serves the files.
	Static bool

	// BaseURL is that of this Source: a resource that comes from below it is refused.
	BaseURL string

	// InPlace has the resources keep their URIs: only their descriptions are
	// republished, with a link [journal.RelHop] to BaseURL.
	InPlace bool

	// Chain adds a via link for each Source that a resource has passed, the origin
	// first, as version 0.9 of the standard has it. By default a resource has one via
	// link, to its origin (RS-REL-71), and from the second Aggregator on a link
	// [journal.RelHop] to each one before, so that loops are recognized.
	Chain bool

	// Collection is the URI of the collection that each resource gets a link to;
	// default: none.
	Collection string

	// Reserved reports whether a path below BaseURL is that of a document, or belongs to
	// another set; may be nil.
	Reserved func(rel string) bool

	// AllowEmpty lets a comparison delete everything, or most of the set: also what the
	// mirror lacks because it has not been in step yet.
	AllowEmpty bool

	// Follow says how Watch follows the upstream. OnSync is not used.
	Follow destination.FollowOptions

	// Later has Scan do nothing: Watch brings everything in step.
	Later bool

	// Continue has Scan leave the upstream alone if the mirror has something already:
	// Watch follows.
	Continue bool

	// Interval is the time between two comparisons of Watch; default
	// [DefaultInterval]; negative: only when the mirror is in step for the first time, if
	// it lacked something before.
	Interval time.Duration

	// TempDir is for temporary files without names; default: that of the system.
	TempDir string

	// OnEvent receives events, never concurrently; may be nil. It must not call the
	// Upstream.
	OnEvent func(intake.Event)

	// Fleet has the upstream take turns with others of the process; may be nil.
	Fleet *Fleet

	// FirstWait is how long the first run may take while [Upstream.Awaited] waits for it;
	// default [DefaultFirstWait]; negative: it is not waited for.
	FirstWait time.Duration

	shared  bool                        // other upstreams fill the set, too
	onFirst func(context.Context) error // called when Watch has compared the mirror for the first time, and when the first run is over; may be nil
}

// A Mirror is the copy of an upstream.
type Mirror struct {
	Store       blob.Store // of the files
	Journal     journal.Journal
	Destination *destination.Destination // keeps it in step
}

// An Upstream is a Source whose resources are republished. Its methods are safe for
// concurrent use; only one Upstream at a time may use a Mirror.
type Upstream struct {
	mirror    Mirror
	catalog   catalog.Catalog
	set       string
	o         Options
	translate *translator
	events    intake.Reporter

	progress progress
	first    *firstRun
	pace     pace // in the Fleet

	following atomic.Pointer[destination.Follower] // nil: Watch has not begun

	begun      atomic.Bool // Watch has
	inStep     atomic.Bool // the mirror has been in step with the upstream since the Upstream was made
	spared     atomic.Bool // records stay that a comparison may delete once that is so
	failed     atomic.Bool // the last attempt that was reported could not read the upstream
	uncompared atomic.Bool // the last Scan could not compare the mirror with the catalog

	mirroring sync.Mutex // held while the Destination is used; guards the following field
	failing   failures

	applying sync.Mutex // held while rows are looked up and applied; guards the following fields
	changed  func(intake.Report)
	tally    *intake.Tally // of the Scan under way; nil: there is none
	waiting  waiting

	stale stale
}

// New returns an Upstream that fills a set of cat. open opens its mirror, with a
// Destination that delivers changes to the function that it is given
// ([destination.Options.Deliver], with DeliverStatements).
func New(cat catalog.Catalog, set string, o Options, open func(deliver func(context.Context, []destination.Change) error) (Mirror, error)) (*Upstream, error) {
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	if o.FirstWait == 0 {
		o.FirstWait = DefaultFirstWait
	}
	u := &Upstream{catalog: cat, set: set, o: o, events: intake.Reporter{OnEvent: o.OnEvent}, first: &firstRun{over: make(chan struct{})}, stale: stale{deleted: make(chan struct{}, 1)}}
	if !o.InPlace && isHere(o.Address, o.BaseURL) {
		return nil, fmt.Errorf("follow %s: it is below %s, the base URL of this Source itself", o.Address, o.BaseURL)
	}
	if o.FirstWait < 0 {
		u.first.step(func(f *firstRun) { f.late = true })
		u.first.settle()
	}
	var err error
	if u.mirror, err = open(u.deliver); err != nil {
		return nil, err
	}
	u.translate = &translator{Options: &u.o, journal: u.mirror.Journal}
	if !o.shared {
		o.Fleet.join(u)
	}
	return u, nil
}

// Scan brings the mirror in step with the upstream, and the catalog with the mirror. If
// the upstream cannot be read, the catalog has what the mirror holds. While Watch runs,
// only the catalog is brought in step.
func (u *Upstream) Scan(ctx context.Context) (intake.Report, error) {
	t := &intake.Tally{Reporter: &u.events, Start: time.Now()}
	var err error
	if u.o.Later && !u.begun.Load() {
		return t.Report(), nil
	}
	read := false
	if u.mirroring.TryLock() {
		err, read = u.sync(ctx, t), !u.o.Later
		u.mirroring.Unlock()
	}
	if ctx.Err() == nil {
		cerr := u.compare(ctx, t)
		u.uncompared.Store(cerr != nil && !errors.Is(cerr, intake.ErrEmpty))
		err = errors.Join(err, cerr)
	}
	if ctx.Err() == nil {
		u.first.step(func(f *firstRun) { f.compared, f.read = f.compared || !u.uncompared.Load(), f.read || read })
		if !u.o.shared && u.first.isOver() { // a group settles what its upstreams have
			u.first.settle()
		}
	}
	return t.Report(), intake.Cause(ctx, err)
}

// sync brings the mirror in step. A resource that fails is a problem, not an error. The
// caller holds mirroring.
func (u *Upstream) sync(ctx context.Context, t *intake.Tally) error {
	if u.o.Later {
		return nil
	}
	if u.o.Continue {
		for _, err := range u.mirror.Journal.Held(ctx, "", "") {
			return err
		}
	}
	u.applying.Lock()
	u.tally = t
	u.applying.Unlock()
	defer func() {
		u.applying.Lock()
		u.tally = nil
		u.applying.Unlock()
	}()
	report, err := u.mirror.Destination.Sync(ctx, u.o.Address)
	if ctx.Err() == nil {
		u.progress.ended(err, time.Time{})
	}
	if err == nil {
		u.inStep.Store(true)
	}
	err = u.incomplete(t, &report, err)
	u.failed.Store(err != nil)
	return err
}

// incomplete reports the failures of a run that runs before did not have, and returns
// its error, unless all that is wrong are resources. The caller holds mirroring.
func (u *Upstream) incomplete(t *intake.Tally, r *destination.Report, err error) error {
	if err != nil && !errors.Is(err, destination.ErrIncomplete) {
		return u.explain(err)
	}
	if err == nil {
		u.failing = failures{}
	}
	u.progress.set(func(p *progress) { p.failed = int(r.Failed + r.Refused) })
	if unread := u.failing.take(u.o.Address, u.o.BaseURL, r, t); unread != nil {
		return u.explain(unread)
	}
	if len(r.Failures) > 0 {
		return nil
	}
	return u.explain(err)
}

// explain names the upstream in an error of a run.
func (u *Upstream) explain(err error) error {
	if err == nil {
		return nil
	}
	return &UpstreamError{Address: u.o.Address, Err: err}
}

// An UpstreamError reports that an upstream could not be followed.
type UpstreamError struct {
	Address string
	Err     error
}

func (e *UpstreamError) Error() string { return fmt.Sprintf("follow %s: %v", e.Address, e.Err) }

// Unwrap returns the cause.
func (e *UpstreamError) Unwrap() error { return e.Err }

// Hint returns a remedy for the user.
func (e *UpstreamError) Hint() string {
	if r, ok := errors.AsType[*destination.RefusedError](e.Err); ok {
		return configured(r.Hint)
	}
	if h, ok := errors.AsType[interface {
		error
		Hint() string
	}](e.Err); ok {
		return h.Hint()
	}
	return ""
}

// Watch follows the upstream until ctx ends, and then returns the cause. It calls
// onChange, which may be nil, after changes of the catalog, and after failures to change
// it, which may have changed more than is reported. What fails is reported and tried
// again; until then the catalog stays as it is.
func (u *Upstream) Watch(ctx context.Context, onChange func(intake.Report)) error {
	u.mirroring.Lock()
	defer u.mirroring.Unlock()
	u.applying.Lock()
	u.changed = onChange
	u.applying.Unlock()
	defer func() {
		u.applying.Lock()
		u.changed = nil
		u.applying.Unlock()
	}()
	u.progress.set(func(p *progress) { p.watching = true })
	defer u.progress.set(func(p *progress) { p.watching = false })
	u.begun.Store(true)
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return u.follow(gctx) })
	g.Go(func() error { return u.compareAgain(gctx, onChange) })
	g.Go(func() error { return u.awaitFirst(gctx, onChange) })
	_ = g.Wait() // both end with ctx
	return context.Cause(ctx)
}

// follow follows the upstream until ctx ends.
func (u *Upstream) follow(ctx context.Context) error {
	retry := time.Duration(0)
	for ctx.Err() == nil {
		o := u.o.Follow
		o.OnSync = func(r destination.Report, err error) {
			if err == nil {
				retry = 0
			}
			u.passed(&r, err)
		}
		o.OnPass = u.passEnded
		if u.o.Fleet != nil {
			o.Turn, o.CheckBudget = u.turn, &u.o.Fleet.checks
		}
		f, err := u.mirror.Destination.Follow(u.o.Address, o)
		if err == nil {
			u.progress.set(func(p *progress) { p.err, p.hint, p.since, p.attempts, p.next = "", "", time.Time{}, 0, time.Time{} })
			u.following.Store(f)
			err = f.Run(ctx)
		}
		if ctx.Err() != nil {
			break
		}
		retry = min(max(2*retry, intake.RetryFirst), max(o.PauseMost, intake.RetryMost))
		u.progress.ended(err, time.Now().Add(retry))
		u.first.step(func(f *firstRun) { f.read = true })
		u.failed.Store(true)
		u.events.Emit(intake.Event{Kind: intake.EventScanned, Err: u.explain(err)})
		_ = sleep.For(ctx, retry) // the loop ends with ctx
	}
	return context.Cause(ctx)
}

// turn waits for the turn of the upstream.
func (u *Upstream) turn(ctx context.Context, w destination.Work) (context.Context, func()) {
	u.progress.set(func(p *progress) { p.waiting = true })
	defer u.progress.set(func(p *progress) { p.waiting = false })
	return u.o.Fleet.schedule.begin(ctx, &u.pace, w)
}

// Handler serves what hubs call at and below the path of [destination.FollowOptions]'
// Callback. It answers 503 until Watch runs.
func (u *Upstream) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := u.following.Load()
		if f == nil {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		f.Handler().ServeHTTP(w, r)
	})
}

// passed reports the result of a pass of the Follower.
func (u *Upstream) passed(r *destination.Report, err error) {
	if err != nil {
		u.progress.set(func(p *progress) { p.errors++ })
	}
	t := &intake.Tally{Reporter: &u.events, Start: time.Now()}
	err = u.incomplete(t, r, err)
	u.failed.Store(err != nil)
	u.events.Emit(intake.Event{Kind: intake.EventScanned, Err: err, Report: t.Report()})
}

// compareAgain compares the mirror with the catalog from time to time until ctx ends: at
// the start, too, if Scan has not.
func (u *Upstream) compareAgain(ctx context.Context, onChange func(intake.Report)) error {
	if u.o.Later || u.uncompared.Load() {
		r := compareNow(ctx, u, onChange)
		if ctx.Err() != nil { // the next Watch compares
			return context.Cause(ctx)
		}
		for i := range min(len(r.Skipped.First), maxNamed) {
			p := &r.Skipped.First[i]
			u.events.Emit(intake.Event{Kind: intake.EventUnreadable, Path: p.Path, Err: fmt.Errorf("not republished: %w", p.Err)})
		}
	}
	u.first.step(func(f *firstRun) { f.compared = true })
	if u.o.Later && !u.first.isOver() {
		u.settleFirst(ctx)
	}
	for u.o.Interval < 0 {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-u.stale.deleted:
		}
		if u.spared.Load() && u.inStep.Load() {
			compareNow(ctx, u, onChange)
		}
	}
	took := time.Duration(0)
	for u.stale.wait(ctx, u.o.Interval, took) == nil {
		r := compareNow(ctx, u, onChange)
		took = r.Elapsed
	}
	return context.Cause(ctx)
}

// compareNow compares the mirror with the catalog, and again as long as that fails, until
// ctx ends. A refusal to delete is not repeated: trying again does not help.
func compareNow(ctx context.Context, u *Upstream, onChange func(intake.Report)) intake.Report {
	for retry := time.Duration(0); ; {
		r, err := u.compareOnce(ctx, onChange)
		if err == nil && retry > 0 && !u.failed.Load() { // else the upstream still cannot be read
			u.events.Emit(intake.Event{Kind: intake.EventScanned, Report: r})
		}
		if err == nil || errors.Is(err, intake.ErrEmpty) {
			return r
		}
		retry = min(max(2*retry, intake.RetryFirst), intake.RetryMost)
		if sleep.For(ctx, retry) != nil {
			return r
		}
	}
}

// compareOnce compares the mirror with the catalog once.
func (u *Upstream) compareOnce(ctx context.Context, onChange func(intake.Report)) (intake.Report, error) {
	t := &intake.Tally{Reporter: &u.events, Start: time.Now()}
	err := catchUp(ctx, u.catalog)
	if err == nil {
		err = u.compare(ctx, t)
	}
	r := t.Report()
	if ctx.Err() != nil {
		return r, context.Cause(ctx)
	}
	if err != nil {
		u.events.Emit(intake.Event{Kind: intake.EventScanned, Err: err, Report: r})
	}
	if (err != nil || r.Changed()) && onChange != nil {
		onChange(r)
	}
	return r, err
}

// gone reports whether err says that a file or row does not exist.
func gone(err error) bool { return errors.Is(err, blob.ErrNotExist) || errors.Is(err, fs.ErrNotExist) }
