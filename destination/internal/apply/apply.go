package apply

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/blob"
	"lockstep/destination/internal/bulk"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/dispatch"
	"lockstep/destination/internal/failure"
	"lockstep/destination/internal/filetime"
	"lockstep/destination/internal/history"
	"lockstep/destination/internal/outbox"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/recovery"
	"lockstep/destination/internal/transfer"
	"lockstep/destination/journal"
	"lockstep/destination/report"
	"lockstep/destination/share"
	"lockstep/resourcesync"
)

// A Mirror is what actions change.
type Mirror struct {
	Store   blob.Store
	Journal journal.Journal
	Keep    *history.Keeper // records what is replaced and removed
	Out     *outbox.Box[report.Change]

	// LeftIntent is called when the Journal is left with an intent of which nothing is recorded:
	// before another one replaces it, its files have to be examined, as after a kill.
	LeftIntent func()

	In   string // names the mirror in the middle of a sentence, with a space before; may be empty
	Jobs int    // transfers from one host at a time

	Share *share.Pool // other processes that fetch contents; nil: there are none

	Statements bool // Out also gets resources of which only what the Source states of the content has changed
	Open       int  // files that may be open at a time
}

// An Applier carries out the actions of one set. The order of its writes: the
// intent, with the rows of the batch before, in one transaction; the files;
// and so on; the rows of the last batch. Deletions come last.
type Applier struct {
	Fetch    *transfer.Fetcher
	Methods  *bulk.Methods
	Recorder *Recorder

	// OtherForm fetches another representation of the record whose own could not
	// be fetched because of err; nil: there are none. It reports whether there is
	// one; the outcome has no action if it is here already. Otherwise the error of
	// the outcome says why not, if one was tried.
	OtherForm func(ctx context.Context, f *transfer.Fetcher, a *plan.Action, err error) (transfer.Outcome, bool)

	// Lost is called with what is unavailable. Not nil: these are versions other
	// than the last, which may be missing without harm.
	Lost func(a *plan.Action, err error)

	mirror    *Mirror
	committer *committer

	batch  batch
	intent bool          // the Journal holds an intent
	broken bool          // the intent must be kept: it is unknown which part of the batch was committed
	places bool          // the Journal holds the description of a change of places that is done
	doubts doubts        // contents that may have been committed although that failed
	later  []plan.Action // wait for deletions: something is in their way that may go, or there is no room
	crowd  bool          // more had to wait than are remembered
	tight  bool          // some of them for want of room
	last   bool          // nothing waits any more
	full   int           // how many in a row there was no room for, each while it was the only one
	room   room
}

// New returns an Applier that fetches with f, changes m and records the results in r.
func New(m Mirror, f *transfer.Fetcher, methods *bulk.Methods, r *Recorder) *Applier {
	r.mirror, r.fetch = &m, f
	p := &Applier{Fetch: f, Methods: methods, Recorder: r, mirror: &m}
	p.committer = &committer{mirror: &m, fetch: f, set: r.Set, name: r.Name, room: &p.room, patience: roomPatience}
	return p
}

// Execute carries out the actions of a plan, which replan yields once more:
// first what is new and changed, then deletions if deletes says so, then what
// needed the space that these freed.
func (p *Applier) Execute(ctx context.Context, actions iter.Seq2[plan.Action, error], replan func() iter.Seq2[plan.Action, error], deletes bool) (err error) {
	defer func() { p.Recorder.Report.Progress(p.Recorder.Progress) }() // the last step may not have been reported
	defer func() { leaveDoubts(p.mirror, p.doubts, err) }()
	err = p.run(ctx, actions)
	if err != nil && !failure.IsFull(err) || p.broken {
		return err
	}
	if deletes {
		if err == nil {
			if serr := p.swaps(ctx, replan()); serr != nil {
				return serr
			}
		}
		// Also when the disk is full: it is what makes room.
		if rerr := p.remove(ctx, replan()); rerr != nil && err == nil {
			err = rerr
		}
	}
	if len(p.later) > 0 && (err == nil || failure.IsFull(err) && !p.broken) {
		later := p.later
		if failure.IsFull(err) {
			recovery.DropUnfinished(ctx, p.mirror.Store)
		}
		p.later, p.last, p.full, p.Fetch.BeforeDeletions = nil, true, 0, false
		p.Fetch.Names.Recheck()
		rest := sliceOf(later)
		if p.crowd {
			rest = onlyNew(replan())
		}
		if lerr := p.run(ctx, rest); err == nil {
			err = lerr
		}
	}
	if err != nil {
		return err
	}
	p.Recorder.removed()
	return p.finish(ctx)
}

// finish records what is left, and that files belong to the mirror whose content is in doubt: see
// intent.Mirror.Settle, which does that after a kill.
func (p *Applier) finish(ctx context.Context) error {
	if p.doubts != nil { // the Journal may hold an intent that has them
		if err := p.record(ctx, true); err != nil { // it may have other rows for them
			return err
		}
		for _, e := range p.doubts {
			a, h := e.Action, &e.Held
			if a.IsHeld() && a.Held.Path == h.Path {
				h = &a.Held
			} else if _, err := p.mirror.Store.Stat(ctx, h.Path); errors.Is(err, blob.ErrNotExist) && !IsForgetful(p.mirror.Store) {
				continue
			}
			p.Recorder.doubted(a, h)
		}
		p.doubts, p.intent = nil, true
		return p.record(ctx, false)
	}
	if p.Recorder.rows() == 0 {
		return nil
	}
	return p.record(ctx, true)
}

// FetchNew carries out those actions of a plan that fetch new content with a stated
// hash, for as long as more returns true. What has to wait for its place is not
// fetched, and nothing is recorded of what fails.
func (p *Applier) FetchNew(ctx context.Context, actions iter.Seq2[plan.Action, error], more func() bool) (err error) {
	defer func() { leaveDoubts(p.mirror, p.doubts, err) }()
	p.Lost = func(*plan.Action, error) {}
	p.Fetch.BeforeDeletions, p.Fetch.Still = true, more
	err = p.run(ctx, func(yield func(plan.Action, error) bool) {
		for a, err := range onlyNew(actions) {
			if !more() || (err != nil || content.HasKnown(a.Hashes) && !a.Conditional) && !yield(a, err) {
				return
			}
		}
	})
	if p.later = nil; err != nil {
		if failure.IsFull(err) {
			recovery.DropUnfinished(ctx, p.mirror.Store)
		}
		return err
	}
	return p.finish(ctx)
}

// leaveDoubts notes, after an error, that the intent names contents that are in doubt.
func leaveDoubts(m *Mirror, in doubts, err error) {
	if err != nil && len(in) > 0 {
		m.LeftIntent()
	}
}

// onlyNew yields the actions that fetch what is not held.
func onlyNew(actions iter.Seq2[plan.Action, error]) iter.Seq2[plan.Action, error] {
	return func(yield func(plan.Action, error) bool) {
		for a, err := range actions {
			if (err != nil || a.Verb == plan.Fetch && !a.IsHeld()) && !yield(a, err) {
				return
			}
		}
	}
}

// sliceOf yields the elements of a slice.
func sliceOf[T any](ts []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, t := range ts {
			if !yield(t, nil) {
				return
			}
		}
	}
}

// otherForm fetches another representation where there may be one.
func (p *Applier) otherForm(ctx context.Context, a *plan.Action, err error) (transfer.Outcome, bool) {
	if p.OtherForm == nil {
		return transfer.Outcome{}, false
	}
	return p.OtherForm(ctx, p.Fetch, a, err)
}

// run carries out everything but deletions. It returns an error only when
// nothing more can be done: the disk, the Journal or the context failed.
func (p *Applier) run(ctx context.Context, actions iter.Seq2[plan.Action, error]) error {
	var g errgroup.Group
	gctx, stop := context.WithCancel(ctx)
	defer stop()
	jobs := p.mirror.Jobs
	if p.last && p.tight {
		jobs = 1 // several would take each other's room
	}
	done := make(chan transfer.Outcome, min(doneQueue, p.mirror.Open)) // each may hold a file open
	send := func(o transfer.Outcome) { done <- p.seal(o) }
	var work *dispatch.Dispatcher[plan.Action]
	var others *share.Session
	if !p.last {
		others = p.mirror.Share.Start(gctx, p.Fetch, send, func(a *plan.Action) { work.Put(gctx, a.URI, a, false) })
	}
	work = dispatch.New(jobs, func(a *plan.Action) error {
		defer others.Ended(a)
		o := p.room.transfer(func() transfer.Outcome { return fetchPreferred(gctx, p.Fetch, a) })
		cause := o.Err
		if cause != nil {
			var other transfer.Outcome
			switch other, o.Replaced = p.otherForm(gctx, a, cause); {
			case o.Replaced && other.Action != nil:
				send(other)
			case !o.Replaced && other.Err != nil:
				o.Err = fmt.Errorf("%w; no other representation of the record can be fetched: %w", cause, other.Err)
			}
		}
		send(o)
		return cause
	}, func(a *plan.Action, err error) {
		others.Ended(a)
		done <- transfer.Outcome{Action: a, Err: err}
	})
	g.Go(func() error {
		defer close(done)
		defer work.Wait()
		err := p.hand(gctx, actions, work, others, send)
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
	p.Methods.Members.Close()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// doneQueue is how many outcomes may wait to be booked.
const doneQueue = 256

// seal lets the store close the file of content that is whole, where many are
// to be committed together.
func (p *Applier) seal(o transfer.Outcome) transfer.Outcome {
	if o.Writer == nil || !p.batch.many.Load() {
		return o
	}
	s, ok := o.Writer.(blob.Sealer)
	if !ok {
		return o
	}
	sealed, err := s.Seal()
	if err != nil {
		_ = o.Writer.Close() // err states why the content is unusable
		p.Fetch.Names.Release(o.Held.Path)
		return transfer.Outcome{Action: o.Action, Err: &content.LocalError{Err: err}}
	}
	o.Sealed = sealed
	return o
}

// hand gives to the workers what takes the network, and passes the rest on.
func (p *Applier) hand(ctx context.Context, actions iter.Seq2[plan.Action, error], work *dispatch.Dispatcher[plan.Action], others *share.Session, send func(transfer.Outcome)) error {
	sendMember := func(o transfer.Outcome) {
		o.Crowded = p.room.isCrowded(&o)
		send(o)
	}
	p.Methods.Start(ctx, p.Fetch, sendMember, func(a *plan.Action) { work.Put(ctx, a.URI, a, false) })
	err := p.handEach(ctx, actions, work, others, send)
	others.Finish(ctx, err == nil)
	if ferr := p.Methods.Finish(ctx, ctx.Err() == nil && err == nil); err == nil {
		err = ferr
	}
	return err
}

// handEach goes over the actions, and again for as long as there are some of
// hosts that were too slow to take them in.
func (p *Applier) handEach(ctx context.Context, actions iter.Seq2[plan.Action, error], work *dispatch.Dispatcher[plan.Action], others *share.Session, send func(transfer.Outcome)) error {
	for round := 1; round == 1 || work.NextRound(ctx); round++ {
		for a, err := range actions {
			if err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if a.Verb == plan.Fetch {
				if TakesNoContent(p.mirror.Store) {
					if round == 1 {
						send(p.stated(ctx, &a))
					}
					continue
				}
				if work.Leaves(a.URI, round) {
					continue
				}
				if err := p.handFetch(ctx, &a, work, others); err != nil {
					return err
				}
			} else if round == 1 {
				p.handRest(ctx, &a, send)
			}
		}
	}
	return nil
}

func (p *Applier) handFetch(ctx context.Context, a *plan.Action, work *dispatch.Dispatcher[plan.Action], others *share.Session) error {
	if a.Rehash { // mostly nothing has to come
		work.Put(ctx, a.URI, a, !p.last)
		return nil
	}
	packed := p.Methods.Packages != nil && a.Member.Package > 0
	if a.From == "" && a.Change != resourcesync.UnknownChange && len(p.Fetch.PatchesFirst(a, packed)) == 0 { // otherwise no package or patch has it, or none is cheaper
		if p.Fetch.OfPast && a.Member.Package > 0 && p.Fetch.HasKept(ctx, a) {
			work.Put(ctx, a.URI, a, !p.last) // it is here
			return nil
		}
		if taken, err := p.Methods.Take(a); err != nil || taken {
			return err
		}
	}
	if !others.Take(ctx, a) {
		work.Put(ctx, a.URI, a, !p.last)
	}
	return nil
}

// handRest passes on what takes no network.
func (p *Applier) handRest(ctx context.Context, a *plan.Action, send func(transfer.Outcome)) {
	switch a.Verb {
	case plan.Skip:
		if a.Class != 0 { // nothing to do, but it may have been pending
			send(transfer.Outcome{Action: a})
		}
	case plan.InStep, plan.Refuse:
		send(transfer.Outcome{Action: a})
	case plan.Defer:
		send(transfer.Outcome{Action: a, Err: a.Cause})
	case plan.Touch, plan.Release:
		o := p.known(a)
		if !a.Held.Lastmod.Equal(o.Held.Lastmod) {
			filetime.Set(ctx, p.mirror.Store, &o.Held)
		}
		send(o)
	}
}

// stated is the outcome of a Fetch for a store that takes no content: what the Source
// states is all that is recorded.
func (p *Applier) stated(ctx context.Context, a *plan.Action) transfer.Outcome {
	path := a.Held.Path
	if a.IsHeld() {
		p.Fetch.Names.Take(a.URI, path)
	} else {
		var err error
		if path, err = p.Fetch.Names.Give(ctx, a.URI); err != nil {
			return transfer.Outcome{Action: a, Err: err}
		}
	}
	h := plan.NewHeld(a, p.Recorder.Set, path)
	h.Length, h.Hashes = a.Length, a.Hashes
	return transfer.Outcome{Action: a, Held: h}
}

// known is the outcome of an action that only changes what we know.
func (p *Applier) known(a *plan.Action) transfer.Outcome {
	h := a.Held
	if a.Verb == plan.Release {
		h.Sets = plan.WithoutSet(h.Sets, p.Recorder.Set)
		plan.Withdraw(&h, a, p.Recorder.Set)
		return transfer.Outcome{Action: a, Held: h}
	}
	h.Sets = plan.WithSet(h.Sets, p.Recorder.Set)
	if !a.Lastmod.IsZero() {
		h.Lastmod = a.Lastmod.Time().Truncate(time.Microsecond)
	}
	plan.Describe(&h, a, p.Recorder.Set)
	return transfer.Outcome{Action: a, Held: h, Unchanged: true}
}
