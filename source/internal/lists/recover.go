package lists

import (
	"context"
	"log/slog"
	"time"

	"lockstep/catalog"
	"lockstep/source/internal/names"
)

// recoverChanges reads off a published index where the parts of the Change
// List begin and end, for when the state that says so is lost: closed parts
// must stay as they are. It returns nil if there is no index that the catalog
// agrees with.
func (p *publication) recoverChanges(ctx context.Context, kept catalog.Mark) (*changeState, error) {
	parts, err := p.reader().readIndex(ctx)
	if err != nil || len(parts) == 0 {
		return nil, err
	}
	first, open := parts[0], parts[len(parts)-1]
	if first.From.Before(kept.At) {
		return nil, nil
	}
	c := &changeState{After: kept.Seq, From: first.From, Closed: parts[:len(parts)-1], Through: p.status.Last, ThroughTime: p.status.LastTime}
	next := 0 // of the parts, whose first change was not met yet
	last := kept.Seq
	var began time.Time // the open part
	for change, err := range p.catalog.Changes(ctx, p.docs.CapabilityList(p.set.Name), kept.Seq) {
		if err != nil {
			return nil, err
		}
		for next < len(parts) && change.EventTime.After(parts[next].From) {
			if next == 0 {
				c.After = last
			} else {
				c.Closed[next-1].Last = last
			}
			if next++; next == len(parts) {
				began = change.EventTime
			}
		}
		last = change.Seq
	}
	for ; next < len(parts); next++ {
		if next == 0 {
			c.After = last
		} else {
			c.Closed[next-1].Last = last
		}
	}
	c.Open = openPart{Name: open.Name, From: open.From, After: c.After, First: began, Used: 1}
	for names.Set(p.set.Name).ChangeListPart(open.From, c.Open.Used) != open.Name && c.Open.Used < len(p.there) {
		c.Open.Used++
	}
	if n := len(c.Closed); n > 0 {
		c.Open.After = c.Closed[n-1].Last
	}
	p.docs.Log.InfoContext(ctx, "publishing state was lost; the parts of the change list are known from its index", slog.String("set", p.set.Name))
	return c, nil
}
