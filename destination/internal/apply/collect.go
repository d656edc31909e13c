package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"lockstep/blob"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/failure"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/planner"
	"lockstep/destination/internal/reserve"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/transfer"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
)

// graceAfterCancel is how long an interrupted run may take to record what it
// has finished.
const graceAfterCancel = 5 * time.Second

// collect gathers outcomes into shipments, of which one at a time is on its way
// to the disk while the next gathers. It reads outcomes until there are no
// more, whatever happens, so that no sender blocks forever; it records what is
// finished even when we are interrupted.
func (p *Applier) collect(ctx context.Context, stop context.CancelFunc, done <-chan transfer.Outcome) error {
	grace, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(graceAfterCancel, cancel) })()
	shipments, back := make(chan *shipment), make(chan *shipment)
	var carrier sync.WaitGroup
	defer carrier.Wait()
	defer close(shipments)
	carrier.Go(func() {
		for l := range shipments {
			p.committer.carry(grace, l)
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
				err = p.take(ctx, o)
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
func (p *Applier) take(ctx context.Context, o transfer.Outcome) error {
	a := o.Action
	if o.Warning != "" {
		p.Recorder.Report.Warn(a.URI, o.Warning)
	}
	if o.Err == nil && !o.Postponed {
		delete(p.doubts, a.URI) // the next batch has it, or a row
	}
	switch {
	case p.Lost != nil && a.Verb == plan.Refuse:
		p.Lost(a, planner.ErrNoVersion)
		return nil
	case p.Lost != nil && o.Err != nil && !content.IsCanceled(ctx, o.Err) && !content.IsLocal(o.Err):
		p.Lost(a, o.Err)
		return nil
	case a.Verb == plan.Refuse:
		p.Recorder.refused(a)
	case content.IsCanceled(ctx, o.Err):
		return nil // neither done nor failed: the next run finds it as it was
	case o.Err != nil && content.IsLocal(o.Err):
		if o.Crowded {
			p.full = min(p.full, maxFull-1)
		}
		return p.unkept(a, o.Held.Path, o.Err)
	case confirmsDeletion(a, o.Err):
		p.Recorder.confirm(a, o.Err)
	case o.Err != nil && o.Replaced:
		p.Recorder.excuse(a, o.Err)
	case o.Err != nil:
		p.Recorder.failed(a, o)
	case o.Postponed:
		if len(p.later) < maxLater {
			p.later = append(p.later, *a)
		} else {
			p.crowd = true
		}
		return nil
	case o.Writer != nil:
		p.batch.add(o)
		return nil
	case a.Verb == plan.Skip:
		p.Recorder.paid(a)
		return nil
	case a.Verb == plan.InStep:
		p.Recorder.Report.Count(InStep)
		if !a.Uncertain {
			p.Recorder.paid(a)
		}
	default:
		settled := o // not o, which would be allocated for all outcomes
		p.Recorder.settled(&settled)
	}
	p.Recorder.step(0)
	return nil
}

// nextShipment takes what has gathered. Without a batch, keep says that the
// existing intent is still needed.
func (p *Applier) nextShipment(keep bool) *shipment {
	l := &shipment{batch: p.batch.take(), rows: p.Recorder.pending, changes: p.mirror.Out.Take(), staleIntent: p.intent && !keep, places: p.places}
	p.places = false
	for _, e := range p.doubts {
		l.doubts = desired.AppendHeld(l.doubts, &e.Held)
	}
	if len(l.rows.Put)+len(l.rows.Drop) > 0 {
		l.counts = saved.Encode(p.Recorder.Counts)
	}
	l.restated = p.Recorder.restated
	p.Recorder.pending, p.Recorder.restated = journal.Batch{}, nil
	return l
}

// isRipe reports whether it is time for the next shipment; end says that nothing
// more will come.
func (p *Applier) isRipe(end bool) bool {
	switch n := len(p.batch.outcomes); {
	case end && (n > 0 || p.intent || p.Recorder.rows() > 0 || p.mirror.Out.Waiting()):
		return true
	case n >= batchCount || p.batch.bytes >= batchBytes || p.batch.open >= p.mirror.Open || p.Recorder.rows() >= 4*batchCount:
		return true
	default:
		return n > 0 && time.Since(p.batch.begun) >= batchAge
	}
}

// isCrowded reports whether the one before has to come back first.
func (p *Applier) isCrowded() bool {
	return len(p.batch.outcomes) >= mostCount || p.batch.bytes >= mostBytes || p.batch.open >= p.mirror.Open || p.Recorder.rows() >= mostRows
}

// bookShipment records the result of a shipment.
func (p *Applier) bookShipment(l *shipment) error {
	p.intent = l.intent
	err := l.err
	for _, f := range l.unkept {
		p.Recorder.Report.NotKept(f.uri, f.warning)
	}
	for i := range l.ends {
		e := &l.ends[i]
		p.doubts.note(e)
		if e.err == nil {
			p.full = 0
			if v, ok := e.Writer.(blob.Versioned); ok {
				e.Held.Tag = v.Version()
			}
			p.Recorder.settled(&e.Outcome)
			p.Recorder.step(e.Held.Length)
			continue
		}
		if e.together {
			p.full = min(p.full, maxFull-1) // they failed together, not in a row
		}
		if uerr := p.unkept(e.Action, e.Held.Path, e.err); err == nil {
			err = uerr
		}
	}
	if l.err != nil {
		p.broken = true
		p.mirror.LeftIntent()
		p.abandon(l.rest)
		p.abandon(p.batch.drop())
	}
	return err
}

// record writes pending rows at once, and an intent that puts the rows of removed in doubt if the run ends before
// their removal is recorded.
func (p *Applier) record(ctx context.Context, keep bool, removed ...plan.Action) error {
	l := p.nextShipment(keep)
	for i := range removed {
		l.doubts = desired.AppendHeld(l.doubts, &removed[i].Held)
		l.staleIntent = true
	}
	err := p.committer.save(ctx, l)
	if p.intent = len(removed) > 0 || p.intent && !l.staleIntent; err != nil {
		p.broken = true // the counts have what is not recorded
		p.mirror.LeftIntent()
	}
	return err
}

const (
	// maxFull is how many resources in a row may fail for lack of space,
	// perhaps smaller ones each time, before no more are requested.
	maxFull = 64

	// maxLater caps those that are tried once more when there may be room, or
	// when they have got another place.
	maxLater = 10_000
)

// unkept records content that the store rejected at a path. It returns an error if the
// store will reject everything else, too.
func (p *Applier) unkept(a *plan.Action, path string, err error) error {
	err = fmt.Errorf("store %s%s: %w", fetch.Printable(a.URI), p.mirror.In, err)
	if failure.IsFatal(err) {
		return err
	}
	if down := isDown(err); down || failure.IsFull(err) {
		if p.full++; p.full > maxFull || down && p.full >= maxDown {
			return err
		}
	}
	if !p.last && len(p.later) < maxLater {
		switch {
		case failure.IsFull(err):
			p.later, p.tight = append(p.later, *a), true
			return nil
		case errors.Is(err, transfer.ErrGone):
			again := *a
			again.Place = path // where the other process may have put it
			p.later = append(p.later, again)
			return nil
		case errors.Is(err, fs.ErrExist): // another program has put a file there meanwhile
			p.later = append(p.later, *a)
			return nil
		case reserve.InTheWay(err): // a run that was killed may have removed its file
			again := *a
			again.Moves = a.IsHeld()
			p.later = append(p.later, again)
			return nil
		}
	}
	p.Recorder.fail(a, err)
	p.Recorder.step(0)
	return nil
}

// abandon discards a batch of which nothing was recorded yet.
func (p *Applier) abandon(batch []transfer.Outcome) {
	for i := range batch {
		p.discard(&batch[i])
	}
}

// discard gives up content that is right but cannot be committed now. It is
// left for the next run, if the store can.
func (p *Applier) discard(o *transfer.Outcome) {
	if o.Err != nil || o.Action.Verb != plan.Fetch {
		return
	}
	p.Fetch.Names.Release(o.Held.Path)
	if o.Writer == nil {
		return
	}
	if k, ok := o.Writer.(blob.Keeper); ok && k.Keep() == nil {
		return
	}
	_ = o.Writer.Close() // not wanted any more
}
