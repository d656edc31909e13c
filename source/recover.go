package source

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source/internal/names"
)

// recoverChanges reads off a published index where the parts of the Change
// List begin and end, for when the state that says so is lost: closed parts
// must stay as they are. It returns nil if there is no index that the catalog
// agrees with.
func (p *publication) recoverChanges(ctx context.Context, kept catalog.Mark) (*changeState, error) {
	parts, err := p.readIndex(ctx)
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
	for names.ChangeListPart(p.set.Name, open.From, c.Open.Used) != open.Name && c.Open.Used < len(p.there) {
		c.Open.Used++
	}
	if n := len(c.Closed); n > 0 {
		c.Open.After = c.Closed[n-1].Last
	}
	p.docs.Log.InfoContext(ctx, "publishing state was lost; the parts of the change list are known from its index", slog.String("set", p.set.Name))
	return c, nil
}

// readIndex returns the parts the published index of the Change List names;
// none if there is no index, or none of ours.
func (p *publication) readIndex(ctx context.Context) ([]closedPart, error) {
	name := names.ChangeList(p.set.Name)
	if !p.there.taken(name) {
		return nil, nil
	}
	r, err := p.docs.Open(ctx, name)
	if errors.Is(err, blob.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer r.Close() // opened for reading only
	d := resourcesync.NewReader(r, resourcesync.ReaderOptions{Base: p.docs.Base.URI(name), Strict: true})
	h, err := d.Header()
	if err != nil || !h.Index || h.Capability != resourcesync.ChangeList || h.Link(resourcesync.RelUp) != p.docs.CapabilityList(p.set.Name) {
		return nil, nil // not ours
	}
	var parts []closedPart
	until := h.From.Time()
	for e, err := range d.Entries() {
		part := closedPart{Name: strings.TrimPrefix(e.Loc, p.docs.Base.Prefix), From: e.From.Time(), Until: e.Until.Time()}
		if err != nil || !names.IsChangePart(p.set.Name, part.Name) || !p.there.taken(part.Name) || !part.From.Equal(until) || until.IsZero() {
			return nil, nil // not as we wrote it
		}
		until = part.Until
		parts = append(parts, part)
	}
	if until != (time.Time{}) {
		return nil, nil
	}
	return p.followParts(ctx, parts)
}

// followParts goes on from the part that an index takes for open, if that has
// been closed since: what the part says of itself holds (RS-CHI-10).
func (p *publication) followParts(ctx context.Context, parts []closedPart) ([]closedPart, error) {
	for {
		last := &parts[len(parts)-1]
		h, err := p.readHeader(ctx, last.Name)
		if err != nil || h.Until.IsZero() {
			return parts, err
		}
		last.Until = h.Until.Time()
		next := closedPart{From: last.Until}
		for n := 1; ; n++ {
			name := names.ChangeListPart(p.set.Name, next.From, n)
			if !p.there.taken(name) {
				break
			}
			next.Name = name
		}
		if next.Name == "" {
			return nil, nil // not as we wrote it
		}
		parts = append(parts, next)
	}
}

// readHeader returns what a document says of itself; nothing if it is none.
func (p *publication) readHeader(ctx context.Context, name string) (resourcesync.Header, error) {
	r, err := p.docs.Open(ctx, name)
	if err != nil {
		return resourcesync.Header{}, err
	}
	defer r.Close() // opened for reading only
	h, err := resourcesync.NewReader(r, resourcesync.ReaderOptions{Base: p.docs.Base.URI(name), Strict: true}).Header()
	if err != nil {
		return resourcesync.Header{}, nil // whatever it is, it is written anew
	}
	return h, nil
}
