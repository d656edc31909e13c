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
	"lockstep/destination/internal/bulk"
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
	"lockstep/destination/internal/transfer"
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
	fetch    *transfer.Fetcher
	forms    *otherForms // finds other representations of records; nil: there are none
	ways     *bulk.Methods
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

	batch   []transfer.Outcome
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
	done := make(chan transfer.Outcome, min(doneQueue, p.d.open)) // each may hold a file open
	send := func(o transfer.Outcome) { done <- p.seal(o) }
	work := dispatch.New(jobs, func(a *plan.Action) error {
		o := fetchPreferred(gctx, p.fetch, a)
		cause := o.Err
		if cause != nil {
			var other transfer.Outcome
			switch other, o.Replaced = p.forms.fetch(gctx, p.fetch, a, cause); {
			case o.Replaced && other.Action != nil:
				send(other)
			case !o.Replaced && other.Err != nil:
				o.Err = fmt.Errorf("%w; no other representation of the record can be fetched: %w", cause, other.Err)
			}
		}
		send(o)
		return cause
	}, func(a *plan.Action, err error) { done <- transfer.Outcome{Action: a, Err: err} })
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
	p.ways.Members.Close()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// doneQueue is how many outcomes may wait to be booked.
const doneQueue = 256

// seal lets the store close the file of content that is whole, where many are
// to be committed together.
func (p *applier) seal(o transfer.Outcome) transfer.Outcome {
	if o.Writer == nil || !p.many.Load() {
		return o
	}
	s, ok := o.Writer.(blob.Sealer)
	if !ok {
		return o
	}
	sealed, err := s.Seal()
	if err != nil {
		_ = o.Writer.Close() // err says why it is of no use
		p.fetch.Names.Release(o.Held.Path)
		return transfer.Outcome{Action: o.Action, Err: &content.LocalError{Err: err}}
	}
	o.Sealed = sealed
	return o
}

// hand gives to the workers what takes the network, and passes the rest on.
func (p *applier) hand(ctx context.Context, actions iter.Seq2[plan.Action, error], work *dispatch.Dispatcher[plan.Action], send func(transfer.Outcome)) error {
	p.ways.Start(ctx, p.fetch, send, func(a *plan.Action) { work.Put(ctx, a.URI, a, false) })
	err := p.handEach(ctx, actions, work, send)
	if ferr := p.ways.Finish(ctx, ctx.Err() == nil && err == nil); err == nil {
		err = ferr
	}
	return err
}

// handEach goes over the actions, and again for as long as there are some of
// hosts that were too slow to take them in.
func (p *applier) handEach(ctx context.Context, actions iter.Seq2[plan.Action, error], work *dispatch.Dispatcher[plan.Action], send func(transfer.Outcome)) error {
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
	packed := p.ways.Packages != nil && a.Member.Package > 0
	if a.From == "" && a.Change != resourcesync.UnknownChange && len(p.fetch.PatchesFirst(a, packed)) == 0 { // otherwise no package or patch has it, or none is cheaper
		if p.fetch.OfPast && a.Member.Package > 0 && p.fetch.Keeps(ctx, a) {
			work.Put(ctx, a.URI, a, !p.last) // it is here
			return nil
		}
		if taken, err := p.ways.Take(a); err != nil || taken {
			return err
		}
	}
	work.Put(ctx, a.URI, a, !p.last)
	return nil
}

// handRest passes on what takes no network.
func (p *applier) handRest(a *plan.Action, send func(transfer.Outcome)) {
	switch a.Verb {
	case plan.Skip:
		if a.Class != 0 { // nothing to do, but it may have been owed
			send(transfer.Outcome{Action: a})
		}
	case plan.InStep, plan.Refuse:
		send(transfer.Outcome{Action: a})
	case plan.Defer:
		send(transfer.Outcome{Action: a, Err: a.Cause})
	case plan.Touch, plan.Release:
		send(p.known(a))
	}
}

// known is the outcome of an action that only changes what we know.
func (p *applier) known(a *plan.Action) transfer.Outcome {
	h := a.Held
	if a.Verb == plan.Release {
		h.Sets = plan.WithoutSet(h.Sets, p.set.Number)
		return transfer.Outcome{Action: a, Held: h}
	}
	h.Sets = plan.WithSet(h.Sets, p.set.Number)
	if !a.Lastmod.IsZero() {
		h.Lastmod = a.Lastmod.Time().Truncate(time.Microsecond)
	}
	return transfer.Outcome{Action: a, Held: h, Unchanged: true}
}

// collect gathers outcomes into shipments, of which one at a time is on its way
// to the disk while the next gathers. It reads outcomes until there are no
// more, whatever happens, so that no sender blocks forever; it records what is
// finished even when we are interrupted.
func (p *applier) collect(ctx context.Context, stop context.CancelFunc, done <-chan transfer.Outcome) error {
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
func (p *applier) take(o transfer.Outcome) error {
	a := o.Action
	if o.Warning != "" {
		p.warn(a.URI, o.Warning)
	}
	switch {
	case p.versions != nil && a.Verb == plan.Refuse:
		p.versions.add(a, planner.ErrNoVersion)
		return nil
	case p.versions != nil && o.Err != nil && !isCanceled(o.Err) && !content.IsLocal(o.Err):
		p.versions.add(a, o.Err)
		return nil
	case a.Verb == plan.Refuse:
		p.refused(a)
	case isCanceled(o.Err):
		return nil // neither done nor failed: the next run finds it as it was
	case o.Err != nil && content.IsLocal(o.Err):
		return p.unkept(a, o.Err)
	case confirmsDeletion(a, o.Err):
		p.confirm(a, o.Err)
	case o.Err != nil && o.Replaced:
		p.excuse(a, o.Err)
	case o.Err != nil:
		p.failed(a, o)
	case o.Postponed:
		if len(p.later) < maxLater {
			p.later = append(p.later, *a)
		} else {
			p.crowd = true
		}
		return nil
	case o.Writer != nil:
		if len(p.batch) == 0 {
			p.begun = time.Now()
		}
		p.batch = append(p.batch, o)
		p.bytes += o.Held.Length
		if !o.Sealed {
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
func (p *applier) settled(o *transfer.Outcome) {
	a := o.Action
	p.pending.Put = append(p.pending.Put, o.Held)
	if o.Writer == nil && p.keep.IsOn() && history.Differs(&a.Held, &o.Held) { // else it is noted
		p.pending.Past = append(p.pending.Past, history.Before(a.URI, &a.Held))
	}
	was, is := plan.HasSet(a.Held.Sets, p.set.Number), plan.HasSet(o.Held.Sets, p.set.Number)
	switch {
	case is && !was:
		p.counts[p.set.Number]++
	case was && !is:
		p.counts[p.set.Number]--
	}
	p.paid(a)
	p.marked.Add(o.Held.URI, o.Held.Path)
	if l := p.report.Local; l != nil && a.Verb == plan.Fetch && a.IsHeld() && len(a.Held.Hashes) == 0 && l.Repaired < l.Damaged() {
		l.Repaired++
	}
	p.report.By.add(o)
	p.moved.add(o)
	if a.Verb == plan.Fetch {
		p.fetch.Names.Release(o.Held.Path)
	}
	switch {
	case a.Verb == plan.Release || o.Unchanged:
		p.report.Unchanged++
	case o.Adopted:
		p.report.Unchanged++
		p.applied(a, &o.Held)
	case a.IsHeld():
		p.report.Updated++
		p.applied(a, &o.Held)
	default:
		p.report.Created++
		p.applied(a, &o.Held)
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
func (p *applier) failed(a *plan.Action, o transfer.Outcome) {
	if o.Stale && a.Unconfirmed {
		p.disproved(a, o.Err)
		return
	}
	if o.Stale && len(p.stale) < maxStale {
		p.book(a, o.Err)
		p.stale[a.URI] = o.Err
		return
	}
	p.fail(a, o.Err)
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
	return p.passing != nil && isPassing(err) && !transfer.IsStale(err) && notBeforeOf(err).IsZero()
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
	if p.fetch.OfPast {
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
