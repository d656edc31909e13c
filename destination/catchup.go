package destination

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lockstep/destination/internal/wording"
	"lockstep/resourcesync"
)

func (r *setRun) catchUp(ctx context.Context, c *chain, since resourcesync.Datetime, state *setState) (why string, err error) {
	if c.lost || c.unchanged || !c.whole() || c.gap || since.IsZero() || c.resumed || c.from.Compare(since) <= 0 {
		return "", nil
	}
	kinds := []resourcesync.Capability{resourcesync.ChangeList, resourcesync.ChangeDump}
	linked := map[resourcesync.Capability]string{kinds[0]: c.archives}
	if c.dump {
		slices.Reverse(kinds)
		linked = map[resourcesync.Capability]string{kinds[0]: c.archives}
	}
	r.stage.MoveLast()
	for _, kind := range kinds {
		if r.set.Archives[kind] == "" && linked[kind] == "" {
			continue
		}
		docs, err := r.reader.archived(ctx, kind, linked)
		if err != nil {
			return "", err
		}
		docs = between(docs, since, c.from)
		if why = r.mayJoin(docs, since, c.from); why != "" {
			continue
		}
		past, err := r.reader.readPast(ctx, docs, since, c.look, &state.Set)
		if err != nil {
			return "", err
		}
		until, behind := covered(past, since, c.from)
		if until.Compare(c.from) < 0 {
			why = gapBetween(kind, until, behind, c.from)
			continue
		}
		r.report.plan(fmt.Sprintf("set %s: caught up from %s to %s through %s of its archive",
			r.set.Name, wording.Time(since.Time()), wording.Time(c.from.Time()), wording.Plural(int64(len(past)), archivedName(kind))))
		c.follow(past)
		c.lost = c.judge(&state.Set)
		return "", nil
	}
	return why, nil
}

func (r *setRun) mayJoin(docs []archived, from, to resourcesync.Datetime) string {
	if len(docs) > maxCatchUp {
		return fmt.Sprintf("there are %d archived documents between, more than %d", len(docs), maxCatchUp)
	}
	said := make([]pastDoc, len(docs))
	now := time.Now()
	for i := range docs {
		d := &docs[i]
		said[i] = pastDoc{from: d.from, until: d.closed(now), whole: true}
		if said[i].until.IsZero() || d.approx { // its events show how far it reaches
			said[i].until = to
		}
		if said[i].from.IsZero() {
			said[i].from = from
		}
	}
	kind := resourcesync.ChangeList
	if len(docs) > 0 {
		kind = docs[0].kind
	}
	if until, behind := covered(said, from, to); until.Compare(to) < 0 {
		return gapBetween(kind, until, behind, to)
	}
	return ""
}
