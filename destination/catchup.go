package destination

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/wording"
	"lockstep/resourcesync"
)

// catchUp continues from the watermark with archived changes if the current ones
// begin after it (RA-DST-04): if the archived changes are proven to join without a
// gap, c then reaches back to the watermark. Otherwise it returns the reason, as text
// to append to the message about the gap; the reason is "" if no archived changes are
// needed or there are none. Of state it uses the newest events read before.
func (r *setRun) catchUp(ctx context.Context, c *entries.Chain, since resourcesync.Datetime, state *setState) (why string, err error) {
	if c.Lost || c.Unchanged || !c.Whole() || c.Gap || since.IsZero() || c.Resumed || c.From.Compare(since) <= 0 {
		return "", nil
	}
	kinds := []resourcesync.Capability{resourcesync.ChangeList, resourcesync.ChangeDump}
	linked := map[resourcesync.Capability]string{kinds[0]: c.Archives}
	if c.Dump {
		slices.Reverse(kinds)
		linked = map[resourcesync.Capability]string{kinds[0]: c.Archives}
	}
	r.stage.MoveLast()
	for _, kind := range kinds {
		if r.set.Archives[kind] == "" && linked[kind] == "" {
			continue
		}
		docs, err := r.reader.ArchivedChanges(ctx, kind, linked)
		if err != nil {
			return "", err
		}
		docs = entries.Between(docs, since, c.From)
		if why = r.mayJoin(docs, since, c.From); why != "" {
			continue
		}
		past, err := r.reader.ReadPast(ctx, docs, since, c.Search, &state.Set)
		if err != nil {
			return "", err
		}
		until, behind := entries.Covered(past, since, c.From)
		if until.Compare(c.From) < 0 {
			why = entries.GapBetween(kind, until, behind, c.From)
			continue
		}
		r.report.plan(fmt.Sprintf("set %s: caught up from %s to %s through %s of its archive",
			r.set.Name, wording.Time(since.Time()), wording.Time(c.From.Time()), wording.Plural(int64(len(past)), entries.NameOfArchived(kind))))
		c.Follow(past)
		c.Lost = c.Judge(&state.Set)
		return "", nil
	}
	return why, nil
}

// mayJoin returns why archived documents cannot close the gap between two instants,
// judging by the times that the archive states, or "" if they may: reading them would
// be useless otherwise.
func (r *setRun) mayJoin(docs []entries.Archived, from, to resourcesync.Datetime) string {
	if len(docs) > entries.MaxCatchUp {
		return fmt.Sprintf("there are %d archived documents between, more than %d", len(docs), entries.MaxCatchUp)
	}
	said := make([]entries.PastDocument, len(docs))
	now := time.Now()
	for i := range docs {
		d := &docs[i]
		said[i] = entries.PastDocument{From: d.From, Until: d.Closed(now), Whole: true}
		if said[i].Until.IsZero() || d.Approx { // its events show how far it reaches
			said[i].Until = to
		}
		if said[i].From.IsZero() {
			said[i].From = from
		}
	}
	kind := resourcesync.ChangeList
	if len(docs) > 0 {
		kind = docs[0].Kind
	}
	if until, behind := entries.Covered(said, from, to); until.Compare(to) < 0 {
		return entries.GapBetween(kind, until, behind, to)
	}
	return ""
}
