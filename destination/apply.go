package destination

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/blob"
	"lockstep/internal/fetch"
)

// The bounds of a batch. A larger one costs fewer synchronisations of the disk
// and transactions; all of it is fetched again if we are killed before it is
// committed, unless the store can resume what was left.
const (
	batchCount = 256
	batchBytes = 64 << 20
	batchAge   = 200 * time.Millisecond
)

// graceAfterCancel is how long an interrupted run may take to record what it
// has finished.
const graceAfterCancel = 5 * time.Second

// An applier carries out the actions of one set. The order of its writes: the
// intent, with the rows of the batch before, in one transaction; the files;
// and so on; the rows of the last batch. Deletions come last.
type applier struct {
	d      *Destination
	set    *setState
	report *Report
	fetch  *fetcher
	ways   ways
	counts counts
	out    *outbox
	owing  bool // something is, or may be, owed to the set

	progress Progress
	lastTick time.Time
	stale    map[string]error // failures that reading the description again may mend; told if it does not

	batch   []outcome
	bytes   int64
	begun   time.Time
	pending Batch    // to be recorded with the next transaction
	intent  bool     // the Journal holds an intent
	broken  bool     // the intent must stay: nobody knows what became of the batch
	later   []action // wait for deletions: something is in their way that may go, or there is no room
	tight   bool     // some of them for want of room
	last    bool     // nothing waits any more
	full    int      // how many in a row there was no room for
}

// run carries out everything but deletions. It returns an error only when
// nothing more can be done: the disk, the Journal or the context failed.
func (p *applier) run(ctx context.Context, actions iter.Seq2[action, error]) error {
	var g errgroup.Group
	gctx, stop := context.WithCancel(ctx)
	defer stop()
	jobs := p.d.opts.Jobs
	if p.last && p.tight {
		jobs = 1 // several would take each other's room
	}
	todo := make(chan *action, 2*jobs)
	done := make(chan outcome, batchCount)
	var senders sync.WaitGroup
	senders.Add(1 + jobs)
	g.Go(func() error {
		defer senders.Done()
		defer close(todo)
		err := p.hand(gctx, actions, todo, done)
		if gctx.Err() != nil {
			return nil // who stopped it says why
		}
		if err != nil {
			stop()
		}
		return err
	})
	for range jobs {
		g.Go(func() error {
			defer senders.Done()
			for a := range todo {
				if gctx.Err() == nil {
					done <- p.fetch.do(gctx, a)
				}
			}
			return nil
		})
	}
	g.Go(func() error { senders.Wait(); close(done); return nil })
	g.Go(func() error { return p.collect(gctx, stop, done) })
	err := g.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// hand gives to the workers what takes the network, and passes the rest on.
func (p *applier) hand(ctx context.Context, actions iter.Seq2[action, error], todo chan<- *action, done chan<- outcome) error {
	single := func(a *action) {
		select {
		case todo <- a:
		case <-ctx.Done():
		}
	}
	p.ways.start(ctx, p.fetch, func(o outcome) { done <- o }, single)
	err := p.handEach(ctx, actions, single, done)
	if ferr := p.ways.finish(ctx.Err() == nil && err == nil); err == nil {
		err = ferr
	}
	return err
}

func (p *applier) handEach(ctx context.Context, actions iter.Seq2[action, error], single func(*action), done chan<- outcome) error {
	for a, err := range actions {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		switch a.verb {
		case verbFetch:
			taken := false
			if len(p.fetch.patches(&a)) == 0 { // else nothing is cheaper
				if taken, err = p.ways.takes(&a); err != nil {
					return err
				}
			}
			if !taken {
				single(&a)
			}
		case verbSkip:
			if a.class != 0 { // nothing to do, but it may have been owed
				done <- outcome{action: &a}
			}
		case verbNone, verbRefuse:
			done <- outcome{action: &a}
		case verbTouch, verbRelease:
			done <- p.known(&a)
		}
	}
	return nil
}

// known is the outcome of an action that only changes what we know.
func (p *applier) known(a *action) outcome {
	h := a.held
	if a.verb == verbRelease {
		h.Sets = without(h.Sets, p.set.Number)
		return outcome{action: a, held: h}
	}
	h.Sets = with(h.Sets, p.set.Number)
	if !a.Lastmod.IsZero() {
		h.Lastmod = a.Lastmod.Time().Truncate(time.Microsecond)
	}
	return outcome{action: a, held: h, same: true}
}

// collect gathers outcomes into batches and commits them. It takes outcomes
// until there are no more, whatever happens, so that nobody waits for it in
// vain; what is finished is recorded even when we are interrupted.
func (p *applier) collect(ctx context.Context, stop context.CancelFunc, done <-chan outcome) error {
	grace, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(graceAfterCancel, cancel) })()
	tick := time.NewTicker(batchAge / 2)
	defer tick.Stop()
	var failed error
	for {
		var err error
		select {
		case o, ok := <-done:
			switch {
			case !ok:
				if err := p.flush(grace); failed == nil {
					failed = err
				}
				return failed
			case failed != nil:
				p.discard(&o)
			default:
				err = p.take(grace, o)
			}
		case <-tick.C:
			if failed == nil && len(p.batch) > 0 && time.Since(p.begun) >= batchAge {
				err = p.commit(grace)
			}
		}
		if err != nil {
			failed = err
			stop()
		}
	}
}

// take books one outcome.
func (p *applier) take(ctx context.Context, o outcome) error {
	a := o.action
	if o.warning != "" {
		p.warn(a.URI, o.warning)
	}
	switch {
	case a.verb == verbRefuse:
		p.refused(a)
	case isCanceled(o.err):
		return nil // neither done nor failed: the next run finds it as it was
	case o.err != nil && isLocal(o.err):
		return p.unkept(a, o.err)
	case o.err != nil:
		p.failed(a, o)
	case o.later:
		p.later = append(p.later, *a)
		return nil
	case o.writer != nil:
		if len(p.batch) == 0 {
			p.begun = time.Now()
		}
		p.batch = append(p.batch, o)
		p.bytes += o.held.Length
		if len(p.batch) >= batchCount || p.bytes >= batchBytes {
			return p.commit(ctx)
		}
		return nil
	case a.verb == verbSkip:
		p.paid(a)
		return p.relieve(ctx)
	case a.verb == verbNone:
		p.report.Unchanged++
		p.paid(a)
	default:
		p.settled(&o)
	}
	p.step(a, 0)
	return p.relieve(ctx)
}

// settled books an outcome whose content is on disk.
func (p *applier) settled(o *outcome) {
	a := o.action
	p.pending.Put = append(p.pending.Put, o.held)
	was, is := contains(a.held.Sets, p.set.Number), contains(o.held.Sets, p.set.Number)
	switch {
	case is && !was:
		p.counts[p.set.Number]++
	case was && !is:
		p.counts[p.set.Number]--
	}
	p.paid(a)
	p.report.By.add(o)
	if a.verb == verbFetch {
		p.fetch.names.release(o.held.Path)
	}
	switch {
	case a.verb == verbRelease || o.same:
		p.report.Unchanged++
	case a.isHeld():
		p.report.Updated++
		p.applied(a, &o.held)
	default:
		p.report.Created++
		p.applied(a, &o.held)
	}
}

// paid strikes what was owed for a, and a failure earlier in this run.
func (p *applier) paid(a *action) {
	p.mended(a)
	if p.owing {
		p.pending.Settle = append(p.pending.Settle, Owed{Set: p.set.Number, URI: a.URI})
	}
}

// failed books a failure. It stays owed until it is done or no longer wanted.
func (p *applier) failed(a *action, o outcome) {
	if o.stale && len(p.stale) < maxStale {
		p.book(a, o.err)
		p.stale[a.URI] = o.err
		return
	}
	p.fail(a, o.err)
}

// fail books a failure and tells of it.
func (p *applier) fail(a *action, err error) {
	p.book(a, err)
	p.progress.Failed++
	p.d.emit(Event{Kind: EventFailed, Set: p.set.Name, URI: a.URI, Err: err})
}

func (p *applier) book(a *action, err error) {
	p.mended(a) // it counts once
	p.report.Failed++
	p.report.fail(a.URI, err.Error())
	p.owe(a, err.Error())
}

// mended takes back a failure earlier in this run.
func (p *applier) mended(a *action) {
	if err, ok := p.stale[a.URI]; ok {
		delete(p.stale, a.URI)
		p.report.Failed--
		p.report.unfail(a.URI, err.Error())
	}
}

// refused books a resource that must not be fetched.
func (p *applier) refused(a *action) {
	err := fmt.Errorf("refuse %s: %s", fetch.Printable(a.URI), a.Refused)
	p.report.Refused++
	p.report.fail(a.URI, err.Error())
	p.owe(a, err.Error())
	p.d.emit(Event{Kind: EventRefused, Set: p.set.Name, URI: a.URI, Err: err})
}

func (p *applier) owe(a *action, cause string) {
	p.owing = true
	w := a.asStated()
	w.class, w.rank.doc, w.rank.pos, w.rank.nth = wantOwed, 0, 0, 0
	p.pending.Owe = append(p.pending.Owe, Owed{Set: p.set.Number, URI: a.URI, Entry: w.appendTo(nil), Cause: cause})
}

func (p *applier) warn(uri, text string) {
	p.report.warn(text)
	p.d.emit(Event{Kind: EventWarning, Set: p.set.Name, URI: uri, Err: errors.New(text)})
}

// applied tells of a change that is on disk.
func (p *applier) applied(a *action, h *Held) {
	c := p.change(a, h)
	p.progress.Applied++
	p.out.add(&c)
	p.d.emit(c.event())
}

// tickEvery is how often progress is told.
const tickEvery = 100 * time.Millisecond

// step tells of progress, now and then.
func (p *applier) step(_ *action, bytes int64) {
	p.progress.Done++
	p.progress.Bytes += bytes
	if p.d.opts.OnEvent == nil || time.Since(p.lastTick) < tickEvery {
		return
	}
	p.lastTick = time.Now()
	p.d.emit(Event{Kind: EventProgress, Set: p.set.Name, Progress: p.progress})
}

// remove carries out the deletions of a plan.
func (p *applier) remove(ctx context.Context, actions iter.Seq2[action, error]) error {
	var batch []action
	flush := func() error {
		defer func() { batch = batch[:0] }()
		return p.removeBatch(ctx, batch)
	}
	for a, err := range actions {
		if err != nil {
			return err
		}
		if a.verb != verbRemove {
			continue
		}
		if batch = append(batch, a); len(batch) == batchCount {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	return p.record(ctx, nil, true)
}

// removeBatch removes the files first: a row without a file is found again, a
// file without a row would be nobody's.
func (p *applier) removeBatch(ctx context.Context, batch []action) error {
	if len(batch) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	all := p.withdraw(ctx, batch...)
	if all != nil && isFatal(all) {
		return all
	}
	for i := range batch {
		a := &batch[i]
		if all != nil {
			if err := p.withdraw(ctx, *a); err != nil && !inPlaceOf(err) {
				if ctx.Err() != nil || isFatal(err) {
					return err
				}
				p.fail(a, err)
				continue
			}
		}
		p.pending.Drop = append(p.pending.Drop, a.URI)
		p.counts[p.set.Number]--
		p.paid(a)
		p.report.Deleted++
		p.applied(a, &a.held)
		p.step(a, 0)
	}
	return p.record(ctx, nil, true)
}

// inPlaceOf reports whether err says that something else stands where our file
// was: the file is gone, and what stands there is not ours to remove.
func inPlaceOf(err error) bool {
	return errors.Is(err, blob.ErrDirectory) || errors.Is(err, blob.ErrNotDirectory) || errors.Is(err, blob.ErrForeign)
}

// isCanceled reports whether err says only that we were told to stop.
func isCanceled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// isFull reports whether err says that there is no more room.
func isFull(err error) bool {
	var delivery *DeliveryError // of others, whose disk is none of ours
	var sink *SinkError
	return !errors.As(err, &delivery) && !errors.As(err, &sink) && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT))
}

// isLocal reports whether err is one of the store, not of the Source.
func isLocal(err error) bool {
	var local *localError
	var commit *blob.CommitError
	return errors.As(err, &local) || errors.As(err, &commit)
}

// isFatal reports whether err concerns the place where resources are kept, not
// one of them. Where there is no room for one, there may be for another.
func isFatal(err error) bool {
	var sink *SinkError
	if errors.As(err, &sink) {
		return true
	}
	if !isLocal(err) {
		return false
	}
	for _, e := range []error{syscall.EROFS, syscall.EIO, syscall.EMFILE, syscall.ENFILE, syscall.ENODEV} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
