package destination

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/blob"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/dispatch"
	"lockstep/destination/internal/history"
	"lockstep/destination/internal/outbox"
	"lockstep/destination/internal/places"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/planner"
	"lockstep/destination/internal/push"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// graceAfterCancel is how long an interrupted run may take to record what it
// has finished.
const graceAfterCancel = 5 * time.Second

// An applier carries out the actions of one set. The order of its writes: the
// intent, with the rows of the batch before, in one transaction; the files;
// and so on; the rows of the last batch. Deletions come last.
type applier struct {
	d        *Destination
	set      *setState
	report   *Report
	fetch    *fetcher
	forms    *otherForms // finds other representations of records; nil: there are none
	ways     *ways
	versions *lost // not nil: these are versions other than the last, which may be missing without harm
	counts   saved.Counts
	out      *outbox.Box[Change]
	keep     *history.Keeper
	owing    bool // something is, or may be, owed to the set

	moved    movedOn
	progress Progress
	lastTick time.Time
	passing  map[int]int64    // counts by set what failed and is tried again at the end of the run; nil: nothing is
	stale    map[string]error // failures that may succeed after reading the description again; reported if they do not
	results  push.Results     // of each resource; nil: they are not wanted

	batch   []outcome
	bytes   int64
	open    int // files of the batch that are open
	begun   time.Time
	many    atomic.Bool   // the batch is one for which the store need not have its files open
	pending journal.Batch // to be recorded with the next transaction
	intent  bool          // the Journal holds an intent
	broken  bool          // the intent must be kept: it is unknown which part of the batch was committed
	later   []plan.Action // wait for deletions: something is in their way that may go, or there is no room
	crowd   bool          // more had to wait than are remembered
	places  bool          // the Journal holds the description of a change of places that is done
	marked  *places.Marked
	tight   bool // some of them for want of room
	last    bool // nothing waits any more
	full    int  // how many in a row there was no room for

	confirmed int // deletions that the resource's own address confirmed, to be carried out
}

// run carries out everything but deletions. It returns an error only when
// nothing more can be done: the disk, the Journal or the context failed.
func (p *applier) run(ctx context.Context, actions iter.Seq2[plan.Action, error]) error {
	var g errgroup.Group
	gctx, stop := context.WithCancel(ctx)
	defer stop()
	jobs := p.d.jobs
	if p.last && p.tight {
		jobs = 1 // several would take each other's room
	}
	done := make(chan outcome, min(doneQueue, p.d.open)) // each may hold a file open
	send := func(o outcome) { done <- p.seal(o) }
	work := dispatch.New(jobs, func(a *plan.Action) error {
		o := fetchPreferred(gctx, p.fetch, a)
		cause := o.err
		if cause != nil {
			var other outcome
			switch other, o.instead = p.forms.fetch(gctx, p.fetch, a, cause); {
			case o.instead && other.action != nil:
				send(other)
			case !o.instead && other.err != nil:
				o.err = fmt.Errorf("%w; no other representation of the record can be fetched: %w", cause, other.err)
			}
		}
		send(o)
		return cause
	}, func(a *plan.Action, err error) { done <- outcome{action: a, err: err} })
	g.Go(func() error {
		defer close(done)
		defer work.Wait()
		err := p.hand(gctx, actions, work, send)
		if gctx.Err() != nil {
			return nil // who stopped it says why
		}
		if err != nil {
			stop()
		}
		return err
	})
	g.Go(func() error { return p.collect(gctx, stop, done) })
	err := g.Wait()
	p.ways.members.Close()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// doneQueue is how many outcomes may wait to be booked.
const doneQueue = 256

// seal lets the store close the file of content that is whole, where many are
// to be committed together.
func (p *applier) seal(o outcome) outcome {
	if o.writer == nil || !p.many.Load() {
		return o
	}
	s, ok := o.writer.(blob.Sealer)
	if !ok {
		return o
	}
	sealed, err := s.Seal()
	if err != nil {
		_ = o.writer.Close() // err says why it is of no use
		p.fetch.names.Release(o.held.Path)
		return outcome{action: o.action, err: &content.LocalError{Err: err}}
	}
	o.sealed = sealed
	return o
}

// hand gives to the workers what takes the network, and passes the rest on.
func (p *applier) hand(ctx context.Context, actions iter.Seq2[plan.Action, error], work *dispatch.Dispatcher[plan.Action], send func(outcome)) error {
	p.ways.start(ctx, p.fetch, send, func(a *plan.Action) { work.Put(ctx, a.URI, a, false) })
	err := p.handEach(ctx, actions, work, send)
	if ferr := p.ways.finish(ctx.Err() == nil && err == nil); err == nil {
		err = ferr
	}
	return err
}

// handEach goes over the actions, and again for as long as there are some of
// hosts that were too slow to take them in.
func (p *applier) handEach(ctx context.Context, actions iter.Seq2[plan.Action, error], work *dispatch.Dispatcher[plan.Action], send func(outcome)) error {
	for round := 1; round == 1 || work.NextRound(ctx); round++ {
		for a, err := range actions {
			if err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if a.Verb == plan.Fetch {
				if work.Leaves(a.URI, round) {
					continue
				}
				if err := p.handFetch(ctx, &a, work); err != nil {
					return err
				}
			} else if round == 1 {
				p.handRest(&a, send)
			}
		}
	}
	return nil
}

func (p *applier) handFetch(ctx context.Context, a *plan.Action, work *dispatch.Dispatcher[plan.Action]) error {
	if a.Rehash { // mostly nothing has to come
		work.Put(ctx, a.URI, a, !p.last)
		return nil
	}
	packed := p.ways.packages != nil && a.Member.Package > 0
	if a.From == "" && a.Change != resourcesync.UnknownChange && len(p.fetch.patchesFirst(a, packed)) == 0 { // otherwise no package or patch has it, or none is cheaper
		if p.fetch.past && a.Member.Package > 0 && p.fetch.keeps(ctx, a) {
			work.Put(ctx, a.URI, a, !p.last) // it is here
			return nil
		}
		if taken, err := p.ways.takes(a); err != nil || taken {
			return err
		}
	}
	work.Put(ctx, a.URI, a, !p.last)
	return nil
}

// handRest passes on what takes no network.
func (p *applier) handRest(a *plan.Action, send func(outcome)) {
	switch a.Verb {
	case plan.Skip:
		if a.Class != 0 { // nothing to do, but it may have been owed
			send(outcome{action: a})
		}
	case plan.InStep, plan.Refuse:
		send(outcome{action: a})
	case plan.Defer:
		send(outcome{action: a, err: a.Cause})
	case plan.Touch, plan.Release:
		send(p.known(a))
	}
}

// known is the outcome of an action that only changes what we know.
func (p *applier) known(a *plan.Action) outcome {
	h := a.Held
	if a.Verb == plan.Release {
		h.Sets = plan.WithoutSet(h.Sets, p.set.Number)
		return outcome{action: a, held: h}
	}
	h.Sets = plan.WithSet(h.Sets, p.set.Number)
	if !a.Lastmod.IsZero() {
		h.Lastmod = a.Lastmod.Time().Truncate(time.Microsecond)
	}
	return outcome{action: a, held: h, same: true}
}

// collect gathers outcomes into shipments, of which one at a time is on its way
// to the disk while the next gathers. It reads outcomes until there are no
// more, whatever happens, so that no sender blocks forever; it records what is
// finished even when we are interrupted.
func (p *applier) collect(ctx context.Context, stop context.CancelFunc, done <-chan outcome) error {
	grace, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(graceAfterCancel, cancel) })()
	shipments, back := make(chan *shipment), make(chan *shipment)
	var carrier sync.WaitGroup
	defer carrier.Wait()
	defer close(shipments)
	carrier.Go(func() {
		for l := range shipments {
			p.carry(grace, l)
			back <- l
		}
	})
	tick := time.NewTicker(batchAge / 2)
	defer tick.Stop()
	var failed error
	for away := false; done != nil || away; {
		from := done
		if away && p.isCrowded() {
			from = nil
		}
		var err error
		select {
		case o, ok := <-from:
			switch {
			case !ok:
				done = nil
			case failed != nil:
				p.discard(&o)
			default:
				err = p.take(o)
			}
		case l := <-back:
			away = false
			err = p.bookShipment(l)
		case <-tick.C:
		}
		if err != nil && failed == nil {
			failed = err
			stop()
		}
		// After a failure that did not break the disk, what is finished is kept.
		if !away && !p.broken && (failed == nil || done == nil) && p.isRipe(done == nil) {
			shipments <- p.nextShipment(false)
			away = true
		}
	}
	return failed
}

// take records one outcome.
func (p *applier) take(o outcome) error {
	a := o.action
	if o.warning != "" {
		p.warn(a.URI, o.warning)
	}
	switch {
	case p.versions != nil && a.Verb == plan.Refuse:
		p.versions.add(a, planner.ErrNoVersion)
		return nil
	case p.versions != nil && o.err != nil && !isCanceled(o.err) && !content.IsLocal(o.err):
		p.versions.add(a, o.err)
		return nil
	case a.Verb == plan.Refuse:
		p.refused(a)
	case isCanceled(o.err):
		return nil // neither done nor failed: the next run finds it as it was
	case o.err != nil && content.IsLocal(o.err):
		return p.unkept(a, o.err)
	case confirmsDeletion(a, o.err):
		p.confirm(a, o.err)
	case o.err != nil && o.instead:
		p.excuse(a, o.err)
	case o.err != nil:
		p.failed(a, o)
	case o.later:
		if len(p.later) < maxLater {
			p.later = append(p.later, *a)
		} else {
			p.crowd = true
		}
		return nil
	case o.writer != nil:
		if len(p.batch) == 0 {
			p.begun = time.Now()
		}
		p.batch = append(p.batch, o)
		p.bytes += o.held.Length
		if !o.sealed {
			p.open++
		}
		p.many.Store(len(p.batch) > sealAfter)
		return nil
	case a.Verb == plan.Skip:
		p.paid(a)
		return nil
	case a.Verb == plan.InStep:
		p.report.Unchanged++
		p.paid(a)
	default:
		p.settled(&o)
	}
	p.step(a, 0)
	return nil
}

// sealAfter is how many contents of a batch stay open: a batch that small is
// synced file by file.
const sealAfter = 8

// settled records an outcome whose content is on disk.
func (p *applier) settled(o *outcome) {
	a := o.action
	p.pending.Put = append(p.pending.Put, o.held)
	if o.writer == nil && p.keep.IsOn() && history.Differs(&a.Held, &o.held) { // else it is noted
		p.pending.Past = append(p.pending.Past, history.Before(a.URI, &a.Held))
	}
	was, is := plan.HasSet(a.Held.Sets, p.set.Number), plan.HasSet(o.held.Sets, p.set.Number)
	switch {
	case is && !was:
		p.counts[p.set.Number]++
	case was && !is:
		p.counts[p.set.Number]--
	}
	p.paid(a)
	p.marked.Add(o.held.URI, o.held.Path)
	if l := p.report.Local; l != nil && a.Verb == plan.Fetch && a.IsHeld() && len(a.Held.Hashes) == 0 && l.Repaired < l.Damaged() {
		l.Repaired++
	}
	p.report.By.add(o)
	p.moved.add(o)
	if a.Verb == plan.Fetch {
		p.fetch.names.Release(o.held.Path)
	}
	switch {
	case a.Verb == plan.Release || o.same:
		p.report.Unchanged++
	case o.adopted:
		p.report.Unchanged++
		p.applied(a, &o.held)
	case a.IsHeld():
		p.report.Updated++
		p.applied(a, &o.held)
	default:
		p.report.Created++
		p.applied(a, &o.held)
	}
}

// paid deletes the pending work for a, and withdraws a failure earlier in this
// run.
func (p *applier) paid(a *plan.Action) {
	p.mended(a)
	p.results.Add(a.URI, push.Unchanged)
	if p.owing {
		p.pending.Settle = append(p.pending.Settle, journal.Owed{Set: p.set.Number, URI: a.URI})
	}
}

// failed records a failure. It stays pending until it succeeds or is no longer
// needed.
func (p *applier) failed(a *plan.Action, o outcome) {
	if o.stale && a.Unconfirmed {
		p.disproved(a, o.err)
		return
	}
	if o.stale && len(p.stale) < maxStale {
		p.book(a, o.err)
		p.stale[a.URI] = o.err
		return
	}
	p.fail(a, o.err)
}

// fail records a failure and reports it.
func (p *applier) fail(a *plan.Action, err error) {
	p.book(a, err)
	p.progress.Failed++
	p.d.emit(Event{Kind: EventFailed, Set: p.set.Name, URI: a.URI, Err: err, Later: p.triesAgain(err)})
}

func (p *applier) book(a *plan.Action, err error) {
	p.count(a, err)
	p.owe(a, err)
}

func (p *applier) count(a *plan.Action, err error) {
	p.mended(a) // it counts once
	p.report.Failed++
	later := p.triesAgain(err)
	if later {
		p.passing[p.set.Number]++
	}
	p.report.failResource(a.URI, err, later)
	p.missed(a, err)
}

// triesAgain reports whether what failed with err is tried again at the end of
// the run.
func (p *applier) triesAgain(err error) bool {
	return p.passing != nil && isPassing(err) && !isStale(err) && notBeforeOf(err).IsZero()
}

// disproved records that the content at the Source is not what a notification
// states. It does not retry for the sake of the notification: the Source's own
// documents say what is right, and are read next.
func (p *applier) disproved(a *plan.Action, err error) {
	if a.Class == desired.Pending {
		p.paid(a)
		p.warn(a.URI, fmt.Sprintf("%v, by a notification that its documents do not bear out; the notification is ignored", err))
		return
	}
	if len(p.stale) < maxStale {
		p.count(a, err)
		p.stale[a.URI] = err
	}
}

// missed records that content of the past is unavailable.
func (p *applier) missed(a *plan.Action, err error) {
	if p.fetch.past {
		p.report.miss(a.URI, err.Error())
	}
}

// mended withdraws a failure earlier in this run.
func (p *applier) mended(a *plan.Action) {
	if err, ok := p.stale[a.URI]; ok {
		delete(p.stale, a.URI)
		p.report.Failed--
		p.report.unfail(a.URI, err.Error())
		p.report.unmiss(a.URI)
	}
}

// refused records a resource that must not be fetched.
func (p *applier) refused(a *plan.Action) {
	err := fmt.Errorf("refuse %s: %s", fetch.Printable(a.URI), a.Refused)
	p.report.Refused++
	p.report.failResource(a.URI, err, false)
	p.missed(a, err)
	p.owe(a, err)
	p.d.emit(Event{Kind: EventRefused, Set: p.set.Name, URI: a.URI, Err: err})
}

func (p *applier) owe(a *plan.Action, err error) {
	p.owing = true
	w := a.AsStated()
	w.Class, w.Rank.Doc, w.Rank.Pos, w.Rank.Nth = desired.Pending, 0, 0, 0
	w.Transient, w.NotBefore = p.triesAgain(err), notBeforeOf(err)
	p.pending.Owe = append(p.pending.Owe, journal.Owed{Set: p.set.Number, URI: a.URI, Entry: w.Append(nil), Cause: err.Error()})
	if a.FileMissing && a.IsHeld() && len(a.Held.Hashes) > 0 {
		// The pending entry may be of another time: the row must not be taken
		// for that of a file.
		h := a.Held
		h.Hashes, h.ETag, h.Modified = nil, "", ""
		p.pending.Put = append(p.pending.Put, h)
		if p.keep.IsOn() {
			p.pending.Past = append(p.pending.Past, history.Before(a.URI, &a.Held)) // its bytes may be kept elsewhere
		}
	}
}

func (p *applier) warn(uri, text string) {
	if !p.report.warn(text) {
		return
	}
	p.d.emit(Event{Kind: EventWarning, Set: p.set.Name, URI: uri, Err: errors.New(text)})
}

// applied reports a change that is on disk.
func (p *applier) applied(a *plan.Action, h *journal.Held) {
	c := p.change(a, h)
	p.results.Add(a.URI, resultOf(a))
	p.progress.Applied++
	p.out.Add(c)
	p.d.emit(c.event())
}

// tickEvery is the shortest interval between progress events.
const tickEvery = 100 * time.Millisecond

// step reports progress, at most every tickEvery.
func (p *applier) step(_ *plan.Action, bytes int64) {
	p.progress.Done++
	p.progress.Bytes += bytes
	if p.d.opts.OnEvent == nil || time.Since(p.lastTick) < tickEvery {
		return
	}
	p.lastTick = time.Now()
	p.d.emit(Event{Kind: EventProgress, Set: p.set.Name, Progress: p.progress})
}
