package destination

import (
	"context"
	"fmt"
	"time"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/push"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/wording"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// A deletion that a notification announces is carried out when the Source
// confirms it: the resource answers 404 or 410, or the Source's own Change List
// or a complete list says so. Until then it is pending: one of the Owed.

const (
	// maxProbes is how many deletions of a pass over notifications are confirmed
	// one by one. Where there are more, reading the Change List once costs less.
	maxProbes = 64
)

// confirmDeletions asks the Source for the deletions that are staged: those it
// confirms are carried out with the rest, the others become pending.
func (p *pusher) confirmDeletions(ctx context.Context, now time.Time) error {
	if !p.deletes || p.r.d.opts.Delete == DeleteKeep {
		return nil
	}
	planned := newPlanner(p.r.d, p.r.set.Number)
	planned.Refuse, planned.Settled, planned.Believes = p.r.reader.refuse, p.r.set.Complete && !p.r.reselects(), true
	_, err := planned.Count(ctx, p.r.stage, func(a *plan.Action) {
		if a.Gone && a.Unconfirmed && (a.Verb == plan.Remove || a.Verb == plan.Release) {
			p.claims = append(p.claims, a.Resource)
		}
	})
	if err != nil || len(p.claims) == 0 {
		return err
	}
	p.r.confirmed = map[push.Key]bool{}
	if len(p.claims) <= maxProbes {
		gone, err := push.Probe(ctx, p.r.d.client, p.claims, p.r.d.opts.Jobs)
		if err != nil {
			return err
		}
		for i := range p.claims {
			w := &p.claims[i]
			if k := push.KeyOf(w.URI); gone[i] {
				p.r.confirmed[k] = true
				p.note(w, p.r.stage.EventTime(w), now)
			}
		}
	}
	return p.keepPending(ctx, now, false)
}

// keepPending records the deletions that are not confirmed, or all of them.
func (p *pusher) keepPending(ctx context.Context, now time.Time, all bool) error {
	var b journal.Batch
	for i := range p.claims {
		w := p.claims[i]
		if p.r.confirmed[push.KeyOf(w.URI)] && !all {
			continue
		}
		at := p.r.stage.EventTime(&w)
		if at.IsZero() || at.Time().After(p.limit) {
			at = resourcesync.NewDatetime(now)
		}
		w.Links, w.Member = nil, desired.Member{}
		w.Rank = desired.Rank{Class: desired.Pending, Event: at, Modified: resourcesync.NewDatetime(now)} // when, and when we learned of it
		b.Owe = append(b.Owe, journal.Owed{Set: p.r.set.Number, URI: w.URI, Entry: w.Append(nil), Cause: "a notification says that it was deleted, and the Source has not confirmed it"})
	}
	if len(b.Owe) == 0 {
		return nil
	}
	p.look(fmt.Sprintf("%s announced, and not confirmed yet", wording.Plural(int64(len(b.Owe)), "deletion")))
	p.out.pending += int64(len(b.Owe))
	if err := p.r.d.journal.Record(ctx, b); err != nil {
		return fmt.Errorf("record pending deletions: %w", err)
	}
	return nil
}

// settlePending is called when a set was brought into step by the Source's
// documents. Pending deletions that these have carried out, or contradict, are
// settled; for the others the Source is asked.
func (s *session) settlePending(ctx context.Context, set *setState, now time.Time) error {
	var all push.Settlement
	var some []desired.Resource
	flush := func() error {
		if len(some) == 0 {
			return nil
		}
		err := all.Compare(ctx, s.d.journal, &set.Set, some, now)
		some = some[:0]
		return err
	}
	for o, err := range s.d.journal.Owed(ctx, set.Number) {
		if err != nil {
			return err
		}
		w, _, err := desired.Decode(o.URI, string(o.Entry))
		if err != nil {
			return err
		}
		if !w.Unconfirmed || !w.Gone {
			continue
		}
		if some = append(some, w); len(some) == 1000 {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	if len(all.Drop) > 0 {
		if err := s.d.journal.Record(ctx, journal.Batch{Settle: all.Drop}); err != nil {
			return fmt.Errorf("record progress: %w", err)
		}
	}
	if all.Contradicted > 0 {
		s.contradicted(set, all.Contradicted, "the deletion of "+fetch.Printable(all.First), now)
		if err := s.d.journal.Record(ctx, journal.Batch{Save: map[string][]byte{push.DocName(set.Number): saved.Encode(set.push)}}); err != nil {
			return fmt.Errorf("record progress: %w", err)
		}
	}
	err := s.removePending(ctx, set, &all)
	set.Pending = all.Left
	if all.Left > 0 {
		s.report.Pending += all.Left
		s.warn(set.URI, fmt.Sprintf("set %s: the Source has not confirmed %s that it notified, and still has what they name; they stay pending", set.Name, wording.Plural(all.Left, "deletion")))
	}
	return err
}

// removePending asks the Source about the remaining deletions, and carries out
// those it confirms.
func (s *session) removePending(ctx context.Context, set *setState, t *push.Settlement) error {
	if len(t.Ask) == 0 {
		return nil
	}
	t.Left += int64(len(t.Ask))
	gone, err := push.Probe(ctx, s.d.client, t.Ask, s.d.opts.Jobs)
	if err != nil {
		return err
	}
	r := s.newSetRun(set)
	defer func() { _ = r.stage.Close(context.WithoutCancel(ctx)) }() // it is small, and nothing in it counts any more
	r.confirmed, r.results = map[push.Key]bool{}, push.Results{}
	doc := r.stage.AddDocument()
	for i := range gone {
		if !gone[i] {
			continue
		}
		w := t.Ask[i]
		w.Rank = desired.Rank{Class: desired.Pending, Doc: doc, Event: w.Event, Modified: w.Modified}
		r.confirmed[push.KeyOf(w.URI)] = true
		if err := r.stage.Add(ctx, w); err != nil {
			return err
		}
	}
	if r.stage.Empty() {
		return nil
	}
	if _, err := r.carryOut(ctx, work{mode: ModeIncremental, via: ViaNotification, complete: true}); err != nil {
		return err
	}
	t.Left -= int64(len(r.confirmed))
	docs := map[string][]byte{}
	set.push.Settle(set.Number, nil, r.results, docs)
	if err := s.d.journal.Record(ctx, journal.Batch{Save: docs}); err != nil {
		return fmt.Errorf("record progress: %w", err)
	}
	return nil
}

// contradicted pauses the use of notifications: a complete document of the Source
// says otherwise.
func (s *session) contradicted(set *setState, lies int64, first string, now time.Time) {
	p := set.push
	p.Contradict(lies, fmt.Sprintf("the Source's own documents contradict %s that it notified, as %s", wording.Plural(lies, "change"), first), now)
	s.report.Contradicted += lies
	s.warn(set.Changes, fmt.Sprintf("set %s: %s: its notifications are not used until %s, and it is polled instead", set.Name, p.Reason, wording.Time(p.Paused)))
}
