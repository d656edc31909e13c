package destination

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/follow"
	"lockstep/destination/internal/inbox"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/push"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/writebehind"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// A pushed is the result of applying messages.
type pushed struct {
	applied   int64 // changes
	gaps      int64
	duplicate int64             // messages that brought nothing
	aside     []inbox.Aside     // put aside
	lookAgain string            // why the set has to be pulled; empty: it need not
	news      []push.Announced  // the events that were announced
	stale     map[string]error  // of it what had changed again
	other     int64             // messages that were none of ours
	newest    time.Time         // event
	docs      map[string][]byte // to be saved when the rows are
	pending   int64             // deletions that the Source has not confirmed
	refusal   error             // why nothing of it was applied; the set has to be pulled
}

// A pusher applies messages to one set.
type pusher struct {
	r     *setRun
	up    *push.Parents
	limit time.Time // later times cannot be known yet
	out   pushed
	news  []push.Announced

	deletes bool               // a deletion is staged
	claims  []desired.Resource // deletions of what is held
}

// push applies messages to a set, in order, all of them together: later ones
// prevail. It reads nothing from the Source but the contents.
//
// Of the set's state only the State changes, in memory; pushed.docs is what
// has to be saved of it. If we are killed before a message that was applied is
// removed from the inbox, that does no harm: its changes are known.
func (s *session) push(ctx context.Context, set *setState, up *push.Parents, ms []*inbox.Message, now time.Time) (pushed, error) {
	p := &pusher{up: up, limit: sourceClock(set, now).Add(push.ClockSlack)}
	p.out.docs = map[string][]byte{}
	err := s.bring(set, func() error {
		r := s.newSetRun(set)
		p.r = r
		err := p.run(ctx, ms, now)
		r.reader.Future.Report(&r.set.Set, r.warn)
		for uri, err := range r.stale { // it has changed again: the next message describes it, or a look finds it
			s.report.Failed--
			s.report.WithdrawFailure(uri, err.Error())
		}
		p.out.news, p.out.stale = p.news, r.stale
		if cerr := r.stage.Close(context.WithoutCancel(ctx)); err == nil {
			err = cerr
		}
		return err
	})
	return p.out, err
}

// sourceClock is what the Source's clock shows at most, as far as we know.
func sourceClock(set *setState, now time.Time) time.Time {
	if entries.WasAhead(&set.Set, now) {
		return now
	}
	return saved.Latest(now, set.Watermark)
}

func (p *pusher) run(ctx context.Context, ms []*inbox.Message, now time.Time) error {
	st := p.r.set
	undo := *st.push
	for _, m := range ms {
		if err := p.take(ctx, m, now); err != nil {
			*st.push = undo
			return err
		}
	}
	if err := p.confirmDeletions(ctx, now); err != nil {
		*st.push = undo
		return err
	}
	if len(p.claims) > 0 {
		st.push.CountFromPeak(p.r.counts[st.Number])
		undo.Peak = st.push.Peak // it is saved before the first deletion
	}
	if !p.r.stage.Empty() {
		moved := *st.push
		*st.push = undo // as long as nothing is applied
		p.expect()
		undo = *st.push
		moved.KeepExpected(&undo)
		*st.push = moved
		p.r.results = push.Results{}
		err := p.apply(ctx)
		if errors.Is(err, ErrRefused) {
			p.out.refusal = err
			p.look("what was notified was refused")
			err = p.keepPending(context.WithoutCancel(ctx), now, true)
		}
		if err != nil && errors.Is(context.Cause(ctx), follow.ErrTurn) {
			err = p.oweRest(context.WithoutCancel(ctx))
		}
		if err != nil {
			*st.push = undo
			return err
		}
		st.push.Settle(st.Number, p.news, p.r.results, p.out.docs)
	}
	for _, m := range ms {
		if m.EventID != "" {
			st.push.EventID, st.push.Stream = m.EventID, m.Stream
		}
	}
	p.out.docs[push.DocName(st.Number)] = saved.Encode(st.push)
	return nil
}

// expect has what is going to be applied saved with the next transaction.
func (p *pusher) expect() {
	docs := map[string][]byte{}
	p.r.set.push.Expect(p.r.set.Number, p.news, docs)
	if j, ok := p.r.d.journal.(*writebehind.Journal); ok {
		j.Later(docs)
	}
}

// take reads one message and stages what is new in it.
func (p *pusher) take(ctx context.Context, m *inbox.Message, now time.Time) error {
	if m.Hello {
		return nil
	}
	if m.Gap {
		p.gap("the stream of events says that some are missing")
		return nil
	}
	n, err := readNotification(p.r.reader, m.Topic, m.Body)
	switch {
	case err != nil:
		p.putAside(m, fmt.Sprintf("RN-RX-09: it is malformed: %v", err))
		return nil
	case n.kind == messageOther:
		p.out.other++
		p.look("something else was notified")
		return nil
	case n.kind == messageLook:
		p.look("another of its documents was delivered") // and is read where it is, with all that belongs to it
		return nil
	case !p.up.IsSet(ctx, p.r.d.client, p.r.set.URI, n.up, p.r.reader.Refuse):
		p.putAside(m, fmt.Sprintf("RN-RX-07: it belongs to %s", fetch.Printable(n.up)))
		return nil
	}
	if n.refused > 0 {
		p.r.warn(m.Topic, fmt.Sprintf("set %s: RS-SEC-01: %d entries of a notification were passed over, the first %s", p.r.set.Name, n.refused, n.refusal))
	}
	if n.unlocated != nil {
		p.r.warn(m.Topic, fmt.Sprintf("set %s: a notification: %v", p.r.set.Name, n.unlocated))
		p.look("a notification has entries without a readable loc")
	}
	if entries.WasAhead(&p.r.set.Set, now) {
		p.gap("the set was read up to a time in our future")
	} else if p.r.set.push.Continues(p.r.set.Watermark, n.from, n.until, p.limit) {
		p.gap("a notification does not continue from what is known")
	}
	fresh := 0
	for i := range n.wants {
		w := &n.wants[i]
		t := p.r.stage.EventTime(w)
		if p.r.set.push.IsKnown(&p.r.set.Set, w, t) {
			continue
		}
		if err := p.r.stage.Add(ctx, *w); err != nil {
			return err
		}
		fresh++
		if w.Gone {
			p.deletes = true // noted when it is confirmed
			continue
		}
		p.note(w, t, now)
	}
	if fresh == 0 {
		p.out.duplicate++
	}
	return nil
}

// note remembers an event that is staged, to be remembered when it is applied.
func (p *pusher) note(w *desired.Resource, t resourcesync.Datetime, now time.Time) {
	if t.IsZero() {
		return // it proves nothing
	}
	at := t.Time()
	if at.After(p.limit) {
		return // so that it does not mask later events
	}
	if at.After(p.out.newest) {
		p.out.newest = at
	}
	p.news = append(p.news, push.Announced{Key: push.KeyOf(w.URI), Event: push.Event{At: t, Fingerprint: push.FingerprintOf(w, t), Gone: w.Gone, Fresh: at.After(p.r.set.Watermark), Came: now}})
}

func (p *pusher) look(why string) {
	if p.out.lookAgain == "" {
		p.out.lookAgain = why
	}
}

func (p *pusher) gap(why string) {
	p.out.gaps++
	p.look(why)
}

func (p *pusher) putAside(m *inbox.Message, cause string) {
	p.out.aside = append(p.out.aside, inbox.Aside{Message: m, Cause: cause})
	p.r.warn(m.Topic, fmt.Sprintf("set %s: a notification was put aside: %s", p.r.set.Name, fetch.Printable(cause)))
	p.look("a notification was put aside")
}

// apply applies what is staged.
func (p *pusher) apply(ctx context.Context) error {
	before := p.r.report
	if err := reconciled(p.r).ApplyVersions(ctx, &entries.Chain{Complete: true, Dump: true}, ViaNotification); err != nil {
		return err
	}
	_, err := p.r.carryOut(ctx, work{Mode: ModeIncremental, Via: ViaNotification, Complete: true})
	r := p.r.report.Since(&before)
	p.out.applied = r.Created + r.Updated + r.Deleted
	if err != nil {
		return err
	}
	if r.Failed > int64(len(p.r.stale)) {
		p.look("some of the notified resources are not available")
	}
	return nil
}

// oweRest records what is left of a pass that took too long as pending: it is
// tried again with the next look, and delays nothing else.
func (p *pusher) oweRest(ctx context.Context) error {
	p.look("some of what was notified takes long")
	planned := newPlanner(p.r.d, p.r.set.Number)
	planned.Refuse, planned.Settled = p.r.reader.Refuse, p.r.set.Complete
	var b journal.Batch
	for a, err := range planned.Actions(ctx, p.r.stage) {
		if err != nil {
			return err
		}
		if a.Verb == plan.InStep || a.Verb == plan.Skip {
			continue
		}
		w := a.AsStated()
		w.Class, w.Rank.Doc, w.Rank.Pos, w.Rank.Nth = desired.Pending, 0, 0, 0
		b.Owe = append(b.Owe, journal.Owed{Set: p.r.set.Number, URI: a.URI, Entry: w.Append(nil), Cause: "it takes long"})
	}
	if len(b.Owe) == 0 {
		return nil
	}
	if err := p.r.d.journal.Record(ctx, b); err != nil {
		return fmt.Errorf("record what is owed: %w", err)
	}
	return nil
}

// pulled is called when a set was brought into step with the Source's
// documents: it compares them with what notifications announced.
func (s *session) pulled(ctx context.Context, set *setState) error {
	if set.push == nil || s.d.opts.DryRun {
		return nil
	}
	review := push.Review{
		Set: &set.Set, State: set.push, Journal: s.d.journal, Client: s.d.client, Jobs: s.d.opts.Jobs, DoubtEvery: s.d.doubtEvery,
		Held: s.counts[set.Number], Recount: !s.d.follows || s.d.opts.MaxDelete >= 100,
		Warn:       s.warn,
		CompareAll: func(ctx context.Context) error { return s.syncSet(ctx, set) },
		Remove: func(ctx context.Context, gone []desired.Resource) (push.Results, error) {
			return s.removeConfirmed(ctx, set, gone)
		},
	}
	err := review.Run(ctx, time.Now())
	s.report.Contradicted += review.Contradicted
	s.report.Pending += review.Pending
	return err
}
