package destination

import (
	"context"
	"fmt"
	"time"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/push"
	"lockstep/destination/internal/wording"
	"lockstep/destination/journal"
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
	planned.Refuse, planned.Settled, planned.Believes = p.r.reader.Refuse, p.r.set.Complete && !p.r.reselects(), true
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

// removeConfirmed carries out deletions that the Source has confirmed.
func (s *session) removeConfirmed(ctx context.Context, set *setState, gone []desired.Resource) (push.Results, error) {
	r := s.newSetRun(set)
	defer func() { _ = r.stage.Close(context.WithoutCancel(ctx)) }() // it is small, and nothing in it counts any more
	r.confirmed, r.results = map[push.Key]bool{}, push.Results{}
	doc := r.stage.AddDocument()
	for _, w := range gone {
		w.Rank = desired.Rank{Class: desired.Pending, Doc: doc, Event: w.Event, Modified: w.Modified}
		r.confirmed[push.KeyOf(w.URI)] = true
		if err := r.stage.Add(ctx, w); err != nil {
			return nil, err
		}
	}
	_, err := r.carryOut(ctx, work{Mode: ModeIncremental, Via: ViaNotification, Complete: true})
	return r.results, err
}
