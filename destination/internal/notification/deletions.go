package notification

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/push"
	"lockstep/destination/internal/stage"
	"lockstep/destination/internal/wording"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// A deletion that a notification announces is carried out when the Source confirms
// it: the resource returns 404 or 410, or the Source's own Change List or a complete
// list says so. Until then it is pending in the Journal.

// maxProbes limits the deletions of one pass that are confirmed one by one. If there
// are more, reading the Change List once costs less.
const maxProbes = 64

// confirmDeletions asks the Source about the deletions that are staged: those that it
// confirms are carried out with the other changes, the rest become pending.
func (p *Pass) confirmDeletions(ctx context.Context, now time.Time) error {
	if !p.deletes || p.KeepsDeleted {
		return nil
	}
	planned := p.NewPlanner()
	planned.Refuse, planned.Settled, planned.Believes = p.Reader.Refuse, p.Set.Complete && !p.Reselects, true
	for a, err := range planned.Actions(ctx, p.Stage) {
		if err != nil {
			return err
		}
		if a.Gone && a.Unconfirmed && (a.Verb == plan.Remove || a.Verb == plan.Release) {
			p.claims = append(p.claims, a.Resource)
		}
	}
	if len(p.claims) == 0 {
		return nil
	}
	p.confirmed = map[push.Key]bool{}
	if len(p.claims) <= maxProbes {
		gone, err := push.Probe(ctx, p.Client, p.claims, p.Jobs)
		if err != nil {
			return err
		}
		for i := range p.claims {
			w := &p.claims[i]
			if k := push.KeyOf(w.URI); gone[i] {
				p.confirmed[k] = true
				p.note(w, p.Stage.EventTime(w), now)
			}
		}
	}
	return p.keepPending(ctx, now, false)
}

// keepPending records the deletions that are not confirmed, or all of them.
func (p *Pass) keepPending(ctx context.Context, now time.Time, all bool) error {
	var b journal.Batch
	for i := range p.claims {
		w := p.claims[i]
		if p.confirmed[push.KeyOf(w.URI)] && !all {
			continue
		}
		at := p.Stage.EventTime(&w)
		if at.IsZero() || at.Time().After(p.limit) {
			at = resourcesync.NewDatetime(now)
		}
		w.Links, w.Foreign, w.Member = nil, resourcesync.Foreign{}, desired.Member{}
		w.Rank = desired.Rank{Class: desired.Pending, Event: at, Modified: resourcesync.NewDatetime(now)} // the time of the deletion, and of the notification
		b.Owe = append(b.Owe, journal.Owed{Set: p.Set.Number, URI: w.URI, Entry: w.Append(nil), Cause: "a notification says that it was deleted, and the Source has not confirmed it"})
	}
	if len(b.Owe) == 0 {
		return nil
	}
	work, err := p.owedWork(ctx, b.Owe)
	if err != nil {
		return err
	}
	b.Owe = slices.DeleteFunc(b.Owe, func(o journal.Owed) bool { return work[o.URI] })
	p.look(fmt.Sprintf("%s announced, and not confirmed yet", wording.Plural(int64(len(p.claims)), "deletion")))
	if len(b.Owe) == 0 {
		return nil // the documents say what has happened to these
	}
	p.out.Pending += int64(len(b.Owe))
	if err := p.Journal.Record(ctx, b); err != nil {
		return fmt.Errorf("record pending deletions: %w", err)
	}
	return nil
}

// owedWork returns which of the announced deletions are of resources with other pending work of
// the set: what a notification says does not replace that.
func (p *Pass) owedWork(ctx context.Context, claims []journal.Owed) (map[string]bool, error) {
	work := make(map[string]bool, len(claims))
	for i := range claims {
		work[claims[i].URI] = false
	}
	for o, err := range p.Journal.Owed(ctx, p.Set.Number) {
		if err != nil {
			return nil, err
		}
		if _, claimed := work[o.URI]; !claimed {
			continue
		}
		w, _, err := desired.Decode(o.URI, string(o.Entry))
		if err != nil {
			return nil, err
		}
		work[o.URI] = !w.Gone || !w.Unconfirmed
	}
	return work, nil
}

// StageConfirmed stages deletions that the Source has confirmed, and returns which
// these are.
func StageConfirmed(ctx context.Context, to *stage.Stage, gone []desired.Resource) (map[push.Key]bool, error) {
	confirmed := map[push.Key]bool{}
	doc := to.AddDocument()
	for _, w := range gone {
		w.Rank = desired.Rank{Class: desired.Pending, Doc: doc, Event: w.Event, Modified: w.Modified}
		confirmed[push.KeyOf(w.URI)] = true
		if err := to.Add(ctx, w); err != nil {
			return nil, err
		}
	}
	return confirmed, nil
}
