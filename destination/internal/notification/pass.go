package notification

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockstep/destination/internal/counting"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/follow"
	"lockstep/destination/internal/inbox"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/planner"
	"lockstep/destination/internal/push"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/stage"
	"lockstep/destination/internal/writebehind"
	"lockstep/destination/journal"
	"lockstep/destination/report"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// A Pass applies messages to one set. It is used once.
type Pass struct {
	Set     *saved.Set
	State   *push.State // the only part of the state of the set that changes
	Parents *push.Parents
	Client  *fetch.Client
	Journal journal.Journal
	Reader  *entries.Reader
	Stage   *stage.Stage
	Report  *counting.Report

	Jobs         int              // concurrent requests
	KeepsDeleted bool             // the mirror keeps resources that are deleted
	Reselects    bool             // the resources of the set may have been selected by other rules
	Held         int64            // resources of the set
	Ahead        bool             // the set was read up to a time in the future
	Stale        map[string]error // filled by Apply: resources that changed again after the notification

	// NewPlanner returns a planner for the set.
	NewPlanner func() *planner.Planner

	// ApplyVersions applies the versions of resources that come before their last, and
	// Apply the last ones, with the deletions that the Source confirms. They add the
	// result for each resource to results.
	ApplyVersions func(ctx context.Context, results push.Results) error
	Apply         func(ctx context.Context, confirmed map[push.Key]bool, results push.Results) error

	out       follow.Pushed
	limit     time.Time // later times cannot be known yet
	announced []push.Announced
	noted     map[push.Key]int   // indexes of announced
	deletes   bool               // a deletion is staged
	claims    []desired.Resource // deletions of resources that are held
	confirmed map[push.Key]bool  // those that the Source confirms; nil: none was looked at
}

// Run applies messages in order, all of them together: later ones prevail.
//
// Docs of the result has to be saved. If the process is killed before a message that
// was applied is removed from the inbox, nothing is lost: its changes are known.
func (p *Pass) Run(ctx context.Context, ms []*inbox.Message, now time.Time) (follow.Pushed, error) {
	p.limit = p.sourceClock(now).Add(push.ClockSlack)
	p.out.Docs = map[string][]byte{}
	err := p.run(ctx, ms, now)
	p.out.Announced, p.out.Stale = p.announced, p.Stale
	return p.out, err
}

// sourceClock returns the latest time that the clock of the Source may show.
func (p *Pass) sourceClock(now time.Time) time.Time {
	if p.Ahead {
		return now
	}
	return saved.Latest(now, p.Set.Watermark)
}

func (p *Pass) run(ctx context.Context, ms []*inbox.Message, now time.Time) error {
	undo := *p.State
	for _, m := range ms {
		if err := p.take(ctx, m, now); err != nil {
			*p.State = undo
			return err
		}
	}
	if err := p.confirmDeletions(ctx, now); err != nil {
		*p.State = undo
		return err
	}
	if len(p.claims) > 0 {
		p.State.CountFromPeak(p.Held)
		undo.Peak = p.State.Peak // it is saved before the first deletion
	}
	if !p.Stage.Empty() {
		moved := *p.State
		*p.State = undo // as long as nothing is applied
		p.expect()
		undo = *p.State
		moved.KeepExpected(&undo)
		*p.State = moved
		results := push.Results{}
		err := p.apply(ctx, results)
		if errors.Is(err, report.ErrRefused) {
			p.out.Refusal = err
			p.look("what was notified was refused")
			err = p.keepPending(context.WithoutCancel(ctx), now, true)
		}
		if err != nil && errors.Is(context.Cause(ctx), follow.ErrTurn) {
			err = p.postpone(context.WithoutCancel(ctx))
		}
		if err != nil {
			*p.State = undo
			return err
		}
		p.State.Settle(p.Set.Number, p.announced, results, p.out.Docs)
	}
	for _, m := range ms {
		if m.EventID != "" {
			p.State.EventID, p.State.Stream = m.EventID, m.Stream
		}
	}
	p.out.Docs[push.DocName(p.Set.Number)] = saved.Encode(p.State)
	return nil
}

// expect has the changes that are going to be applied saved with the next
// transaction.
func (p *Pass) expect() {
	docs := map[string][]byte{}
	p.State.Expect(p.Set.Number, p.announced, docs)
	if j, ok := p.Journal.(*writebehind.Journal); ok {
		j.Later(docs)
	}
}

// take reads one message and stages the changes that are new.
func (p *Pass) take(ctx context.Context, in *inbox.Message, now time.Time) error {
	if in.Hello {
		return nil
	}
	if in.Gap {
		p.gap("the stream of events says that some are missing")
		return nil
	}
	m, err := read(p.Reader, in.Topic, in.Body)
	switch {
	case err != nil:
		p.putAside(in, fmt.Sprintf("RN-RX-09: it is malformed: %v", err))
		return nil
	case m.kind == other:
		p.look("something else was notified")
		return nil
	case m.kind == document:
		p.look("another of its documents was delivered") // it is read at its address, with the documents around it
		return nil
	case !p.Parents.IsSet(ctx, p.Client, p.Set.URI, m.up, p.Reader.Refuse):
		p.putAside(in, fmt.Sprintf("RN-RX-07: it belongs to %s", fetch.Printable(m.up)))
		return nil
	}
	if m.refused > 0 {
		p.Reader.Warn(in.Topic, fmt.Sprintf("set %s: RS-SEC-01: %d entries of a notification were passed over, the first %s", p.Set.Name, m.refused, m.refusal))
	}
	if m.unlocated != nil {
		p.Reader.Warn(in.Topic, fmt.Sprintf("set %s: a notification: %v", p.Set.Name, m.unlocated))
		p.look("a notification has entries without a readable loc")
	}
	if p.Ahead {
		p.gap("the set was read up to a time in our future")
	} else if p.State.Continues(p.Set.Watermark, m.from, m.until, p.limit) {
		p.gap("a notification does not continue from what is known")
	}
	return p.stage(ctx, m, now)
}

// stage stages the changes of a message that are new.
func (p *Pass) stage(ctx context.Context, m *message, now time.Time) error {
	fresh := 0
	for i := range m.resources {
		w := &m.resources[i]
		t := p.Stage.EventTime(w)
		if p.State.IsKnown(p.Set, w, t) {
			continue
		}
		if err := p.Stage.Add(ctx, *w); err != nil {
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
		p.out.Duplicates++
	}
	return nil
}

// note remembers an event that is staged: it is recorded once it is applied.
func (p *Pass) note(w *desired.Resource, t resourcesync.Datetime, now time.Time) {
	if t.IsZero() {
		return // it proves nothing
	}
	at := t.Time()
	if at.After(p.limit) {
		return // so that it does not mask later events
	}
	if at.After(p.out.Newest) {
		p.out.Newest = at
	}
	n := push.Announced{Key: push.KeyOf(w.URI), Event: push.Event{At: t, Fingerprint: push.FingerprintOf(w, t), Gone: w.Gone, Fresh: at.After(p.Set.Watermark), Came: now}}
	switch i, known := p.noted[n.Key]; {
	case known && p.announced[i].At.Compare(t) > 0:
	case known:
		p.announced[i] = n // of a resource the latest event counts, however often it is notified
	case len(p.announced) >= mostAnnounced:
		p.State.Unsure = true
		p.look("more was notified than can be remembered")
	default:
		if p.noted == nil {
			p.noted = map[push.Key]int{}
		}
		p.noted[n.Key] = len(p.announced)
		p.announced = append(p.announced, n)
	}
}

// mostAnnounced limits the resources whose events one pass remembers. Messages of a few MB can
// name many millions of them.
const mostAnnounced = 200_000

// look requests a pull of the set; the first reason is kept.
func (p *Pass) look(why string) {
	if p.out.LookAgain == "" {
		p.out.LookAgain = why
	}
}

func (p *Pass) gap(why string) {
	p.out.Gaps++
	p.look(why)
}

func (p *Pass) putAside(m *inbox.Message, cause string) {
	p.out.Aside = append(p.out.Aside, inbox.Aside{Message: m, Cause: cause})
	p.Reader.Warn(m.Topic, fmt.Sprintf("set %s: a notification was put aside: %s", p.Set.Name, fetch.Printable(cause)))
	p.look("a notification was put aside")
}

// apply applies what is staged.
func (p *Pass) apply(ctx context.Context, results push.Results) error {
	before := *p.Report
	if err := p.ApplyVersions(ctx, results); err != nil {
		return err
	}
	err := p.Apply(ctx, p.confirmed, results)
	r := p.Report.Since(&before)
	p.out.Applied = r.Created + r.Updated + r.Deleted
	if err == nil && r.Failed > int64(len(p.Stale)) {
		p.look("some of the notified resources are not available")
	}
	return err
}

// postpone records the rest of a pass that took too long as pending: it is tried again
// with the next pull and delays no other set.
func (p *Pass) postpone(ctx context.Context) error {
	p.look("some of what was notified takes long")
	planned := p.NewPlanner()
	planned.Refuse, planned.Settled = p.Reader.Refuse, p.Set.Complete
	var b journal.Batch
	for a, err := range planned.Actions(ctx, p.Stage) {
		if err != nil {
			return err
		}
		if a.Verb == plan.InStep || a.Verb == plan.Skip {
			continue
		}
		w := a.AsStated()
		w.Class, w.Rank.Doc, w.Rank.Pos, w.Rank.Nth = desired.Pending, 0, 0, 0
		b.Owe = append(b.Owe, journal.Owed{Set: p.Set.Number, URI: a.URI, Entry: w.Append(nil), Cause: "it takes long"})
	}
	if len(b.Owe) == 0 {
		return nil
	}
	if err := p.Journal.Record(ctx, b); err != nil {
		return fmt.Errorf("record what is owed: %w", err)
	}
	return nil
}
